"""Forms in which values are written: zeros and labels of numbers, parts and abbreviations of addresses, dates."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date

from medunlearn.audit.identifiers.name_forms import full_forms
from medunlearn.audit.identifiers.normalized_text import words_of
from medunlearn.audit.identifiers.written_dates import dates_in

SHORTEST_NUMBER, SHORTEST_CUED, SHORTEST_BARE = 5, 3, 6
"""Fewest digits of a number by itself, of one beside a cue, and of one without the letters that belong to it."""
CUE = re.compile(
    r"(?:\b(?:mrn|record|chart|patient|account|acct|member|policy|case|id|no|number|nr)\b|#)[\s.:#]*(?:\w{1,6}[\s.:#]+)?$",
    re.IGNORECASE,
)
"""What stands before a number that is too short to be searched by itself."""
CUE_LENGTH = 24
_LABEL = re.compile(
    r"^(?:mrn|medical record|record|chart|patient|account|acct|id|no|number|nr|phone|tel|fax)[\s.:#-]*", re.I
)
_STREETS = (
    *(("street", "st"), ("avenue", "ave"), ("road", "rd"), ("drive", "dr"), ("lane", "ln"), ("court", "ct")),
    *(("boulevard", "blvd"), ("place", "pl"), ("square", "sq"), ("terrace", "ter"), ("highway", "hwy")),
    *(("parkway", "pkwy"), ("circle", "cir"), ("north", "n"), ("south", "s"), ("east", "e"), ("west", "w")),
    *(("apartment", "apt"), ("suite", "ste")),
)
_SHORT_OF = dict(_STREETS)
_LONG_OF = {short: long for long, short in _STREETS}
_UNIT = re.compile(r"[,\s]+(?:apt|apartment|unit|suite|ste|floor|fl|#)\.?\s*#?\s*\w+$", re.IGNORECASE)
_ZIP = re.compile(r"(?<!\w)(\d{5})(?:-\d{4})?(?!\w)\s*$|(?<!\w)([A-Z]{1,2}\d[A-Z\d]?\s?\d[A-Z]{2})\s*$")
_STATE = re.compile(r"(?:(?<=\s)|^)[A-Z]{2}\s*$")
_LEAST = 4


def number_keys(value: str) -> tuple[str, ...]:
    """Compact letters and digits of a number: as declared, without its label, leading zeros, a country code."""
    bare = _LABEL.sub("", value.strip())
    keys = ["".join(words_of(value)), "".join(words_of(bare))]
    keys += [without_zeros(key) for key in keys]
    if value.strip().startswith("+") or (keys[0].isdigit() and len(keys[0]) == 11 and keys[0][0] == "1"):
        keys.append(keys[0][-10:])
    return tuple(dict.fromkeys(key for key in keys if any(letter.isdigit() for letter in key)))


def written_phrases(value: str) -> tuple[tuple[str, ...], ...]:
    """Folded words of each form of a value, for a search by phrases; first as declared.

    The kind follows from the value: a date, a number or an address, or a name.
    """
    words = words_of(value)
    forms = [words]
    dates = dates_in(value)
    if dates and dates[0][:2] == (0, len(value.strip())):
        forms += [tuple(form) for day in dates[0][2] for form in _date_words(day)]
    elif any(map(str.isdigit, value)):
        forms += [(key,) for key in number_keys(value) if len(key) >= SHORTEST_NUMBER]
        forms += [tuple(form.split(" ")) for form in address_forms(value)]
    else:
        forms += [tuple(form.split(" ")) for form in full_forms(value)]
    return tuple(form for form in dict.fromkeys(forms) if form)


def _date_words(day: date) -> Iterator[tuple[str, ...]]:
    """A day in digits and with the month's English name, in the orders in use."""
    year, month = f"{day.year:04d}", f"{day:%B}".lower()
    numbers = {(f"{day.month:02d}", f"{day.day:02d}"), (str(day.month), str(day.day))}
    for in_year, in_month in numbers:
        yield from ((year, in_year, in_month), (in_year, in_month, year), (in_month, in_year, year))
        for name in (month, month[:3]):
            yield from ((name, in_month, year), (in_month, name, year), (year, name, in_month))
            yield (f"{in_month}{name}{year}",)
    yield (f"{day:%Y%m%d}",)


def bare_digits(value: str) -> str:
    """The digits of a number with letters (``HX-204511``), if they are enough to stand alone; else empty."""
    key = "".join(words_of(value))
    digits = "".join(letter for letter in key if letter.isdigit())
    return digits if digits != key and len(digits) >= SHORTEST_BARE and digits in key else ""


def without_zeros(key: str) -> str:
    """A number without leading zeros; letters are never cut."""
    return key.lstrip("0") if key.isdigit() else key


def address_forms(value: str) -> tuple[str, ...]:
    """An address in folded words: as declared, with every street word in full, with every one abbreviated."""
    words = words_of(value)
    forms = (words, [_LONG_OF.get(word, word) for word in words], [_SHORT_OF.get(word, word) for word in words])
    return tuple(dict.fromkeys(" ".join(form) for form in forms))


def address_parts(value: str) -> Iterator[tuple[str, ...]]:
    """Forms of each part of an address: house and street, street, town, postal code.

    Nothing of a value of one part. A part may be many people's: it is looked for in the patient's own responses.
    """
    pieces = [piece.strip() for piece in re.split(r"[,\n;]+", value) if words_of(piece)]
    if pieces and (code := _ZIP.search(pieces[-1])):
        yield (" ".join(words_of(code[1] or code[2])),)
        pieces[-1] = pieces[-1][: code.start()].strip()
    if pieces:
        pieces[-1] = _STATE.sub("", pieces[-1]).strip()
    pieces = [piece for piece in pieces if words_of(piece)]
    if len(pieces) < 2 and not (pieces and re.match(r"\d", pieces[0])):
        return
    for piece in pieces:
        street = _UNIT.sub("", piece)
        words = words_of(street)
        if words[0][0].isdigit() and len(words) > 2:
            yield address_forms(street)
            words = words[1:]
            if len(words) > 1:
                yield address_forms(" ".join(words))
        elif len("".join(words)) >= _LEAST and not any(letter.isdigit() for letter in words[0]):
            yield address_forms(piece)
