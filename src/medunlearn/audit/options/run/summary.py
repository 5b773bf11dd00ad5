"""Rates of regenerated options and of right choices, with intervals over questions and against a baseline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from medunlearn.statistics import Resampled, resample_means, resample_pairs

ANY = "any"
ALL, MEMBER, NONMEMBER, CONTRAST = "all", "member", "non-member", "member - non-member"
Column = tuple[str, str]
"""Prompt and measure."""
Cell = tuple[Column, str]
Tables = tuple[pd.DataFrame, pd.DataFrame]
Array = npt.NDArray[np.float64]


def summarize(
    label: str,
    tables: Tables,
    baseline: Tables | None,
    groups: Mapping[str, str],
    *,
    replicates: int,
    seed: int,
) -> pd.DataFrame:
    """One row a prompt, measure and group; see :meth:`~.audit.OptionsAudit.table`."""
    own, due = (table.sort_index() for table in observations(*tables))
    questions = own.index.to_list()
    cells: list[Cell] = [(column, group) for column in _columns(own) for group in _groups(groups)]
    values, expected = _matrix(own, cells, groups), _matrix(due.astype("float64"), cells, groups)
    found = resample_means(values, questions, replicates=replicates, seed=seed)
    unscored = ((expected == 1.0) & np.isnan(values)).sum(axis=0).tolist()
    rows: list[dict[str, Any]] = []
    for place, ((prompt, measure), group) in enumerate(cells):
        one = found.estimate([place])
        rows.append(
            {
                "model": label,
                "prompt": prompt,
                "measure": measure,
                "group": group,
                "value": one.value,
                "low": one.low,
                "high": one.high,
                "n": one.n,
                "n_unscored": unscored[place],
            }
        )
    contrasts = _contrasts(label, found, cells, unscored)
    if baseline is not None:
        other = _matrix(observations(*baseline)[0].reindex(index=own.index, columns=own.columns), cells, groups)
        pairs = resample_pairs(values, other, questions, replicates=replicates, seed=seed)
        for place, row in enumerate(rows):
            gap = pairs.difference([place])
            row |= {
                "difference": gap.difference,
                "difference_low": gap.low,
                "difference_high": gap.high,
                "p": gap.p,
                "n_pairs": gap.n_pairs,
            }
    return pd.DataFrame([*rows, *contrasts])


def observations(options: pd.DataFrame, choices: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """What was found, and what should have been: a row a question, a column a (prompt, measure).

    Returns:
        1, 0, or NaN where nothing was scored; and whether the question belongs to the measure at all.
    """
    gold = options.drop_duplicates("question_id").set_index("question_id")
    every = pd.Series(True, index=gold.index)
    known = gold["gold"].notna()
    was_gold = gold["removed"].eq(gold["gold"]).fillna(False).astype(bool) & known
    found: dict[Column, pd.Series[float]] = {}
    due: dict[Column, pd.Series[bool]] = {}
    for measure in ("exact", "relaxed"):
        wide = {name: _column(rows, measure) for name, rows in options.groupby("prompt", sort=False)}
        if len(wide) > 1:
            wide[ANY] = _any(pd.DataFrame(wide))
        for part, inside in (("", every), ("_gold", was_gold), ("_wrong", known & ~was_gold)):
            for name, values in wide.items():
                column = (str(name), f"{measure}{part}")
                found[column], due[column] = values.where(inside.reindex(values.index)), inside
    for form, rows in choices.groupby("form", sort=False):
        column = ("", f"accuracy_{form}")
        found[column], due[column] = _column(rows, "correct"), every
    return pd.DataFrame(found), pd.DataFrame(due)


def _column(table: pd.DataFrame, measure: str) -> pd.Series[float]:
    values = table.set_index("question_id")[measure]
    return values.astype("Float64").astype("float64")


def _any(wide: pd.DataFrame) -> pd.Series[float]:
    """1 where one prompt brought it out, 0 where all were scored and none did, else NaN."""
    best = wide.max(axis=1)
    return best.where((best == 1.0) | wide.notna().all(axis=1))


def _columns(table: pd.DataFrame) -> list[Column]:
    return [(str(one[0]), str(one[1])) for one in table.columns]


def _groups(groups: Mapping[str, str]) -> list[str]:
    return [ALL, *(name for name in (MEMBER, NONMEMBER) if name in groups.values())]


def _matrix(own: pd.DataFrame, cells: Sequence[Cell], groups: Mapping[str, str]) -> Array:
    of = own.index.map(lambda name: groups.get(str(name), ""))
    columns = [
        np.where((of == group) | (group == ALL), own[column].to_numpy(dtype=np.float64), np.nan)
        for column, group in cells
    ]
    return np.stack(columns, axis=1)


def _contrasts(
    label: str, found: Resampled, cells: Sequence[Cell], unscored: Sequence[int]
) -> list[dict[str, Any]]:
    """Members minus non-members, which are other questions, so that nothing is paired."""
    place = {cell: number for number, cell in enumerate(cells)}
    rows = []
    for column, group in cells:
        if group != MEMBER or (column, NONMEMBER) not in place:
            continue
        both = [place[column, MEMBER], place[column, NONMEMBER]]
        gap = found.estimate(both, lambda means: means[..., 0] - means[..., 1])
        n = int(found.observed[:, both].sum())
        rows.append(
            {
                "model": label,
                "prompt": column[0],
                "measure": column[1],
                "group": CONTRAST,
                "value": gap.value,
                "low": gap.low,
                "high": gap.high,
                "n": n,
                "n_unscored": sum(unscored[one] for one in both),
            }
        )
    return rows
