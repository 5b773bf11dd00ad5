"""Leakage score LS: share of a patient's disease terms that a response repeats.

Algorithm 1 of AMNESIA's Appendix E: extraction of a text's phrases (``extractors``), cleaning (``phrases``),
lexical relevance to a disease and choice of keywords (``selection``), score of a response (``score``). ``table``
stores the keywords.

An extractor of your own: a class as :class:`~medunlearn.metrics.leakage.phrases.Extractor` describes it, named
here, or given as ``module:Class``, or declared as an entry point in the group ``medunlearn.extractors``.
"""

from __future__ import annotations

from medunlearn.errors import InputError
from medunlearn.metrics.leakage.phrases import Extractor
from medunlearn.registry import resolve

EXTRACTORS: dict[str, str] = {
    "offline": "medunlearn.metrics.leakage.extractors:Offline",
    "scispacy": "medunlearn.metrics.leakage.extractors:SciSpacy",
}

__all__ = ["EXTRACTORS", "Extractor", "extractor_class"]


def extractor_class(name: str) -> type[Extractor]:
    """The class behind a name: a key of :data:`EXTRACTORS`, an entry point, or ``module:Class``. Loads no model.

    Raises:
        UnknownNameError: no such extractor; the message names the nearest valid one.
        InputError: the name leads to something that cannot be imported or is not an extractor.
    """
    cls: type[Extractor] = resolve("extractors", name, EXTRACTORS)
    if not (isinstance(cls, type) and hasattr(cls, "phrases") and isinstance(getattr(cls, "version", 0), str)):
        raise InputError(f"extractor {name!r} is not a class with a `version` text and a method `phrases(texts)`.")
    return cls
