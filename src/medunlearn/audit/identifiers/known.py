"""Exact search for declared identifiers in any text, with the records that contain them.

Every identifier has a key: its folded words, its number without punctuation, its day, or its years. Each run of
words of a text is looked up, so time grows with the text and not with the number of identifiers.

Equal values:
- ``words``: the same words in the same order, ignoring case, accents and punctuation; at most three characters
  between two of them, and no blank line. A name also in its other full forms (:mod:`~.name_forms`), an address also
  with abbreviations.
- ``number``: the same letters and digits, with at most two characters between parts and any leading zeros. One of
  three or four digits only beside a cue (``MRN 4711``).
- ``date``: the same day in any form (:mod:`~.written_dates`). ``age``: the same years, written as an age.

Names of words of one or two letters (``Li Na``) must be written as names, and not among laboratory values. Parts of
an address, a name's short forms and a number without its letters are many people's:
:class:`~medunlearn.audit.identifiers.fuzzy.FuzzyIndex` looks for them in their patient's own responses.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from medunlearn.audit.identifiers.kinds import NAMES, Form, kind_of, kinds
from medunlearn.audit.identifiers.name_forms import TITLES, full_forms, short_forms
from medunlearn.audit.identifiers.normalized_text import HEAD, IndexedText, ages_in, is_unspaced, words_of
from medunlearn.audit.identifiers.value_forms import (
    CUE,
    CUE_LENGTH,
    SHORTEST_CUED,
    SHORTEST_NUMBER,
    address_forms,
    address_parts,
    bare_digits,
    number_keys,
    without_zeros,
)
from medunlearn.audit.identifiers.written_dates import dates_in
from medunlearn.data.records import Record

SHORTEST = 3
"""Fewest characters of a value's longest word; shorter values are in any text by chance."""
_SHORT_GAP, _TITLE_GAP = re.compile(r"[ -]|, "), re.compile(r"\.? ?")
"""Between two words of a short name."""
_UNSPACED_GAP = re.compile(r"[\s·•・]?")
_LABORATORY = re.compile(r"\s*[:=]?\s*[<>]?\d|\s*[,/]\s*[A-Z][A-Za-z]?\d?\b(?!\.)")
_POINT_AFTER, _POINT_BEFORE = re.compile(r"\.\d"), re.compile(r"\d\.$")
_BEFORE_LABORATORY = re.compile(r"\b[A-Z][a-z]?\d?\s*[,/]\s*$")


class KnownIdentifier(NamedTuple):
    """One distinct identifier: its index, kind, normalized value, and the records that contain it."""

    number: int
    kind: str
    key: str
    owners: tuple[str, ...]


class Hit(NamedTuple):
    """A match of an identifier in a text.

    ``numbers`` are indices of the possible identifiers; several if kinds share a value or a date is ambiguous.
    ``similarity`` is 1 for an exact match.
    """

    start: int
    end: int
    numbers: tuple[int, ...]
    similarity: float = 1.0


