"""Top-k diagnostic accuracy of single responses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

from medunlearn.metrics.base import Item, Measure, Score, Tools
from medunlearn.papers.memorization.diagnosis.names import Names, own_names
from medunlearn.papers.memorization.diagnosis.parse import bare, parse_diagnoses, reference_diagnoses

Gold = Literal["principal", "any"]
SOURCE = "Memorization in Large Language Models in Medicine, Section 3.3 and Figure 6"


@dataclass(frozen=True, slots=True)
class Prediction:
    """What a response comes to.

    Attributes:
        named: how many diagnoses it names; 0 where none could be read in it.
        rank: place of the first right one, from 1; None where none is.
    """

    named: int
    rank: int | None

    def right_at(self, k: int) -> bool:
        """Whether a right diagnosis is among the first k."""
        return self.rank is not None and self.rank <= k


def predict(response: str, reference: str, names: Names | None = None, gold: Gold = "principal") -> Prediction:
    """Read a response, and find the first of its diagnoses that is right.

    Args:
        reference: the reference answer, one diagnosis a line, the principal one first.
        gold: ``principal``: the first of the reference counts; ``any``: each of them does.

    Source: Memorization in Large Language Models in Medicine, Section 3.3 (top-k accuracy against a list of gold
    diagnoses; which of them must be found it does not say).
    """
    names = names or own_names()
    found, known = parse_diagnoses(response), reference_diagnoses(reference)
    wanted = {form for name in (known[:1] if gold == "principal" else known) for form in (name, bare(name))}
    ranks = (place for place, name in enumerate(found, start=1) if any(names.same(name, right) for right in wanted))
    return Prediction(len(found), next(ranks, None))


def _score(k: int, items: Sequence[Item], tools: Tools) -> list[Score]:
    return [_score_one(k, item) for item in items]


def _score_one(k: int, item: Item) -> Score:
    if not reference_diagnoses(item.reference):
        return Score.unscored("the reference names no diagnosis")
    return Score(float(predict(item.response or "", item.reference).right_at(k)))


def _metric(k: int) -> Measure:
    return Measure(
        name=f"top_{k}",
        title=f"Top-{k} accuracy",
        needs=("response",),
        meaning=f"0 or 1, 1 = the principal diagnosis is among the first {k} that the response names",
        source=SOURCE,
        score=partial(_score, k),
        item_by_item=True,
    )


TOP_1, TOP_2, TOP_3 = _metric(1), _metric(2), _metric(3)
