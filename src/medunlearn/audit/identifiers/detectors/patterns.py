"""A detector of rules alone: nothing to install, nothing to load, and as good as its rules.

It knows forms (dates, ages, numbers, addresses, what ends in "Hospital") and the words around names. A bare name in
running text it misses: measure it (:mod:`recall`) before you rely on its counts.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from functools import cache
from importlib.resources import files

import yaml

from medunlearn.audit.identifiers.detectors import DetectedSpan, without_overlaps
from medunlearn.audit.identifiers.kinds import NAMES
from medunlearn.audit.identifiers.normalized_text import ages_in, dates_in

_FILE = files(__package__) / "rules.yaml"
_RULES_VERSION = "1"


class Patterns:
    """Regular expressions for what has a form, cues for what has none."""

    name = "patterns"

    def __init__(self) -> None:
        self.version = f"{_RULES_VERSION}-{hashlib.sha256(_FILE.read_bytes()).hexdigest()[:8]}"
        self.kinds = tuple(dict.fromkeys(("date", "age", *(kind for kind, _, _ in _rules()[0]))))

    def find(self, texts: Sequence[str]) -> list[list[DetectedSpan]]:
        return [without_overlaps(_spans(text)) for text in texts]


def _spans(text: str) -> Iterator[DetectedSpan]:
    forms, no_names = _rules()
    for start, end, _ in dates_in(text):
        yield DetectedSpan(start, end, "date", 0.9)
    for start, end, _ in ages_in(text):
        yield DetectedSpan(start, end, "age", 0.8)
    for kind, score, form in forms:
        for match in form.finditer(text):
            words = match["it"].split() if kind in NAMES else ()
            if no_names.isdisjoint(word.strip(".,") for word in words):
                yield DetectedSpan(*match.span("it"), kind, score)


@cache
def _rules() -> tuple[list[tuple[str, float, re.Pattern[str]]], frozenset[str]]:
    """Kind, score and expression of each form, and the words that are in no name."""
    rules = yaml.safe_load(_FILE.read_bytes())
    forms, fragments, no_names = rules.pop("forms"), rules.pop("fragments"), rules.pop("no_names")
    for name, words in rules.items():
        fragments[name.upper()] = "|".join(re.escape(word).replace(r"\ ", r"\s") for word in words)

    def filled(form: str) -> str:
        return re.sub("<([A-Z_]+)>", lambda match: filled(fragments[match[1]]), form)

    return [(kind, score, re.compile(filled(form))) for kind, score, form in forms], frozenset(no_names)
