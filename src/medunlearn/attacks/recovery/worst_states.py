"""One number of several states of an attack: the worst of them, question by question.

The worst of several states is above each of them, also for a model that never knew anything. So the retrained model
gets the same worst over the same states of the same questions, and only the difference counts.
"""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from medunlearn.results.scores import score_table

WORST = "worst"
"""Strength of a question's worst state."""


def worst_of(
    scores: pd.DataFrame, measure: str, states: Sequence[str], before: str, side: str | None = None
) -> pd.DataFrame:
    """The score table of one measure, before the attack and in each question's worst state: its largest value.

    A question without a value in one of the states in which it was asked has none.

    Args:
        side: ``forget`` or ``retain``; None: both.
    """
    own = scores[(scores["measure"] == measure) & ((scores["side"] == side) | (side is None))]
    within = own[own["strength"].isin([*states])]
    values = within.groupby("item", sort=False)["value"]
    complete = values.count() == values.size()
    first = within.drop_duplicates("item").drop(columns=["value", "reason"])
    worst = first.assign(
        value=first["item"].map(values.max().where(complete)).astype("Float64"), strength=WORST, reason=None
    )
    worst["reason"] = worst["reason"].astype("string").mask(worst["value"].isna(), "no value in one of the states")
    return score_table(pd.concat([own[own["strength"] == before], worst], ignore_index=True))
