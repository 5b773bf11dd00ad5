"""Rates of regenerated options and right choices, with intervals over questions and against a baseline."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from medunlearn.audit.options.option_prompts import MATCHES
from medunlearn.statistics import resample_means, resample_pairs

ANY = "any"
ALL, MEMBER, NONMEMBER, CONTRAST = "all", "member", "non-member", "member - non-member"
OptionTables = tuple[pd.DataFrame, pd.DataFrame]
"""``options.parquet`` and ``choices.parquet``."""


def summarize_options(
    label: str,
    tables: OptionTables,
    baseline: OptionTables | None,
    groups: Mapping[str, str],
    *,
    replicates: int,
    seed: int,
) -> pd.DataFrame:
    """One row per prompt, measure and group; see :meth:`~.audit.OptionsAudit.table`."""
    scores, due = (table.sort_index() for table in observations(*tables))
    questions = scores.index.to_list()
    present = [ALL, *(name for name in (MEMBER, NONMEMBER) if name in groups.values())]
    columns = [(str(column[0]), str(column[1])) for column in scores.columns]
    cells = [(column, group) for column in columns for group in present]
    inside = scores.index.map(lambda name: groups.get(str(name), ""))

    def matrix(table: pd.DataFrame) -> npt.NDArray[np.float64]:
        """Values [questions, cells], NaN outside a cell's group."""
        masks = {group: (inside == group) | (group == ALL) for group in present}
        return np.stack([np.where(masks[g], table[c].to_numpy(dtype=np.float64), np.nan) for c, g in cells], axis=1)

    values = matrix(scores)
    unscored = ((matrix(due) == 1.0) & np.isnan(values)).sum(axis=0).tolist()
    means = resample_means(values, questions, replicates=replicates, seed=seed)
    rows: list[dict[str, Any]] = []
    contrasts: list[dict[str, Any]] = []
    for place, ((prompt, measure), group) in enumerate(cells):
        head = {"model": label, "prompt": prompt, "measure": measure, "group": group}
        rate = means.estimate([place])
        numbers = {"value": rate.value, "low": rate.low, "high": rate.high, "n": rate.n}
        rows.append({**head, **numbers, "n_unscored": unscored[place]})
        if group == MEMBER and NONMEMBER in present:
            # Members and non-members are other questions, so nothing is paired.
            both = [place, place + 1]
            gap = means.estimate(both, lambda pair: pair[..., 0] - pair[..., 1], bounds=(-1.0, 1.0))
            numbers = {"value": gap.value, "low": gap.low, "high": gap.high}
            counts = {"n": int(means.observed[:, both].sum()), "n_unscored": sum(unscored[at] for at in both)}
            contrasts.append({**head, "group": CONTRAST, **numbers, **counts})
    if baseline is not None:
        theirs = observations(*baseline)[0].reindex(index=scores.index, columns=scores.columns)
        pairs = resample_pairs(values, matrix(theirs), questions, replicates=replicates, seed=seed)
        for place, row in enumerate(rows):
            difference = pairs.difference([place])
            row |= {"difference": difference.value, "difference_low": difference.low}
            row |= {"difference_high": difference.high, "p": difference.p, "n_pairs": difference.n}
    return pd.DataFrame([*rows, *contrasts])


def observations(options: pd.DataFrame, choices: pd.DataFrame) -> OptionTables:
    """Scores, and a mask of the questions that count: one row per question, one column per (prompt, measure).

    Returns:
        1, 0, or NaN if unscored; and whether the question belongs to the measure.
    """
    gold = options.drop_duplicates("question_id").set_index("question_id")
    has_gold = gold["gold"].notna()
    was_gold = gold["removed"].eq(gold["gold"]).fillna(False).astype(bool) & has_gold
    every = pd.Series(True, index=gold.index)
    parts = {"": every, "_gold": was_gold, "_wrong": has_gold & ~was_gold}
    scores: dict[tuple[str, str], pd.Series[float]] = {}
    due: dict[tuple[str, str], pd.Series[bool]] = {}
    for measure in (name for name in MATCHES if name in options):
        wide = {name: _column(rows, measure) for name, rows in options.groupby("prompt", sort=False)}
        if len(wide) > 1:
            # 1 if one prompt brought it out, 0 if all were scored and none did, else NaN.
            table = pd.DataFrame(wide)
            best = table.max(axis=1)
            wide[ANY] = best.where((best == 1.0) | table.notna().all(axis=1))
        for part, inside in parts.items():
            for name, values in wide.items():
                column = (str(name), f"{measure}{part}")
                scores[column], due[column] = values.where(inside.reindex(values.index)), inside
    for form, rows in choices.groupby("form", sort=False):
        column = ("", f"accuracy_{form}")
        scores[column], due[column] = _column(rows, "correct"), every
    return pd.DataFrame(scores), pd.DataFrame(due)


def _column(table: pd.DataFrame, measure: str) -> pd.Series[float]:
    return table.set_index("question_id")[measure].astype("Float64").astype("float64")
