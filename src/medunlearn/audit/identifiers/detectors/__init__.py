"""Detectors of undeclared identifiers: one file each, their registry, and the union of several.

A detector of your own is a class with ``name``, ``version`` and ``find(texts)``; name it as
``my_package.my_module:MyDetector``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

from medunlearn.audit.identifiers.kinds import kinds
from medunlearn.registry import resolve

DETECTORS: Mapping[str, str] = {
    "patterns": "medunlearn.audit.identifiers.detectors.patterns:Patterns",
    "presidio": "medunlearn.audit.identifiers.detectors.presidio:Presidio",
    "tagger": "medunlearn.audit.identifiers.detectors.tagger:Tagger",
    "gliner": "medunlearn.audit.identifiers.detectors.gliner:Gliner",
}

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
    """Detector of identifiers in any text; ``version`` changes whenever its output may change."""

    @property
    def name(self) -> str: ...

    @property
    def version(self) -> str: ...

    def find(self, texts: Sequence[str]) -> list[list[DetectedSpan]]:
        """The spans of each text, sorted by position, without overlaps."""
        ...


class UnitedDetectors:
    """The union of several detectors: overlapping spans of one group of kinds are merged, with the most confident
    kind.

    Attributes:
        parts: name -> detector. Two of one name are numbered (``tagger``, ``tagger 2``).
    """

    def __init__(self, detectors: Sequence[Detector]) -> None:
        self.parts: dict[str, Detector] = {}
        for detector in detectors:
            count = sum(other.name == detector.name for other in self.parts.values())
            self.parts[f"{detector.name} {count + 1}" if count else detector.name] = detector
        self.name = JOIN.join(self.parts)
        self.version = JOIN.join(detector.version for detector in detectors)

    def find(self, texts: Sequence[str]) -> list[list[DetectedSpan]]:
        by_detector = [
            [[span._replace(detectors=(name,)) for span in spans] for spans in detector.find(texts)]
            for name, detector in self.parts.items()
        ]
        return [
            without_overlaps(_merged_groups([span for spans in of_text for span in spans]))
            for of_text in zip(*by_detector, strict=True)
        ]


def _merged_groups(spans: Iterable[DetectedSpan]) -> list[DetectedSpan]:
    """Overlapping spans of one group, merged into one."""
    merged: dict[str, list[DetectedSpan]] = {}
    for span in sorted(spans, key=lambda span: (span.start, -span.end)):
        of_group = merged.setdefault(kinds()[span.kind].group, [])
        last = of_group[-1] if of_group else None
        if last is None or span.start >= last.end:
            of_group.append(span)
        else:
            surest = span if span.score > last.score else last
            names = tuple(dict.fromkeys((*last.detectors, *span.detectors)))
            of_group[-1] = DetectedSpan(last.start, max(last.end, span.end), surest.kind, surest.score, names)
    return [span for of_group in merged.values() for span in of_group]


def make_detectors(names: Sequence[str]) -> Detector | None:
    """The detector of one name, the union of several, or None without names; see :func:`make_detector`."""
    return make_detector(",".join(names)) if names else None


class CachedDetector:
    """A detector with a cache: it reads each text once."""

    def __init__(self, detector: Detector) -> None:
        self.name, self.version, self._detector = detector.name, detector.version, detector
        self._spans: dict[str, list[DetectedSpan]] = {}

    def find(self, texts: Sequence[str]) -> list[list[DetectedSpan]]:
        unread = [text for text in dict.fromkeys(texts) if text not in self._spans]
        self._spans.update(zip(unread, self._detector.find(unread), strict=True))
        return [self._spans[text] for text in texts]


def cached(detector: Detector) -> Detector:
    """The detector with a cache; the parts of a union are cached one by one."""
    parts = [CachedDetector(part) for part in parts_of(detector).values()]
    return parts[0] if len(parts) == 1 else UnitedDetectors(parts)


def parts_of(detector: Detector) -> Mapping[str, Detector]:
    """Name -> detector: the parts of a union, or the detector itself."""
    return detector.parts if isinstance(detector, UnitedDetectors) else {detector.name: detector}


def make_detector(name: str) -> Detector:
    """The detector of a name, ``name:ARGUMENT`` (``tagger:FOLDER``), or a dotted path ``module:Class``.

    Several names with commas between them are their union (:class:`UnitedDetectors`).

    Raises:
        UnknownNameError: no such detector; names the closest one.
        InputError: a dependency or file is missing; says how to get it.
    """
    if "," in name:
        names = [part.strip() for part in name.split(",") if part.strip()]
        return UnitedDetectors([make_detector(part) for part in dict.fromkeys(names)])
    key, _, argument = name.partition(":")
    if key in DETECTORS and argument:
        detector: Detector = resolve("detectors", key, DETECTORS)(argument)
    else:
        detector = resolve("detectors", name, DETECTORS)()
    return detector


def without_overlaps(spans: Iterable[DetectedSpan]) -> list[DetectedSpan]:
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
