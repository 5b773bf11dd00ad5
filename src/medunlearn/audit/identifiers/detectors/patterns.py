"""Rule-based detector: nothing to install, nothing to load, and as good as its rules.

It knows formats (dates, ages, numbers, addresses, facilities ending in "Hospital"), the words around names, and
common given names. It misses rare names without a cue: measure its recall (:mod:`recall`) before you rely on its
counts.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import NamedTuple

import yaml

from medunlearn.audit.identifiers.detectors.date_elements import date_elements_in
from medunlearn.audit.identifiers.detectors.detected_spans import DetectedSpan, without_overlaps
from medunlearn.audit.identifiers.detectors.gazetteer import GAZETTEER, gazetteer
from medunlearn.audit.identifiers.detectors.person_names import names_in
from medunlearn.audit.identifiers.detectors.spoken_names import spoken_names_in
from medunlearn.audit.identifiers.normalized_text import ages_in, lowered
from medunlearn.audit.identifiers.written_dates import dates_in

_FILE = files(__package__) / "rules.yaml"
_RULES_VERSION = "3"
_AGE_OF_NAME = re.compile(r",?\s\(?(?P<years>1[01]\d|[1-9]?\d)(?=\)|,\s[a-z]|,?\s(?:is|was|has|had)\b)")
_PLACE = re.compile(
    r"\b(?:in|from|near|to|of|at|outside|around)\s(?P<it>(?:(?:St|Mt|Ft)\.?\s)?[A-Z][\w'’-]+(?:\s(?:of\s|the\s|on\s)?[A-Z][\w'’-]+){0,3})"
)
_PLACE_BEFORE = re.compile(
    r"(?<![\w-])(?:(?:St|Mt|Ft)\.?\s)?[A-Z][\w'’-]+(?:\s(?:of\s|the\s|on\s)?[A-Z][\w'’-]+){0,3}$"
)
_FRAGMENT = re.compile("<([A-Z_]+)>")
_DIGITS = str.maketrans("123456789", "0" * 9)
_DIGIT = re.compile(r"\d")
_AS_I_OR_S = str.maketrans("İıſ", "iis")
"""Letters that ``re`` takes for an i or an s where it ignores case."""
_CUE_LENGTH = 64
_MONTHS = frozenset(
    ("january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november",
     "december", "jan", "feb", "mar", "apr", "jun", "jul", "aug", "sept", "sep", "oct", "nov", "dec", "spring",
     "summer", "fall", "autumn", "winter")
)  # fmt: skip


class Form(NamedTuple):
    """Regular expression of one kind: the group ``it`` is the identifier.

    Attributes:
        needs: a text with a match contains one of these pieces, if there are any.
        part: a piece that each match contains, which is found sooner than the whole.
    """

    kind: str
    score: float
    expression: re.Pattern[str]
    needs: tuple[str, ...]
    part: re.Pattern[str] | None


class CuedForm(NamedTuple):
    """Regular expression that is an identifier of a kind only after a cue, which contains one of ``needs``."""

    kind: str
    score: float
    cue: re.Pattern[str]
    needs: tuple[str, ...] = ()


class Rules(NamedTuple):
    """Content of ``rules.yaml``; ``cued`` groups the forms that need a cue by their format and its pieces.

    The cues of ``endings`` are the words that end a place's name.
    """

    forms: tuple[Form, ...]
    cued: Mapping[tuple[re.Pattern[str], tuple[str, ...]], Sequence[CuedForm]]
    endings: tuple[CuedForm, ...]
    before_place: tuple[str, ...]
    cities: re.Pattern[str]


class Patterns:
    """Detector by regular expressions for formatted identifiers, by cues and word lists for others."""

    name, light = "patterns", True

    def __init__(self) -> None:
        words = b"".join(file.read_bytes() for file in (_FILE, GAZETTEER))
        self.version = f"{_RULES_VERSION}-{hashlib.sha256(words).hexdigest()[:8]}"
        behind_cues = [form.kind for forms in rules().cued.values() for form in forms]
        of_rules = [form.kind for form in rules().forms] + [form.kind for form in rules().endings] + behind_cues
        self.kinds = tuple(dict.fromkeys(("date", "age", "name", "clinician", "location", *of_rules)))

    def find(self, texts: Sequence[str]) -> list[list[DetectedSpan]]:
        return [without_overlaps([*_spans(text)]) for text in texts]


def _spans(text: str) -> Iterator[DetectedSpan]:
    lower = lowered(text)
    for start, end, _ in dates_in(text):
        yield DetectedSpan(start, end, "date", 0.9)
    for start, end, sure in date_elements_in(text, lower):
        yield DetectedSpan(start, end, "date", 0.9 if sure else 0.7)
    for start, end, _ in ages_in(text):
        yield DetectedSpan(start, end, "age", 0.8)
    for name in (*names_in(text), *spoken_names_in(text)):
        yield DetectedSpan(*name)
        if match := _AGE_OF_NAME.match(text, name.end):
            yield DetectedSpan(*match.span("years"), "age", 0.8)
    shape, parts = lower.translate(_DIGITS), dict[re.Pattern[str] | None, bool]({None: True})
    for form in rules().forms:
        if form.part is not None and form.part not in parts:
            parts[form.part] = form.part.search(text) is not None
        if parts[form.part] and (not form.needs or _has_any(shape, form.needs)):
            for match in form.expression.finditer(text):
                if form.kind not in ("hospital", "location") or _is_place(form.kind, match["it"]):
                    yield DetectedSpan(*match.span("it"), form.kind, form.score)
    yield from _numbers_after_cue(text, shape if text.isascii() else _DIGIT.sub("0", lower.translate(_AS_I_OR_S)))
    yield from _places(text)
    yield from _facilities(text)


def _numbers_after_cue(text: str, shape: str) -> Iterator[DetectedSpan]:
    """Numbers that are identifiers because of the words before them."""
    for (expression, pieces), all_forms in rules().cued.items():
        forms = [form for form in all_forms if _has_any(shape, form.needs)] if _has_any(shape, pieces) else ()
        for match in expression.finditer(text) if forms else ():
            start, end = match.span()
            first = max(0, start - _CUE_LENGTH)
            near = shape[first:start]
            for form in forms:
                if _has_any(near, form.needs) and form.cue.search(text[first:start]):
                    yield DetectedSpan(start, end, form.kind, form.score)


def _has_any(shape: str, pieces: Iterable[str]) -> bool:
    return any(piece in shape for piece in pieces)


def _places(text: str) -> Iterator[DetectedSpan]:
    """Large cities, and any place where somebody is said to live, travel or come from."""
    for match in _PLACE.finditer(text):
        start, end = match.span("it")
        if city := rules().cities.match(text, start, end):
            yield DetectedSpan(start, city.end(), "location", 0.85)
        elif text[max(0, start - 24) : start].rstrip().lower().endswith(rules().before_place) and _is_place(
            "location", match["it"]
        ):
            yield DetectedSpan(start, end, "location", 0.8)


def _facilities(text: str) -> Iterator[DetectedSpan]:
    """Hospitals, schools and other facilities: capitalized words that end with the type of facility."""
    for form in rules().endings:
        for match in form.cue.finditer(text):
            start, end = match.span()
            name = _PLACE_BEFORE.search(text, max(0, start - _CUE_LENGTH), start)
            if name and _is_place(form.kind, text[name.start() : end]):
                yield DetectedSpan(name.start(), end, form.kind, form.score)


def _is_place(kind: str, value: str) -> bool:
    """True if a place has a name of its own, and is not a state or country (``Hematology Clinic``, ``Ohio``)."""
    words = [word.strip(".,").lower() for word in value.split()]
    if kind == "location":
        own = words[0] not in gazetteer().no_names or words[0] in ("st", "new", "north")
        return own and words[0] not in _MONTHS and value.lower() not in gazetteer().large_places
    if words[0] in ("st", "saint"):
        return True
    name_words = (word.removesuffix("'s").removesuffix("’s") for word in words[:-1])
    return not all(word in gazetteer().no_names or word in ("of", "the", "on", "and") for word in name_words)


@cache
def rules() -> Rules:
    """The rules of ``rules.yaml``, in its order."""
    content = yaml.safe_load(_FILE.read_bytes())
    forms, cued_rows, fragments = content.pop("forms"), content.pop("cued"), content.pop("fragments")
    ending_rows = content.pop("endings")
    for name, words in content.items():
        fragments[name.upper()] = "|".join(re.escape(word).replace(r"\ ", r"\s") for word in words)

    def filled(form: str) -> re.Pattern[str]:
        while _FRAGMENT.search(form):
            form = _FRAGMENT.sub(lambda match: fragments[match[1]], form)
        return re.compile(form)

    cued: dict[tuple[re.Pattern[str], tuple[str, ...]], list[CuedForm]] = {}
    for kind, score, form, pieces, cue, needs in cued_rows:
        key = filled(form), tuple(pieces)
        cued.setdefault(key, []).append(CuedForm(kind, score, filled(cue), tuple(needs)))
    plain = [
        Form(kind, score, filled(form), tuple(needs or ()), filled(part[0]) if part else None)
        for kind, score, form, needs, *part in (row if len(row) > 3 else [*row, None] for row in forms)
    ]
    endings = tuple(CuedForm(kind, score, filled(form)) for kind, score, form in ending_rows)
    return Rules(tuple(plain), cued, endings, tuple(content["before_place"]), filled(r"(?:<CITIES>)\b(?!\s[A-Z])"))
