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
    own = observations(*tables).sort_index()
    questions = own.index.to_list()
    cells: list[Cell] = [(column, group) for column in _columns(own) for group in _groups(groups)]
    values = _matrix(own, cells, groups)
    found = resample_means(values, questions, replicates=replicates, seed=seed)
    rows = []
    for place, ((prompt, measure), group) in enumerate(cells):
        one = found.estimate([place])
        inside = [name for name in questions if group in (ALL, groups.get(name))]
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
                "n_unscored": _unscored(tables, prompt, measure, inside),
            }
        )
    contrasts = _contrasts(label, found, cells)
    if baseline is not None:
        other = _matrix(observations(*baseline).reindex(index=own.index, columns=own.columns), cells, groups)
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


def observations(options: pd.DataFrame, choices: pd.DataFrame) -> pd.DataFrame:
    """A row a question, a column a (prompt, measure), 1, 0, or NaN where nothing was scored."""
    found: dict[tuple[str, str], pd.Series[float]] = {}
    names = list(dict.fromkeys(options["prompt"]))
    for measure in ("exact", "relaxed"):
        wide = {name: _column(options[options["prompt"] == name], measure) for name in names}
        if len(names) > 1:
            wide[ANY] = _any(pd.DataFrame(wide))
        for name, values in wide.items():
            found[name, measure] = values
    gold = options.drop_duplicates("question_id").set_index("question_id")
    was_gold = gold["removed"].eq(gold["gold"])
    known = gold["gold"].notna()
    for (name, measure), values in list(found.items()):
        of = {"gold": was_gold & known, "wrong": ~was_gold & known}
        for which, rows in of.items():
            found[name, f"{measure}_{which}"] = values.where(rows.reindex(values.index).fillna(False).astype(bool))
    for form in dict.fromkeys(choices["form"]):
        found["", f"accuracy_{form}"] = _column(choices[choices["form"] == form], "correct")
    return pd.DataFrame(found)


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


def _unscored(tables: Tables, prompt: str, measure: str, inside: list[str]) -> int:
    """Questions of a group without a value; for ``_gold`` and ``_wrong`` among those of that kind alone."""
    options, choices = tables
    if measure.startswith("accuracy_"):
        rows = choices[choices["form"] == measure.removeprefix("accuracy_")]
        return int(rows.loc[rows["question_id"].isin(inside), "correct"].isna().sum())
    name, _, part = measure.partition("_")
    rows = options[options["question_id"].isin(inside)]
    if part:
        was_gold = rows["removed"].eq(rows["gold"])
        rows = rows[rows["gold"].notna() & (was_gold if part == "gold" else ~was_gold)]
    if prompt != ANY:
        return int(rows.loc[rows["prompt"] == prompt, name].isna().sum())
    wide = rows.pivot(index="question_id", columns="prompt", values=name).astype("Float64").astype("float64")
    return int(_any(wide).isna().sum()) if len(wide) else 0


def _contrasts(label: str, found: Resampled, cells: Sequence[Cell]) -> list[dict[str, Any]]:
    """Members minus non-members, which are other questions, so that nothing is paired."""
    place = {cell: number for number, cell in enumerate(cells)}
    rows = []
    for column, group in cells:
        if group != MEMBER or (column, NONMEMBER) not in place:
            continue
        both = [place[column, MEMBER], place[column, NONMEMBER]]
        one = found.estimate(both, lambda means: means[..., 0] - means[..., 1])
        n = int(found.observed[:, both].sum())
        rows.append(
            {
                "model": label,
                "prompt": column[0],
                "measure": column[1],
                "group": CONTRAST,
                "value": one.value,
                "low": one.low,
                "high": one.high,
                "n": n,
            }
        )
    return rows
