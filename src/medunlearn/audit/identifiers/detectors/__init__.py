"""Detectors of undeclared identifiers: one file each, and their registry.

A detector of your own is a class with ``name``, ``version`` and ``find(texts)``; name it as
``my_package.my_module:MyDetector``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

from medunlearn.audit.identifiers.kinds import kinds
from medunlearn.registry import resolve

DETECTORS: Mapping[str, str] = {
    "patterns": "medunlearn.audit.identifiers.detectors.patterns:Patterns",
    "presidio": "medunlearn.audit.identifiers.detectors.presidio:Presidio",
    "tagger": "medunlearn.audit.identifiers.detectors.tagger:Tagger",
}


class DetectedSpan(NamedTuple):
    """An identifier in a text: offsets in characters, name of its kind, the detector's confidence (0-1)."""

    start: int
    end: int
    kind: str
    score: float = 1.0


class Detector(Protocol):
    """Finds identifiers in any text; ``version`` changes whenever it may find something else."""

    @property
    def name(self) -> str: ...

    @property
    def version(self) -> str: ...

    def find(self, texts: Sequence[str]) -> list[list[DetectedSpan]]:
        """The spans of each text, in order of place and without overlaps."""
        ...


def make_detector(name: str) -> Detector:
    """The detector of a name, ``name:ARGUMENT`` (``tagger:FOLDER``), or a dotted path ``module:Class``.

    Raises:
        UnknownNameError: no such detector; names the closest one.
        InputError: a dependency or file is missing; says how to get it.
    """
    key, _, argument = name.partition(":")
    if key in DETECTORS and argument:
        detector: Detector = resolve("detectors", key, DETECTORS)(argument)
    else:
        detector = resolve("detectors", name, DETECTORS)()
    return detector


def without_overlaps(spans: Iterable[DetectedSpan]) -> list[DetectedSpan]:
    """Of overlapping spans the surest, then the longest, then the first; in order of place."""
    separate: list[DetectedSpan] = []
    for span in sorted(spans, key=lambda span: (-span.score, span.start - span.end, span.start)):
        if all(span.end <= other.start or other.end <= span.start for other in separate):
            separate.append(span)
    return sorted(separate, key=lambda span: span.start)


def covered(kind: str, start: int, end: int, spans: Iterable[DetectedSpan]) -> bool:
    """Whether spans of the kind's group cover at least half of a place."""
    places: set[int] = set()
    for span in spans:
        if kinds()[span.kind].group == kinds()[kind].group:
            places.update(range(max(start, span.start), min(end, span.end)))
    return 2 * len(places) >= end - start
