"""Finding identifiers that nobody declared: one file a detector, and their dictionary.

A detector of your own is a class with ``name``, ``version`` and ``find(texts)``; name it as
``my_package.my_module:MyDetector``.
"""

from __future__ import annotations

from collections.abc import Mapping

from medunlearn.audit.identifiers.detectors.protocol import Detector, Span
from medunlearn.registry import resolve

DETECTORS: Mapping[str, str] = {
    "patterns": "medunlearn.audit.identifiers.detectors.patterns:Patterns",
    "presidio": "medunlearn.audit.identifiers.detectors.presidio:Presidio",
    "tagger": "medunlearn.audit.identifiers.detectors.tagger:Tagger",
}


def make_detector(name: str) -> Detector:
    """The detector of a name, ``name:ARGUMENT`` (``tagger:FOLDER``), or a dotted path ``module:Class``.

    Raises:
        UnknownNameError: says the nearest right name.
        InputError: what it needs is not installed or not there; says how to get it.
    """
    key, _, argument = name.partition(":")
    if key in DETECTORS and argument:
        made: Detector = resolve("detectors", key, DETECTORS)(argument)
        return made
    found: Detector = resolve("detectors", name, DETECTORS)()
    return found


__all__ = ["DETECTORS", "Detector", "Span", "make_detector"]
