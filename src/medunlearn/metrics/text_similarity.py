"""Measures of meaning by a given model: cosine of embeddings, entailment, BERTScore, BARTScore.

The models are :mod:`medunlearn.models.encoders`; this module does not import torch. Scores under different models
are not comparable.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from medunlearn.errors import MedunlearnError
from medunlearn.metrics.measure import LOG_PROBABILITY, SHARE, Item, Measure, Score, Tools
from medunlearn.metrics.pair_scores import bart_score, bert_score
from medunlearn.metrics.text import NO_REFERENCE_TOKEN, rouge_l_recalls, text_columns, why_unread

Array = npt.NDArray[np.float64]
Tool = TypeVar("Tool")
Key = TypeVar("Key", bound=Hashable)
Answer = TypeVar("Answer")

LEAST_OVERLAP = 0.1
"""ROUGE-L recall below which a response counts as not entailed, whatever the model would say."""


def _require(name: str, tool: Tool | None) -> Tool:
    if tool is None:
        raise MedunlearnError(f"The measure needs a model: pass Tools({name}=...).")
    return tool


def _ask_once(ask: Callable[[list[Key]], Sequence[Answer]], keys: Iterable[Key], words: str) -> dict[Key, Answer]:
    """Call the model once per distinct input, since a collapsed model repeats the same answer many times."""
    different = list(dict.fromkeys(keys))
    answers = ask(different) if different else ()
    if len(answers) != len(different):
        raise MedunlearnError(words.format(len(answers), len(different)))
    return dict(zip(different, answers, strict=True))


def cosine_similarity(a: Array, b: Array) -> float:
    """Cosine of two vectors of shape [width], floored at 0: opposite counts as unrelated.

    Range 0-1, higher = closer in meaning. NaN if a vector is all zeros, which has no direction.

    Source: AMNESIA, Section 5.2, "Cosine Similarity (CS)" (PubMedBERT embeddings).
    """
    lengths = float(np.linalg.norm(a) * np.linalg.norm(b))
    if lengths == 0.0:
        return float("nan")
    return float(np.clip(a @ b / lengths, 0.0, 1.0))


def _score_cosines(items: Sequence[Item], tools: Tools) -> list[Score]:
    encoder = _require("encoder", tools.encoder)
    texts = (text for item in items for text in item.texts)
    encoded = _ask_once(encoder.encode, texts, "The sentence encoder gave {} vectors for {} texts.")
    vectors = {text: np.asarray(vector, dtype=np.float64) for text, vector in encoded.items()}
    values = [cosine_similarity(*(vectors[text] for text in item.texts)) for item in items]
    reason = "an embedding is all zeros or not a number"
    return [Score.unscored(reason) if np.isnan(value) else Score(value) for value in values]


COSINE = Measure(
    name="cs",
    title="Cosine similarity",
    needs=("response", "encoder"),
    meaning="0-1, higher = the response is closer in meaning to the reference",
    source="AMNESIA, Section 5.2",
    score=_score_cosines,
    item_by_item=True,
    range=SHARE,
    direction="higher",
)


def premise_and_hypothesis(item: Item) -> tuple[str, str]:
    """Premise and hypothesis: the response must entail the reference on forget, and the reverse on retain.

    To leak, a forget response must contain everything in the reference; to be useful, a retain response must
    contain nothing beyond it.
    """
    response, reference = item.texts
    return (response, reference) if item.side == "forget" else (reference, response)


def _score_entailment(items: Sequence[Item], tools: Tools) -> list[Score]:
    nli = _require("nli", tools.nli)
    recalls = rouge_l_recalls(*text_columns(items))
    # A pair that is not asked is one that the least overlap decides.
    pairs = [
        premise_and_hypothesis(item) if recall is not None and recall >= LEAST_OVERLAP else None
        for item, recall in zip(items, recalls, strict=True)
    ]
    labels = _ask_once(
        lambda different: nli.entails([pair[0] for pair in different], [pair[1] for pair in different]),
        (pair for pair in pairs if pair is not None),
        "The entailment model gave {} labels for {} pairs.",
    )
    return [
        Score.unscored(why_unread(item.texts[1]) or NO_REFERENCE_TOKEN)
        if recall is None
        else Score(float(pair is not None and labels[pair]))
        for item, pair, recall in zip(items, pairs, recalls, strict=True)
    ]


ENTAILMENT = Measure(
    name="es",
    title="Entailment",
    needs=("response", "nli"),
    meaning="0 or 1, 1 = entailed (forget: response entails reference; retain: reference entails response)",
    source="AMNESIA, Section 5.2; direction and least overlap: Yuan et al. (arXiv 2410.08109)",
    score=_score_entailment,
    item_by_item=True,
    range=SHARE,
    direction="higher",
)


RELEASED_CODE = "the paper's released code"
"""Variants of the memorization paper's code."""
_DIGITS = 4
"""To which the released code rounds scores."""


def _score_bert(items: Sequence[Item], tools: Tools) -> list[Score]:
    return bert_score(*text_columns(items), model=_require("bert", tools.bert), quiet=tools.quiet)


def _score_bart(items: Sequence[Item], tools: Tools) -> list[Score]:
    return bart_score(*text_columns(items), model=_require("bart", tools.bart), quiet=tools.quiet)


@dataclass(frozen=True, slots=True)
class OfBartStarts:
    """A ``score`` function of the first tokens by BART's tokenizer, rounded to 4 digits."""

    function: Callable[[Sequence[Item], Tools], list[Score]]

    def __call__(self, items: Sequence[Item], tools: Tools) -> list[Score]:
        scores = self.function([replace(item, starts=item.bart_starts) for item in items], tools)
        return [score if score.value is None else Score(round(score.value, _DIGITS)) for score in scores]


BERT_SCORE = Measure(
    name="bert_score",
    title="BERTScore",
    needs=("response", "bert"),
    meaning="-1 to 1, in practice 0.3-1; higher = the response's tokens are more like the reference's in context",
    source="Zhang et al. 2020 (arXiv 1904.09675), Section 3",
    score=_score_bert,
    item_by_item=True,
    range=(-1.0, 1.0),
    direction="higher",
)
BART_SCORE = Measure(
    name="bart_score",
    title="BARTScore",
    needs=("response", "bart"),
    meaning="at most 0, mean log-probability of a token; higher = the reference is likelier given the response",
    source="Yuan et al. 2021 (arXiv 2106.11520), equation 2 (recall)",
    score=_score_bart,
    item_by_item=True,
    range=LOG_PROBABILITY,
    direction="higher",
)
BERT_SCORE_RELEASED_CODE, BART_SCORE_RELEASED_CODE = (
    replace(
        measure,
        name=f"{measure.name}.released_code",
        title=f"{measure.title} ({RELEASED_CODE})",
        needs=(*measure.needs, "bart_starts"),
        meaning=f"{measure.meaning}; first 100 tokens of BART's tokenizer, 4 digits; with {model}",
        source="repository llm_memorization of the memorization paper's authors, eval/valid_length_eval",
        score=OfBartStarts(measure.score),
        variant=RELEASED_CODE,
    )
    for measure, model in (
        (BERT_SCORE, "bert-base-multilingual-cased, layer 9"),
        (BART_SCORE, "bart-large-cnn trained further on ParaBank 2 (BARTScore's bart_score.pth)"),
    )
)
