"""A detector of rules alone: nothing to install, nothing to load, and as good as its rules.

It knows forms (dates, ages, numbers, addresses, what ends in "Hospital") and the words around names. A bare name in
running text it misses: measure it (:mod:`recall`) before you rely on its counts.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any, ClassVar

import yaml

from medunlearn.audit.identifiers.detectors import DetectedSpan, without_overlaps
from medunlearn.audit.identifiers.text import ages_in, dates_in

_RULES_VERSION = "1"
_CAPITAL = r"[A-Z][^\W\d_]+(?:['’-][A-Z]?[^\W\d_]+)*"
_NAME = rf"{_CAPITAL}(?:\s(?:[A-Z]\.\s)?{_CAPITAL}){{1,3}}"
_PLACE = r"(?:[A-Z][\w'’-]+)(?:\s(?:of\s|the\s|on\s)?[A-Z][\w'’-]+){0,3}"
_CODE = r"(?=[A-Z0-9-]*\d{3})[A-Z0-9][A-Z0-9-]{3,}[A-Z0-9]"
_NUMBER_WORDS: Mapping[str, str] = {
    "record_number": r"MRN|accession|(?:medical\s+)?(?:record|chart)(?:\s+(?:number|no\.?|id))?",
    "health_plan_number": r"(?:health\s+plan|insurance|member|policy|beneficiary)(?:\s+(?:number|no\.?|id))",
    "account_number": r"(?:bank\s+)?account(?:\s+(?:number|no\.?))?|acct",
    "license_number": r"licen[sc]e(?:\s+(?:number|no\.?))?|DEA(?:\s+number)?|NPI",
    "vehicle": r"(?:license|number)\s+plate|VIN",
    "device": r"serial(?:\s+(?:number|no\.?))?|device(?:\s+(?:number|no\.?|id))",
}


class Patterns:
    """Regular expressions for what has a form, cues for what has none."""

    name: ClassVar[str] = "patterns"

    @property
    def version(self) -> str:
        return f"{_RULES_VERSION}-{_rules()[1]}"

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds that there are rules for."""
        return tuple(dict.fromkeys(("date", "age", *(kind for kind, _, _ in _forms()))))

    def find(self, texts: Sequence[str]) -> list[list[DetectedSpan]]:
        return [without_overlaps(_all(text)) for text in texts]


def _all(text: str) -> Iterator[DetectedSpan]:
    for dated in dates_in(text):
        yield DetectedSpan(dated.start, dated.end, "date", 0.9)
    for start, end, _ in ages_in(text):
        yield DetectedSpan(start, end, "age", 0.8)
    for kind, score, form in _forms():
        for match in form.finditer(text):
            if kind not in ("name", "clinician") or _may_be_name(match.group("it")):
                yield DetectedSpan(*match.span("it"), kind, score)


def _may_be_name(words: str) -> bool:
    refused = _rules()[0]["no_names"]
    return not any(word.strip(".,") in refused for word in words.split())


@cache
def _rules() -> tuple[Mapping[str, Any], str]:
    content = (files(__package__) / "rules.yaml").read_bytes()
    return yaml.safe_load(content), hashlib.sha256(content).hexdigest()[:8]


@cache
def _forms() -> tuple[tuple[str, float, re.Pattern[str]], ...]:
    """Kind, score and expression; the group ``it`` is the identifier."""
    return tuple((kind, score, re.compile(form)) for kind, score, form in (*_of_numbers(), *_of_cues()))


def _of_numbers() -> Iterator[tuple[str, float, str]]:
    yield "email", 1.0, r"(?P<it>[\w.+-]+@[\w-]+(?:\.[\w-]+)+\b)"
    yield "url", 1.0, r"(?P<it>\b(?:https?://|www\.)[^\s,;)]+)"
    yield "ip_address", 0.9, r"(?<![\d.])(?P<it>(?:\d{1,3}\.){3}\d{1,3})(?!\.?\d)"
    yield "ssn", 0.95, r"(?<![\d-])(?P<it>\d{3}-\d{2}-\d{4})(?![\d-])"
    yield "ssn", 1.0, r"(?i:SSN|social\s+security(?:\s+number)?)[\s:#is]*(?P<it>\d{3}[- ]?\d{2}[- ]?\d{4})(?!\d)"
    number = r"(?:\+?1[-. ])?(?:\(\d{3}\)\s?|\d{3}[-. ])\d{3}[-. ]\d{4}(?:\s?(?:x|ext\.?)\s?\d{1,5})?"
    yield "fax", 1.0, rf"(?i:fax)[\s:#]*(?P<it>{number})(?!\d)"
    yield "phone", 0.9, rf"(?<![\d-])(?P<it>{number})(?!\d)"
    for kind, words in _NUMBER_WORDS.items():
        yield kind, 0.95, rf"\b(?i:{words})[\s:#is]{{1,4}}(?P<it>{_CODE})\b"
    yield "record_number", 0.7, r"\b(?P<it>[A-Z]{2,3}-\d{5,9})\b"


def _of_cues() -> Iterator[tuple[str, float, str]]:
    rules = _rules()[0]
    titles, doctors = _any(rules["titles"]), _any(rules["clinician_titles"])
    one_or_more = rf"(?:[A-Z]\.\s)?{_CAPITAL}(?:\s(?:[A-Z]\.\s)?{_CAPITAL}){{0,2}}"
    yield "clinician", 0.9, rf"\b(?:{doctors})\.?\s(?P<it>{one_or_more})"
    yield "name", 0.85, rf"\b(?:{titles})\.?\s(?P<it>{one_or_more})"
    yield "clinician", 0.9, rf"(?i:\b(?:{_any(rules['before_clinician'])}))[:,]?\s(?:Dr\.?\s)?(?P<it>{_NAME})"
    yield "name", 0.8, rf"(?i:\b(?:{_any(rules['before_name'])}))[:,]?\s(?P<it>{_NAME})"
    born = r"(?=\s?[,(]?\s?\(?(?i:born|DOB|date\sof\sbirth|MRN|\d{4}-\d\d-\d\d|\d{1,3}(?:[,)]|[-\s]year)))"
    yield "name", 0.85, rf"(?P<it>{_NAME}){born}"
    yield "name", 0.85, rf"(?P<it>{_CAPITAL},\s{_CAPITAL}){born}"
    facilities = _any(sorted(rules["facilities"], key=len, reverse=True))
    yield "hospital", 0.9, rf"(?<![\w-])(?P<it>{_PLACE}\s(?:{facilities}))\b"
    street = rf"\d{{1,6}}\s(?:[A-Z][\w'’-]+\s){{1,3}}(?:{_any(rules['streets'])})\b\.?"
    town = r"(?:,\s(?:Apt\.?\s)?#?[A-Z\d][\w'’-]*(?:\s[A-Z][\w'’-]+){0,2}){0,3}(?:,?\s\d{5}(?:-\d{4})?\b)?"
    yield "location", 0.9, rf"\b(?P<it>{street}{town})"
    yield "location", 0.8, rf"(?i:\b(?:{_any(rules['before_place'])}))\s(?P<it>{_PLACE})"
    yield (
        "profession",
        0.8,
        rf"(?i:\b(?:{_any(rules['before_profession'])}))\s(?:an?\s)?(?P<it>[a-z]+(?:\s[a-z]+)?)",
    )


def _any(words: Sequence[str]) -> str:
    return "|".join(re.escape(word).replace(r"\ ", r"\s") for word in words)