class KnownIdentifiers:
    """Index of the identifiers that records declare.

    Args:
        subject: record id -> subject; a record without one is its own subject.

    Attributes:
        skipped: reason for not searching -> number of identifiers.
        short: number of an identifier -> its forms that many people share.
        parts: parts of addresses, which :meth:`find` does not look for.
    """

    def __init__(self, records: Iterable[Record], subject: Mapping[str, str] | None = None) -> None:
        self.identifiers: list[KnownIdentifier] = []
        self.subject = dict(subject or {})
        self.skipped: Counter[str] = Counter()
        self._index: dict[Form, dict[str, list[int]]] = {"words": {}, "number": {}, "date": {}, "age": {}}
        self._cued: dict[str, list[int]] = {}
        self.short: dict[int, tuple[str, ...]] = {}
        self.parts: list[KnownIdentifier] = []
        owners: dict[tuple[str, str], dict[str, None]] = {}
        forms: dict[tuple[str, str], tuple[Form, tuple[str, ...]]] = {}
        values: dict[tuple[str, str], str] = {}
        parts: dict[tuple[str, tuple[str, ...]], dict[str, None]] = {}
        for record in records:
            self.subject.setdefault(record.record_id, record.record_id)
            for declared in record.identifiers:
                kind = kind_of(declared.type)
                form, keys = keys_of(kind.name, declared.value)
                if keys:
                    owners.setdefault((kind.name, keys[0]), {})[record.record_id] = None
                    forms[kind.name, keys[0]] = form, keys
                    values.setdefault((kind.name, keys[0]), declared.value)
                    for part in address_parts(declared.value) if kind.group == "locations" else ():
                        parts.setdefault((kind.name, part), {})[record.record_id] = None
                else:
                    short = "too short to be told from chance, or without a letter or digit"
                    self.skipped[f"{kind.name}: {'no text holds one' if kind.form == 'none' else short}"] += 1
        for number, ((name, key), holders) in enumerate(owners.items()):
            self.identifiers.append(KnownIdentifier(number, name, key, tuple(holders)))
            form, keys = forms[name, key]
            for form_key in keys:
                cued = form == "number" and len(form_key) < SHORTEST_NUMBER
                (self._cued if cued else self._index[form]).setdefault(form_key, []).append(number)
            if short_keys := _short(form, name, values[name, key]):
                self.short[number] = short_keys
        for (name, part), holders_of_part in parts.items():
            # A town that is declared by itself is no part.
            if (name, part[0]) not in owners:
                identifier = KnownIdentifier(len(self.identifiers), name, part[0], tuple(holders_of_part))
                self.identifiers.append(identifier)
                self.parts.append(identifier)
                self.short[identifier.number] = part[1:]
        lengths: dict[str, set[int]] = {}
        for words in (key.split(" ") for key in self._index["words"]):
            lengths.setdefault(words[0], set()).add(len(words))
        self._lengths = {word: sorted(counts, reverse=True) for word, counts in lengths.items()}
        numbers = (*self._index["number"], *self._cued)
        self._number_lengths = range(SHORTEST_CUED, 1 + max(map(len, numbers), default=0))
        self._number_heads = {number[:size] for number in numbers for size in range(1, HEAD + 1)}

    def find(self, text: IndexedText | str) -> list[Hit]:
        """Exact matches sorted by position, without those inside longer ones."""
        return outermost(self.every(IndexedText.of(text) if isinstance(text, str) else text))

    def every(self, text: IndexedText) -> Iterator[Hit]:
        """Exact matches, including those inside longer ones, unordered."""
        yield from self._by_words(text)
        yield from self._by_number(text)
        days, years = self._index["date"], self._index["age"]
        for start, end, dates in dates_in(text.raw, spaced=True) if days else ():
            numbers = dict.fromkeys(number for day in sorted(dates) for number in days.get(day.isoformat(), ()))
            if numbers:
                yield Hit(start, end, tuple(numbers))
        for start, end, age in ages_in(text.raw) if years else ():
            if str(age) in years:
                yield Hit(start, end, tuple(years[str(age)]))

    def _by_words(self, text: IndexedText) -> Iterator[Hit]:
        lengths, forms, words = self._lengths, self._index["words"], text.words
        for first, word in enumerate(words):
            for count in lengths.get(word, ()):
                numbers = forms.get(" ".join(words[first : first + count]))
                # The last words of a text are fewer than asked for, and may be another, shorter form.
                if numbers and is_written(text, first, count):
                    yield Hit(text.starts[first], text.ends[first + count - 1], tuple(numbers))

    def _by_number(self, text: IndexedText) -> Iterator[Hit]:
        codes, cued = self._index["number"], self._cued
        for key, first, count in text.numbers(self._number_lengths, self._number_heads) if codes or cued else ():
            bare = without_zeros(key)
            behind_cue, numbers = cued.get(bare), codes.get(key) or codes.get(bare)
            if not (numbers or behind_cue):
                continue
            start, end = text.starts[first], text.ends[first + count - 1]
            if numbers is None and CUE.search(text.raw[max(0, start - CUE_LENGTH) : start]):
                numbers = behind_cue
            # ``48.213`` is no part of ``48.213.7``.
            before = text.raw[max(0, start - 2) : start]
            if numbers and not _POINT_AFTER.match(text.raw, end) and not _POINT_BEFORE.match(before):
                yield Hit(start, end, tuple(numbers))


