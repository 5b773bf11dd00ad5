"""Numbers from responses. Listing and importing them loads no model and no torch.

A metric of your own: a module with one :class:`~medunlearn.metrics.protocol.Metric`, named here, or given
as ``module:attribute``, or declared as an entry point in the group ``medunlearn.metrics``.
"""

from __future__ import annotations

from medunlearn.errors import InputError
from medunlearn.metrics.protocol import Encoder, Entailment, Item, Judgement, Keywords, Metric, Need, Score, Tools
from medunlearn.registry import resolve

METRICS: dict[str, str] = {
    "answer_probability": "medunlearn.metrics.answer_probability:METRIC",
    "bart_score": "medunlearn.metrics.bart_score:METRIC",
    "bert_score": "medunlearn.metrics.bert_score:METRIC",
    "choice_probability": "medunlearn.metrics.choice_probability:METRIC",
    "cs": "medunlearn.metrics.cosine:METRIC",
    "em": "medunlearn.metrics.exact_memorization:METRIC",
    "es": "medunlearn.metrics.entailment:METRIC",
    "exact_match": "medunlearn.metrics.exact_match:METRIC",
    "factuality": "medunlearn.metrics.factuality:METRIC",
    "gen_score": "medunlearn.metrics.gen_score:METRIC",
    "ls": "medunlearn.metrics.leakage.score:METRIC",
    "option_accuracy": "medunlearn.metrics.option_accuracy:METRIC",
    "rouge_l": "medunlearn.metrics.rouge:METRIC",
    "rouge_l_f": "medunlearn.metrics.rouge_l_f:METRIC",
    "te": "medunlearn.metrics.token_entropy:METRIC",
    "token_f1": "medunlearn.metrics.token_f1:METRIC",
    "top_1": "medunlearn.papers.memorization.diagnosis.top_k:TOP_1",
    "top_2": "medunlearn.papers.memorization.diagnosis.top_k:TOP_2",
    "top_3": "medunlearn.papers.memorization.diagnosis.top_k:TOP_3",
    "truth_ratio": "medunlearn.metrics.truth_ratio:METRIC",
    "truth_ratio_utility": "medunlearn.metrics.truth_ratio_utility:METRIC",
}

__all__ = [
    "METRICS",
    "Encoder",
    "Entailment",
    "Item",
    "Judgement",
    "Keywords",
    "Metric",
    "Need",
    "Score",
    "Tools",
    "get_metric",
]


def get_metric(name: str) -> Metric:
    """The metric behind a name: a key of :data:`METRICS`, an entry point, or ``module:attribute``.

    Raises:
        UnknownNameError: no such metric; the message says the nearest right one.
        InputError: the name leads to something that cannot be imported or is not a ``Metric``.
    """
    found = resolve("metrics", name, METRICS)
    if not isinstance(found, Metric):
        raise InputError(
            f"metric {name!r} leads to a {type(found).__name__}; it must be a medunlearn.metrics.Metric."
        )
    return found
