"""Rows of the score table for measures that a respondent's answers do not suffice for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd

from medunlearn.metrics import get_metric
from medunlearn.results.evaluated import joined
from medunlearn.results.scores import score_table


def with_unscored(
    table: pd.DataFrame,
    names: Sequence[str],
    lacking: Mapping[str, str],
    reasons: Mapping[str, str],
    labels: pd.DataFrame,
) -> pd.DataFrame:
    """A score table with a row for every measure and question, in their order.

    Args:
        table: scores of the other measures on the questions with a response.
        names: all measures.
        lacking: measure -> why it is unscored on every question.
        reasons: question -> why it has no response.
    """
    if not lacking and not reasons:
        return table
    parts = [table]
    for name in names:
        why = dict.fromkeys(labels["item"], lacking[name]) if name in lacking else reasons
        rows = labels[labels["item"].isin([*why])]
        parts.append(rows.assign(measure=get_metric(name).name, value=None, reason=rows["item"].map(dict(why))))
    places = {get_metric(name).name: place for place, name in enumerate(names)}
    order = {question: place for place, question in enumerate(labels["item"])}
    whole = score_table(joined([part.astype({"value": "Float64"}) for part in parts if len(part)]))
    by = pd.DataFrame({"measure": whole["measure"].map(places), "item": whole["item"].map(order)})
    return whole.loc[by.sort_values(["measure", "item"], kind="stable").index].reset_index(drop=True)
