"""Entailment: does the response say what the reference says?"""

from __future__ import annotations

from collections.abc import Sequence

from medunlearn.errors import MedunlearnError
from medunlearn.metrics.protocol import Entailment, Item, Metric, Score, Tools
from medunlearn.metrics.rouge import NO_REFERENCE_TOKEN, rouge_l_recall, rouge_tokens

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
    asked = [premise_and_hypothesis(item) for item in items if _overlaps(item)]
    verdicts = _ask(tools.nli, asked)
    return [_score_one(item, verdicts) for item in items]


def _score_one(item: Item, verdicts: dict[Pair, bool]) -> Score:
    if not rouge_tokens(item.reference):
        return Score.unscored(NO_REFERENCE_TOKEN)
    # A pair that was not asked is one that the least overlap decided.
    return Score(float(_overlaps(item) and verdicts[premise_and_hypothesis(item)]))


def _overlaps(item: Item) -> bool:
    return rouge_l_recall(item.response or "", item.reference) >= LEAST_OVERLAP


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