def is_written(text: IndexedText, first: int, count: int) -> bool:
    """True if these words of a text may be one value: close together, and a short name written as one."""
    words = text.words[first : first + count]
    if len(words) < count or not text.joined(first, count):
        return False
    gaps = [text.raw[text.ends[at] : text.starts[at + 1]] for at in range(first, first + count - 1)]
    if all(map(is_unspaced, words)):
        return all(map(_UNSPACED_GAP.fullmatch, gaps))
    if any(len(word) >= SHORTEST and word not in TITLES for word in words):
        return True
    start, end = text.starts[first], text.ends[first + count - 1]
    return (
        all(text.raw[at].isupper() for at in text.starts[first : first + count])
        and all(
            (_TITLE_GAP if word in TITLES else _SHORT_GAP).fullmatch(gap)
            for word, gap in zip(words, gaps, strict=False)
        )
        and not _LABORATORY.match(text.raw, end)
        and not _BEFORE_LABORATORY.search(text.raw[max(0, start - 8) : start])
    )


def _short(form: Form, kind: str, value: str) -> tuple[str, ...]:
    """Forms of a value that many people share."""
    if kind in NAMES:
        return short_forms(value)
    digits = bare_digits(value) if form == "number" else ""
    return (digits,) if digits else ()


def keys_of(kind: str, value: str) -> tuple[Form, tuple[str, ...]]:
    """A value's form and search keys; the first key is its identity, no key means it is not searched.

    A date without a day falls back to words; an age is the first number in the value.
    """
    form = kinds()[kind].form
    words = words_of(value)
    if form == "date":
        if days := dates_in(value):
            return "date", tuple(day.isoformat() for day in sorted(days[0][2]))
        return "words", (" ".join(words),) if len(words) > 1 else ()
    if form == "age":
        number = next((word for word in words if word[:1].isdecimal()), "")
        years = "".join(letter for letter in number if letter.isdecimal())
        return "age", (str(int(years)),) if years else ()
    if form == "number":
        key = "".join(words)
        # Letters alone (a license plate, say) are words.
        if not any(letter.isdigit() for letter in key):
            return "words", (" ".join(words),) if len(key) >= SHORTEST else ()
        least = SHORTEST_CUED if kinds()[kind].group == "numbers" else SHORTEST_NUMBER
        return "number", tuple(key for key in number_keys(value) if len(key) >= least)
    if form == "none" or not words:
        return form, ()
    short = len(words) < 2 if all(map(is_unspaced, words)) else max(map(len, words)) < SHORTEST
    if kind in NAMES:
        # ``Li`` and ``J. S.`` are in any text.
        written = [word for word in words if len(word) > 1 or is_unspaced(word)]
        return "words", () if short and len(written) < 2 else full_forms(value)
    if short:
        return form, ()
    return "words", address_forms(value) if kinds()[kind].group == "locations" else (" ".join(words),)


def outermost(hits: Iterable[Hit]) -> list[Hit]:
    """Hits sorted by position, without those inside another; hits with equal offsets are merged."""
    outer: list[Hit] = []
    for hit in sorted(hits, key=lambda hit: (hit.start, -hit.end)):
        last = outer[-1] if outer else None
        if last is not None and (last.start, last.end) == (hit.start, hit.end):
            outer[-1] = Hit(hit.start, hit.end, tuple(dict.fromkeys((*last.numbers, *hit.numbers))))
        elif last is None or hit.end > last.end:
            outer.append(hit)
    return outer
