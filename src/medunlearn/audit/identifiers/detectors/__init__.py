"""Detectors of undeclared identifiers: one file each, their registry, and the union of several.

A detector of your own is a class with ``name``, ``version`` and ``find(texts)``; name it as
``my_package.my_module:MyDetector``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from medunlearn.audit.identifiers.detectors.detected_spans import JOIN, DetectedSpan, Detector, without_overlaps
from medunlearn.audit.identifiers.kinds import kinds
from medunlearn.registry import resolve

DETECTORS: Mapping[str, str] = {
    "auto": "medunlearn.audit.identifiers.detectors.spacy_tagger:installed_detectors",
    "patterns": "medunlearn.audit.identifiers.detectors.patterns:Patterns",
    "presidio": "medunlearn.audit.identifiers.detectors.presidio:Presidio",
    "spacy": "medunlearn.audit.identifiers.detectors.spacy_tagger:SpacyTagger",
    "tagger": "medunlearn.audit.identifiers.detectors.tagger:Tagger",
    "gliner": "medunlearn.audit.identifiers.detectors.gliner:Gliner",
}


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


def is_light(detector: Detector) -> bool:
    """True if each of several processes may have a copy: neither the detector nor a part of it holds a model."""
    return all(getattr(part, "light", False) for part in parts_of(detector).values())


def make_detector(name: str) -> Detector:
    """The detector of a name, ``name:ARGUMENT`` (``tagger:FOLDER``), or a dotted path ``module:Class``.

    Several names with commas between them are their union (:class:`UnitedDetectors`).

    Raises:
        UnknownNameError: no such detector; names the closest one.
        InputError: a dependency or file is missing; says how to get it.
    """
    if "," in name:
        names = [part.strip() for part in name.split(",") if part.strip()]
        made = [make_detector(part) for part in dict.fromkeys(names)]
        # `auto` is a union itself, and may hold one that is named beside it.
        parts = {f"{part.name}/{part.version}": part for detector in made for part in parts_of(detector).values()}
        return UnitedDetectors(list(parts.values()))
    key, _, argument = name.partition(":")
    if key in DETECTORS and argument:
        detector: Detector = resolve("detectors", key, DETECTORS)(argument)
    else:
        detector = resolve("detectors", name, DETECTORS)()
    return detector
