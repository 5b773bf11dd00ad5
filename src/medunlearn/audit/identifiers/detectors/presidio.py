"""Presidio with a named-entity model if one is installed, and our recognizers for what it lacks.

From Presidio: dates, telephone numbers (of several countries), social security numbers, IP addresses, IBANs and
credit cards; people and places from a spaCy pipeline or a token classification model. From :mod:`patterns`: what
these lack. Left out are its recognizers that mistake one number for another (UK_NHS,
US_ITIN, driver's licences), those for e-mail and web addresses, which ask the network for a list of domains, and a
pipeline's dates, which are durations too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from medunlearn.audit.identifiers.detectors.detected_spans import DetectedSpan, Detector, without_overlaps
from medunlearn.audit.identifiers.detectors.patterns import Patterns
from medunlearn.audit.identifiers.detectors.spacy_tagger import installed_pipeline, load_pipeline
from medunlearn.audit.identifiers.detectors.tagger import Tagger
from medunlearn.audit.identifiers.kinds import kinds
from medunlearn.errors import InputError

INSTALL = "pip install 'medunlearn[identifiers]', or choose --detectors patterns, which needs nothing."
ENTITIES: Mapping[str, str] = {
    "DATE_TIME": "date",
    "PHONE_NUMBER": "phone",
    "US_SSN": "ssn",
    "IP_ADDRESS": "ip_address",
    "IBAN_CODE": "account_number",
    "CREDIT_CARD": "account_number",
}
"""Presidio's entity -> our kind."""
RECOGNIZERS = ("Date", "Phone", "UsSsn", "Ip", "Iban", "CreditCard")
OF_MODEL: Mapping[str, str] = {"PERSON": "name", "LOCATION": "location"}
"""Presidio's entity of a spaCy pipeline -> our kind."""
OURS = "MEDUNLEARN_"
_LEAST = 0.35


class Presidio:
    """Microsoft Presidio's analyzer, built by hand so that it downloads nothing.

    Args:
        model: a spaCy pipeline (its name, or a folder), or a folder with a token classification model; empty: the
            best pipeline that is installed, or none.

    Attributes:
        model: the model in use; ``no model`` without one.

    Raises:
        InputError: presidio-analyzer or spaCy is not installed, or the model is not there.
    """

    name = "presidio"

    def __init__(self, model: str = "") -> None:
        try:
            import presidio_analyzer  # noqa: F401
            import spacy
        except ImportError:
            raise InputError(f"The detector presidio needs presidio-analyzer and spaCy: {INSTALL}") from None
        if model and (Path(model) / "config.json").exists():
            tagger = Tagger(model)
            self.model = tagger.version
            self._analyzer = _analyzer(spacy.blank("en"), [Patterns(), tagger])
        else:
            pipeline, self.model = _pipeline(model)
            self._analyzer = _analyzer(pipeline, [Patterns()])
        installed = f"{version('presidio-analyzer')}-{version('spacy')}"
        self.version = f"{installed}/{self.model}/{Patterns().version}"

    def find(self, texts: Sequence[str]) -> list[list[DetectedSpan]]:
        return [without_overlaps([*self._spans(text)]) for text in texts]

    def _spans(self, text: str) -> list[DetectedSpan]:
        results = self._analyzer.analyze(text, language="en", score_threshold=_LEAST)
        return [
            DetectedSpan(result.start, result.end, _kind(result.entity_type), result.score) for result in results
        ]


def _kind(entity: str) -> str:
    return entity.removeprefix(OURS).lower() if entity.startswith(OURS) else {**ENTITIES, **OF_MODEL}[entity]


def _pipeline(model: str) -> tuple[Any, str]:
    """A spaCy pipeline and its name; a blank one if none is named or installed."""
    import spacy

    name = model or installed_pipeline()
    if not name:
        return spacy.blank("en"), "no model"
    pipeline = load_pipeline(name)
    return pipeline, f"{pipeline.meta['name']}-{pipeline.meta['version']}"


def _analyzer(pipeline: Any, detectors: Sequence[Detector]) -> Any:
    import presidio_analyzer as presidio
    from presidio_analyzer import predefined_recognizers as theirs
    from presidio_analyzer.nlp_engine import SpacyNlpEngine

    engine = SpacyNlpEngine(models=[{"lang_code": "en", "model_name": pipeline.meta.get("name") or "blank"}])
    engine.nlp = {"en": pipeline}
    recognizers = [getattr(theirs, f"{name}Recognizer")() for name in RECOGNIZERS]
    if pipeline.pipe_names:
        recognizers.append(theirs.SpacyRecognizer(supported_entities=list(OF_MODEL)))
    ours = [_recognizer(presidio, detector) for detector in detectors]
    registry = presidio.RecognizerRegistry([*recognizers, *ours], supported_languages=["en"])
    return presidio.AnalyzerEngine(registry=registry, nlp_engine=engine, supported_languages=["en"])


def _recognizer(presidio: Any, detector: Detector) -> Any:
    """Wrap one of our detectors as a Presidio recognizer."""

    class Recognizer(presidio.EntityRecognizer):  # type: ignore[misc]
        def load(self) -> None:
            """Do nothing: there is nothing to load."""

        def analyze(self, text: str, entities: Any, nlp_artifacts: Any = None) -> list[Any]:
            return [
                presidio.RecognizerResult(f"{OURS}{span.kind.upper()}", span.start, span.end, span.score)
                for span in detector.find([text])[0]
            ]

    names = [f"{OURS}{kind.upper()}" for kind in kinds()]
    return Recognizer(supported_entities=names, name=f"medunlearn {detector.name}")
