"""Identifiers that a detector finds in a text, and the interface of a detector."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol

from medunlearn.audit.identifiers.kinds import kinds

JOIN = "+"
"""Between the names of detectors that found one identifier."""
_NUMBER = re.compile(r"\d+")


class DetectedSpan(NamedTuple):
    """An identifier in a text.

    Attributes:
        start, end: offsets in characters.
        kind: name of its kind.
        score: the detector's confidence, 0-1.
        detectors: which of several detectors found it; empty for a single detector.
    """

    start: int
    end: int
    kind: str
    score: float = 1.0
    detectors: tuple[str, ...] = ()


class Detector(Protocol):
    """Detector of identifiers in any text; ``version`` changes whenever its output may change.

    One with ``light = True`` holds no model, and is copied to each of several processes.
    """

    @property
    def name(self) -> str: ...

    @property
    def version(self) -> str: ...

    def find(self, texts: Sequence[str]) -> list[list[DetectedSpan]]:
        """The spans of each text, sorted by position, without overlaps."""
        ...


def without_overlaps(spans: Sequence[DetectedSpan]) -> list[DetectedSpan]:
    """Of overlapping spans the most confident, then the longest, then the first; sorted by position."""
    separate: list[DetectedSpan] = []
    for span in sorted(spans, key=lambda span: (-span.score, span.start - span.end, span.start)):
        if all(span.end <= other.start or other.end <= span.start for other in separate):
            separate.append(span)
    return sorted(separate, key=lambda span: span.start)


def ages_as_numbers(spans: Iterable[DetectedSpan], text: str) -> list[DetectedSpan]:
    """Spans of a text, with ages reduced to their number: ``50`` of ``50-year-old``.

    Some label sets (i2b2's) hold the number alone.
    """
    numbers = []
    for span in spans:
        match = _NUMBER.search(text, span.start, span.end) if span.kind == "age" else None
        numbers.append(span if match is None else span._replace(start=match.start(), end=match.end()))
    return numbers


def covered(kind: str, start: int, end: int, spans: Iterable[DetectedSpan]) -> bool:
    """True if spans of the kind's group cover at least half of a range of characters."""
    places: set[int] = set()
    for span in spans:
        if kinds()[span.kind].group == kinds()[kind].group:
            places.update(range(max(start, span.start), min(end, span.end)))
    return 2 * len(places) >= end - start
