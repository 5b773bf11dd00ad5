"""Pivot a score table to a matrix of items by measures, with groups of rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pandas as pd

from medunlearn.data.records import FOLDS, KINDS, SIDES
from medunlearn.errors import InputError
from medunlearn.results.composites import RESERVED
from medunlearn.results.scores import COLUMNS, numbers, refuse_duplicates
from medunlearn.statistics.bootstrap import cluster_codes

Array = npt.NDArray[np.float64]
Places = npt.NDArray[np.intp]

ALL_KINDS = "all"
"""The value of a rolled-up label: every item of its group, each counted once."""

_ORDER: Mapping[str, Sequence[str]] = {"side": SIDES, "fold": FOLDS, "kind": KINDS}


@dataclass(frozen=True)
class ScoreMatrix:
    """A score table with a row per item of each group, and a column per measure.

    Attributes:
        keys: the labels that distinguish groups, and ``item``; [n] rows in the order of the score table.
        subjects: subject of each row, length n.
        measures: names of the columns, in the order of the score table.
        values: shape [n, measures]; NaN = unscored, or without this measure.
        rows_of: True for measures with a row in the score table, shape [n, measures].
    """

    keys: pd.DataFrame
    subjects: Sequence[object]
    measures: tuple[str, ...]
    values: Array
    rows_of: npt.NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.keys)

    @cached_property
    def subject_numbers(self) -> Places:
        """Number of each row's subject in the order of their ids: what the bootstrap draws."""
        return cluster_codes(self.subjects)[0]


@dataclass(frozen=True, slots=True)
class ScoreGroup:
    """Indices of the matrix rows with the same labels: ``all`` where rolled up, None for a missing label."""

    labels: Mapping[str, object]
    rows: Places


def score_matrix(scores: pd.DataFrame, by: Sequence[str]) -> ScoreMatrix:
    """Pivot a score table.

    Raises:
        InputError: a missing column, a duplicate item and measure in a group, an item with two subjects, an
            infinite value, or a measure named like a composite.
    """
    absent = [name for name in (*COLUMNS[:-1], *by) if name not in scores.columns]
    if absent:
        raise InputError(
            f"The score table lacks the column {', '.join(absent)}; it has {', '.join(scores.columns)}."
        )
    for name in COLUMNS[:3]:
        if scores[name].isna().any():
            raise InputError(f"A row of the score table has no {name}.")
    column, names = pd.factorize(scores["measure"])
    measures = tuple(map(str, names))
    for name in measures:
        if name in RESERVED:
            raise InputError(f"measure {name!r} has the name of a composite; give it another.")
    keys = [*by, "item"]
    row, first = _number_keys(scores, keys)
    if pd.Series(row * max(len(measures), 1) + column).duplicated().any():
        refuse_duplicates(scores, [*keys, "measure"])
    subject = pd.factorize(scores["subject"])[0]
    if (subject != subject[first][row]).any():
        item = scores["item"].iloc[int(np.flatnonzero(subject != subject[first][row])[0])]
        raise InputError(f"item {item!r} has more than one subject in the score table.")
    values, present = np.full((len(first), len(measures)), np.nan), np.zeros((len(first), len(measures)), np.bool_)
    values[row, column], present[row, column] = numbers(scores), True
    heads = scores.iloc[first]
    return ScoreMatrix(heads[keys].reset_index(drop=True), heads["subject"].tolist(), measures, values, present)


def groups(matrix: ScoreMatrix, by: Sequence[str], rollup: str | None = None) -> Iterator[ScoreGroup]:
    """Groups of rows with equal labels, in the order of :mod:`medunlearn.data.records`, else of the table.

    Args:
        rollup: a label of ``by``; adds, last in each of its groups, one over all its values.

    Raises:
        InputError: a label that is not in ``by``, or that already has a value ``all``.
    """
    if rollup is not None and rollup not in by:
        raise InputError(f"{rollup!r} cannot be rolled up: it is not among {', '.join(by)}.")
    if rollup is not None and (matrix.keys[rollup] == ALL_KINDS).any():
        raise InputError(f"A {rollup} cannot be called {ALL_KINDS!r}: that is the name of the total.")
    if not by:
        yield ScoreGroup({}, np.arange(len(matrix.keys), dtype=np.intp))
        return
    number, first = _number_keys(matrix.keys, by)
    heads = matrix.keys.iloc[first]
    columns = [heads[name].astype(object).where(heads[name].notna(), None).tolist() for name in by]
    parts = np.split(np.argsort(number, kind="stable"), np.cumsum(np.bincount(number))[:-1])
    members: dict[tuple[object, ...], list[Places]] = {}
    rolled = None if rollup is None else list(by).index(rollup)
    for part, labels in zip(parts, zip(*columns, strict=True), strict=False):
        members.setdefault(labels, []).append(part)
        if rolled is not None:
            every = (*labels[:rolled], ALL_KINDS, *labels[rolled + 1 :])
            members.setdefault(every, []).append(part)
    rank = {name: _ranks(name, values, name == rollup) for name, values in zip(by, columns, strict=True)}
    ordered = sorted(
        members, key=lambda labels: [rank[name][value] for name, value in zip(by, labels, strict=True)]
    )
    for labels in ordered:
        yield ScoreGroup(dict(zip(by, labels, strict=True)), np.sort(np.concatenate(members[labels])))


def _ranks(name: str, values: Sequence[object], rolled: bool) -> dict[object, tuple[int, str]]:
    """Sort key of each value of a label: in the order of records.py, then by name; other labels in order of
    occurrence.
    """
    if name not in _ORDER:
        ranks = {value: (place, "") for place, value in enumerate(dict.fromkeys(values))}
    else:
        order = list(_ORDER[name])
        ranks = {v: (order.index(str(v)) if v in order else len(order), str(v)) for v in dict.fromkeys(values)}
    return {**ranks, ALL_KINDS: (len(values) + len(ranks) + len(KINDS), "")} if rolled else ranks


def _number_keys(table: pd.DataFrame, keys: Sequence[str]) -> tuple[Places, Places]:
    """Number of each row's key, by first occurrence; and the index of each key's first occurrence."""
    number = table.groupby(list(keys), sort=False, dropna=False).ngroup().to_numpy()
    _, first = np.unique(number, return_index=True)
    return number.astype(np.intp), first.astype(np.intp)
