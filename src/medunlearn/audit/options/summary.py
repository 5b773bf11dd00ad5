"""Rates of regenerated options and of right choices, with intervals over questions and against a baseline."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from medunlearn.statistics import Resampled, resample_means, resample_pairs
from medunlearn.statistics.bootstrap import Estimate

ANY = "any"
ALL, MEMBER, NONMEMBER, CONTRAST = "all", "member", "non-member", "member - non-member"
Column = tuple[str, str]
"""Prompt and measure."""
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
    own, due = (table.sort_index() for table in observations(*tables))
    questions = own.index.to_list()
    present = [ALL, *(name for name in (MEMBER, NONMEMBER) if name in groups.values())]
    columns = [(str(column[0]), str(column[1])) for column in own.columns]
    cells = [(column, group) for column in columns for group in present]
    values, expected = _matrix(own, cells, groups), _matrix(due.astype("float64"), cells, groups)
    means = resample_means(values, questions, replicates=replicates, seed=seed)
    unscored = ((expected == 1.0) & np.isnan(values)).sum(axis=0).tolist()
    rows = [_row(label, cell, means.estimate([place]), unscored[place]) for place, cell in enumerate(cells)]
    contrasts = list(_contrasts(label, means, cells, unscored))
    if baseline is not None:
        theirs = observations(*baseline)[0].reindex(index=own.index, columns=own.columns)
        other = _matrix(theirs, cells, groups)
        pairs = resample_pairs(values, other, questions, replicates=replicates, seed=seed)
        for place, row in enumerate(rows):
            gap = pairs.difference([place])
            row |= {"difference": gap.difference, "difference_low": gap.low, "difference_high": gap.high}
            row |= {"p": gap.p, "n_pairs": gap.n_pairs}
    return pd.DataFrame([*rows, *contrasts])


def observations(options: pd.DataFrame, choices: pd.DataFrame) -> OptionTables:
    """Scores, and whether they are due: one row per question, one column per (prompt, measure).

    Returns:
        1, 0, or NaN where unscored; and whether the question belongs to the measure.
    """
    gold = options.drop_duplicates("question_id").set_index("question_id")
    every = pd.Series(True, index=gold.index)
    known = gold["gold"].notna()
    was_gold = gold["removed"].eq(gold["gold"]).fillna(False).astype(bool) & known
    scores: dict[Column, pd.Series[float]] = {}
    due: dict[Column, pd.Series[bool]] = {}
    for measure in ("exact", "relaxed"):
        wide = {name: _column(rows, measure) for name, rows in options.groupby("prompt", sort=False)}
        if len(wide) > 1:
            wide[ANY] = _any(pd.DataFrame(wide))
        for part, inside in (("", every), ("_gold", was_gold), ("_wrong", known & ~was_gold)):
            for name, values in wide.items():
                column = (str(name), f"{measure}{part}")
                scores[column], due[column] = values.where(inside.reindex(values.index)), inside
    for form, rows in choices.groupby("form", sort=False):
        column = ("", f"accuracy_{form}")
        scores[column], due[column] = _column(rows, "correct"), every
    return pd.DataFrame(scores), pd.DataFrame(due)


def _column(table: pd.DataFrame, measure: str) -> pd.Series[float]:
    values = table.set_index("question_id")[measure]
    return values.astype("Float64").astype("float64")


def _any(wide: pd.DataFrame) -> pd.Series[float]:
    """1 where one prompt brought it out, 0 where all were scored and none did, else NaN."""
    best = wide.max(axis=1)
    return best.where((best == 1.0) | wide.notna().all(axis=1))


def _matrix(
    table: pd.DataFrame, cells: Sequence[tuple[Column, str]], groups: Mapping[str, str]
) -> npt.NDArray[np.float64]:
    """Values [questions, cells], NaN outside a cell's group."""
    own = table.index.map(lambda name: groups.get(str(name), ""))
    columns = [
        np.where((own == group) | (group == ALL), table[column].to_numpy(dtype=np.float64), np.nan)
        for column, group in cells
    ]
    return np.stack(columns, axis=1)


def _contrasts(
    label: str, means: Resampled, cells: Sequence[tuple[Column, str]], unscored: Sequence[int]
) -> Iterator[dict[str, Any]]:
    """Members minus non-members, which are other questions, so nothing is paired."""
    places = {cell: place for place, cell in enumerate(cells)}
    for column, group in cells:
        if group == MEMBER and (column, NONMEMBER) in places:
            both = [places[column, MEMBER], places[column, NONMEMBER]]
            gap = means.estimate(both, lambda values: values[..., 0] - values[..., 1])
            row = _row(label, (column, CONTRAST), gap, sum(unscored[place] for place in both))
            yield row | {"n": int(means.observed[:, both].sum())}


def _row(label: str, cell: tuple[Column, str], estimate: Estimate, unscored: int) -> dict[str, Any]:
    (prompt, measure), group = cell
    head = {"model": label, "prompt": prompt, "measure": measure, "group": group}
    numbers = {"value": estimate.value, "low": estimate.low, "high": estimate.high}
    return head | numbers | {"n": estimate.n, "n_unscored": unscored}
