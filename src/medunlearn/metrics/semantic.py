"""Measures of meaning under a model that is given: cosine of embeddings, entailment, BERTScore, BARTScore.

The models are :mod:`medunlearn.models.encoders`; this module does not import torch.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from medunlearn.errors import MedunlearnError
from medunlearn.metrics.base import Encoder, Entailment, Item, Measure, Score, Tools
from medunlearn.metrics.text import NO_REFERENCE_TOKEN, rouge_l_recalls

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


def _score_cosines(items: Sequence[Item], tools: Tools) -> list[Score]:
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


COSINE = Measure(
    name="cs",
    title="Cosine similarity",
    needs=("response", "encoder"),
    meaning="0-1, higher = the response is closer in meaning to the reference",
    source="AMNESIA, Section 5.2",
    score=_score_cosines,
)


LEAST_OVERLAP = 0.1
"""ROUGE-L recall below which a response counts as not entailed, whatever the model would say."""

Pair = tuple[str, str]


def premise_and_hypothesis(item: Item) -> Pair:
    """Premise and hypothesis: the response entails the reference on forget, the reverse on retain.

    To leak, a forget response must hold all that the reference says; to be useful, a retain response must
    say nothing that the reference does not.
    """
    response = item.response or ""
    return (response, item.reference) if item.side == "forget" else (item.reference, response)


def _score_entailment(items: Sequence[Item], tools: Tools) -> list[Score]:
    if tools.nli is None:
        raise MedunlearnError("es needs an entailment model: pass Tools(nli=...).")
    recalls = rouge_l_recalls([item.response or "" for item in items], [item.reference for item in items])
    # A pair that is not asked is one that the least overlap decides.
    pairs = [
        premise_and_hypothesis(item) if recall is not None and recall >= LEAST_OVERLAP else None
        for item, recall in zip(items, recalls, strict=True)
    ]
    verdicts = _ask(tools.nli, [pair for pair in pairs if pair is not None])
    return [
        Score.unscored(NO_REFERENCE_TOKEN) if recall is None else Score(float(pair is not None and verdicts[pair]))
        for pair, recall in zip(pairs, recalls, strict=True)
    ]


def _ask(nli: Entailment, pairs: Sequence[Pair]) -> dict[Pair, bool]:
    """The model's label of each different pair; it is not called where there is none."""
    different = list(dict.fromkeys(pairs))
    if not different:
        return {}
    labels = nli.entails([premise for premise, _ in different], [hypothesis for _, hypothesis in different])
    if len(labels) != len(different):
        raise MedunlearnError(f"The entailment model gave {len(labels)} labels for {len(different)} pairs.")
    return {pair: bool(label) for pair, label in zip(different, labels, strict=True)}


ENTAILMENT = Measure(
    name="es",
    title="Entailment",
    needs=("response", "nli"),
    meaning="0 or 1, 1 = entailed (forget: response entails reference; retain: reference entails response)",
    source="AMNESIA, Section 5.2; direction and least overlap: Yuan et al. (arXiv 2410.08109)",
    score=_score_entailment,
)


NO_TOKEN = "response or reference has no token that counts"


def _score_bert(items: Sequence[Item], tools: Tools) -> list[Score]:
    if tools.bert is None:
        raise MedunlearnError("bert_score needs an encoder: pass Tools(bert=...).")
    if not items:
        return []
    found = tools.bert.score([item.response or "" for item in items], [item.reference for item in items])
    return [Score.unscored(NO_TOKEN) if one is None else Score(one.f1) for one in found]


BERT_SCORE = Measure(
    name="bert_score",
    title="BERTScore",
    needs=("response", "bert"),
    meaning="-1 to 1, in practice 0.3-1; higher = the response's tokens are more like the reference's in context",
    source="Zhang et al. 2020 (arXiv 1904.09675), Section 3",
    score=_score_bert,
)


NO_TEXT = "response or reference is empty"


def _score_bart(items: Sequence[Item], tools: Tools) -> list[Score]:
    if tools.bart is None:
        raise MedunlearnError("bart_score needs a sequence-to-sequence model: pass Tools(bart=...).")
    if not items:
        return []
    found = tools.bart.score([item.response or "" for item in items], [item.reference for item in items])
    return [Score.unscored(NO_TEXT) if one is None else Score(one) for one in found]


BART_SCORE = Measure(
    name="bart_score",
    title="BARTScore",
    needs=("response", "bart"),
    meaning="at most 0, mean log-probability of a token; higher = the reference is likelier given the response",
    source="Yuan et al. 2021 (arXiv 2106.11520), equation 2 (recall)",
    score=_score_bart,
)
