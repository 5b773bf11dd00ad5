"""Entailment: does the response say what the reference says?"""

from __future__ import annotations

from collections.abc import Sequence

from medunlearn.errors import MedunlearnError
from medunlearn.metrics.protocol import Entailment, Item, Metric, Score, Tools
from medunlearn.metrics.rouge import NO_REFERENCE_TOKEN, rouge_l_recalls

LEAST_OVERLAP = 0.1
"""ROUGE-L recall below which a response counts as not entailed, whatever the model would say."""

Pair = tuple[str, str]


def premise_and_hypothesis(item: Item) -> Pair:
    """What must entail what: on forget the response the reference, on retain the reference the response.

    To leak, a forget response must hold all that the reference says; to be useful, a retain response must
    say nothing that the reference does not.
    """
    response = item.response or ""
    return (response, item.reference) if item.side == "forget" else (item.reference, response)


def _score(items: Sequence[Item], tools: Tools) -> list[Score]:
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


METRIC = Metric(
    name="es",
    title="Entailment",
    needs=("response", "nli"),
    meaning="0 or 1, 1 = entailed (forget: response entails reference; retain: reference entails response)",
    source="AMNESIA, Section 5.2; direction and least overlap: Yuan et al. (arXiv 2410.08109)",
    score=_score,
)
