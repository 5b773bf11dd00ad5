"""Entities and noun chunks by scispaCy, as in the paper. Its packages are not ours: see docs/leakage.md."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any, ClassVar

from medunlearn.errors import InputError

MODEL = "en_core_sci_lg"

INSTALL = (
    "It needs numpy below 2, so it has an environment of its own: docs/leakage.md says how to make one, and how to "
    "use the keywords that `medunlearn build keywords BENCHMARK --extractor scispacy --out FILE` writes there."
)


class SciSpacy:
    """Biomedical entities and noun chunks of scispaCy's ``en_core_sci_lg``; a place that is both counts once.

    Source: AMNESIA, Appendix E.1.

    Raises:
        InputError: spaCy or the model is not installed, or a text is longer than it reads.
    """

    version: ClassVar[str] = f"1-{MODEL}"

    def __init__(self, model: str = MODEL) -> None:
        try:
            spacy = import_module("spacy")
        except ImportError:
            raise InputError(
                f"The extractor scispacy needs spaCy and scispaCy, which are not installed. {INSTALL}"
            ) from None
        try:
            self._model: Any = spacy.load(model)
        except OSError as error:
            raise InputError(f"scispaCy's model {model!r} cannot be loaded ({error}). {INSTALL}") from error
        lacking = [part for part in ("ner", "parser") if part not in self._model.pipe_names]
        if lacking:
            raise InputError(
                f"The model {model!r} has no {' and no '.join(lacking)}; entities and noun chunks need both."
            )

    def phrases(self, texts: Sequence[str]) -> list[list[str]]:
        """Each text's phrases in the order of the text, one for every place where one stands."""
        longest = max(map(len, texts), default=0)
        if longest > self._model.max_length:
            raise InputError(
                f"A text has {longest} characters, and spaCy's model reads {self._model.max_length} at most. Cut "
                "the record into several, or use the extractor offline."
            )
        return [_spans(document) for document in self._model.pipe(texts)]


def _spans(document: Any) -> list[str]:
    spans = {(span.start, span.end): span.text for span in (*document.ents, *document.noun_chunks)}
    return [text for _, text in sorted(spans.items())]
