"""Cosine similarity of sentence embeddings."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from medunlearn.errors import MedunlearnError
from medunlearn.metrics.protocol import Encoder, Item, Metric, Score, Tools

Array = npt.NDArray[np.float64]


def cosine_similarity(a: Array, b: Array) -> float:
    """Cosine of two vectors of shape [width], floored at 0: opposite is no worse than unrelated.

    Range 0-1, higher = closer in meaning. NaN where a vector is all zeros, which has no direction.

    Source: AMNESIA, Section 5.2, "Cosine Similarity (CS)" (PubMedBERT embeddings).
    """
    lengths = float(np.linalg.norm(a) * np.linalg.norm(b))
    if lengths == 0.0:
        return float("nan")
    return float(np.clip(a @ b / lengths, 0.0, 1.0))


def _score(items: Sequence[Item], tools: Tools) -> list[Score]:
    if tools.encoder is None:
        raise MedunlearnError("cs needs a sentence encoder: pass Tools(encoder=...).")
    texts = [text for item in items for text in (item.response or "", item.reference)]
    vectors = _encode(tools.encoder, texts)
    return [_as_score(cosine_similarity(vectors[item.response or ""], vectors[item.reference])) for item in items]


def _encode(encoder: Encoder, texts: Sequence[str]) -> dict[str, Array]:
    """Each different text's vector; a model that collapsed says the same thing a thousand times."""
    different = list(dict.fromkeys(texts))
    if not different:
        return {}
    vectors = encoder.encode(different)
    if len(vectors) != len(different):
        raise MedunlearnError(f"The sentence encoder gave {len(vectors)} vectors for {len(different)} texts.")
    return {text: np.asarray(vector, dtype=np.float64) for text, vector in zip(different, vectors, strict=True)}


def _as_score(value: float) -> Score:
    if np.isnan(value):
        return Score.unscored("an embedding is all zeros or not a number")
    return Score(value)


METRIC = Metric(
    name="cs",
    title="Cosine similarity",
    needs=("response", "encoder"),
    meaning="0-1, higher = the response is closer in meaning to the reference",
    source="AMNESIA, Section 5.2",
    score=_score,
)
