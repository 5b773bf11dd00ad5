"""Two operations on score tables: means of groups, and paired differences of two models.

Every number has an interval over subjects and the numbers of scored and unscored items. An empty group is null,
never 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from medunlearn.errors import InputError
from medunlearn.results.composites import Composite, bounds_of, composite_named
from medunlearn.results.matrix import ScoreGroup, ScoreMatrix, groups, score_matrix
from medunlearn.statistics import resample_means, resample_pairs
from medunlearn.statistics.bootstrap import REPLICATES, Statistic
from medunlearn.statistics.intervals import UNIT, Array, Bounds, holm

EVALUATION = ("side", "fold", "kind")
"""Labels by which an evaluation is summarized, the kind rolled up."""
NUMBERS = ("value", "low", "high", "n_scored", "n_unscored")
"""Columns of every stored summary."""
EFFECTIVE = "n_effective"
"""Column of the effective number of subjects; not in summaries of older versions."""


@dataclass(frozen=True, slots=True)
class _Line:
    """One planned row: a measure, or a composite whose ``statistic`` combines the means of its ``columns``."""

    name: str
    columns: tuple[int, ...]
    parts: tuple[str, ...] = ()
    statistic: Statistic | None = None

    @property
    def bounds(self) -> Bounds | None:
        """Bounds of the number: 0 and 1 for a composite; for a measure its own."""
        return UNIT if self.statistic else bounds_of(self.name)


def summarize(
    scores: pd.DataFrame,
    by: Sequence[str] = (),
    *,
    composites: Sequence[str] = (),
    rollup: str | None = None,
    replicates: int = REPLICATES,
    seed: int = 0,
) -> pd.DataFrame:
    """Means of every measure and composite in every group, with 95% intervals over subjects.

    Args:
        scores: a score table (:mod:`medunlearn.results.scores`); of several models only if ``by`` distinguishes
            them.
        by: label columns that define groups.
        composites: names in :data:`medunlearn.results.composites.REGISTRY`; each is added to the groups of its
            side, computed from the measured parts; missing parts change its name.
        rollup: one of ``by``; adds a group ``all`` over all its values. Each item counts once, so it is not a mean
            of group means.
        replicates: bootstrap draws of the subjects; all measures of a group share them.
        seed: bootstrap seed.

    Returns:
        One row per group and measure:

        - the labels of ``by``, ``measure``;
        - ``value``, ``low``, ``high``: Float64 in the measure's unit; null if there is none. Fewer than five
          effective subjects have no interval (:mod:`medunlearn.statistics.intervals`);
        - ``n_scored``, ``n_unscored``: items; for a composite scored means scored on every part;
        - ``n_subjects``: subjects behind the value; for a composite those of the part with the fewest;
        - ``n_effective``: Float64, how many subjects of equal size they count as; null without a value;
        - ``parts``: parts of a composite, comma-separated; "" for a measure;
        - ``replicates_dropped``: for a composite, draws without scored items, excluded from the interval.

    Raises:
        InputError: as for :func:`~medunlearn.results.matrix.score_matrix`; a part of a composite outside [0, 1]; an
            unknown composite.
    """
    matrix = score_matrix(scores, by)
    registered = [composite_named(name) for name in composites]
    rows: list[dict[str, Any]] = []
    for group in groups(matrix, by, rollup):
        values, lines = _lines(matrix, group, matrix.values[group.rows], registered)
        resampled = resample_means(values, matrix.subject_numbers[group.rows], replicates=replicates, seed=seed)
        for line in lines:
            row: dict[str, Any] = {
                **group.labels,
                "measure": line.name,
                "parts": ",".join(line.parts),
                "n_unscored": len(values),
            }
            if line.columns:
                estimate = resampled.estimate(line.columns, line.statistic, bounds=line.bounds)
                row |= {name: getattr(estimate, name) for name in ("value", "low", "high", "replicates_dropped")}
                row |= {"n_scored": estimate.n, "n_subjects": estimate.n_clusters, EFFECTIVE: estimate.n_effective}
                row["n_unscored"] -= estimate.n
            rows.append(row)
    return _frame(rows, by, ("value", "low", "high"), ("n_scored", "n_unscored", "n_subjects"))


CHANGE = {"difference": "change", "low": "change_low", "high": "change_high", "p": "change_p"}
"""Columns of :func:`compare` -> their names in :func:`summarize_changes`."""


def summarize_changes(
    scores: pd.DataFrame,
    baseline: pd.DataFrame,
    by: Sequence[str],
    unchanged: tuple[str, str],
    *,
    replicates: int,
    seed: int,
) -> pd.DataFrame:
    """Means like :func:`summarize`, kinds rolled up, each with its change from a baseline on the same items.

    Args:
        baseline: the baseline's scores, repeated with the labels of every row compared with it.
        unchanged: column and value of the baseline's own rows, whose change is null.

    Returns:
        Columns of :func:`summarize`, and ``change``, ``change_low``, ``change_high``, ``change_p``, Float64.
    """
    how: dict[str, Any] = {"rollup": "kind", "replicates": replicates, "seed": seed}
    keys, columns = [*by, "measure"], list(CHANGE.values())
    changes = compare(scores, baseline, by, **how)[[*keys, *CHANGE]].rename(columns=CHANGE)
    changes.loc[changes[unchanged[0]] == unchanged[1], columns] = pd.NA
    table = summarize(scores, by, **how).merge(changes, on=keys, how="left", validate="one_to_one")
    return table.astype(dict.fromkeys(["value", "low", "high", *columns], "Float64"))


def compare(
    scores: pd.DataFrame | ScoreMatrix,
    against: pd.DataFrame | ScoreMatrix,
    by: Sequence[str] = (),
    *,
    composites: Sequence[str] = (),
    rollup: str | None = None,
    replicates: int = REPLICATES,
    seed: int = 0,
) -> pd.DataFrame:
    """One model minus another in every group, paired on items with both scores, with bootstrap over subjects.

    Args:
        scores, against: score tables of the two models on the same items; or what
            :func:`~medunlearn.results.matrix.score_matrix` made of them with the same ``by``.
        by, composites, rollup, replicates, seed: as in :func:`summarize`.

    Returns:
        Rows as in :func:`summarize`, with

        - ``difference``: scores minus against; ``low``, ``high``: its 95% interval; ``p``: two-sided p-value of
          this one comparison (:class:`medunlearn.statistics.Estimate`); ``p_holm``: p corrected for all comparisons
          of the table. Float64, null if there is none;
        - ``n_pairs``: items scored in both; for a composite, on every part. ``n_dropped``: the group's other items;
        - ``n_subjects``, ``n_effective``, ``parts``, ``replicates_dropped``: as in :func:`summarize`.

    Raises:
        InputError: as :func:`summarize`; an item of ``against`` that ``scores`` lacks.
    """
    pivoted = (table if isinstance(table, ScoreMatrix) else score_matrix(table, by) for table in (scores, against))
    matrix, other = _align(*pivoted)
    registered = [composite_named(name) for name in composites]
    rows: list[dict[str, Any]] = []
    for group in groups(matrix, by, rollup):
        ours, theirs = matrix.values[group.rows], other[group.rows]
        lonely = np.isnan(ours) | np.isnan(theirs)
        _, lines = _lines(matrix, group, np.where(lonely, np.nan, ours), registered)
        pairs = resample_pairs(
            _with_transforms(matrix, ours, registered),
            _with_transforms(matrix, theirs, registered),
            matrix.subject_numbers[group.rows],
            replicates=replicates,
            seed=seed,
        )
        for line in lines:
            row: dict[str, Any] = {
                **group.labels,
                "measure": line.name,
                "parts": ",".join(line.parts),
                "n_dropped": len(ours),
            }
            if line.columns:
                gap = pairs.difference(line.columns, line.statistic, bounds=line.bounds)
                row |= {name: getattr(gap, name) for name in ("low", "high", "p", "replicates_dropped")}
                row |= {"difference": gap.value, "n_pairs": gap.n, "n_subjects": gap.n_clusters}
                row[EFFECTIVE] = gap.n_effective
                row["n_dropped"] -= gap.n
            rows.append(row)
    _correct(rows)
    return _frame(rows, by, ("difference", "low", "high", "p", "p_holm"), ("n_pairs", "n_subjects", "n_dropped"))


def _correct(rows: Sequence[dict[str, Any]]) -> None:
    tested = [row for row in rows if row.get("p") is not None]
    for row, corrected in zip(tested, holm([row["p"] for row in tested]), strict=True):
        row["p_holm"] = corrected


def _lines(
    matrix: ScoreMatrix, group: ScoreGroup, values: Array, composites: Sequence[Composite]
) -> tuple[Array, list[_Line]]:
    """The group's values with the composites' own columns, and its rows: measures, then composites of its side."""
    present = set(np.flatnonzero(matrix.rows_of[group.rows].any(axis=0)).tolist())
    lines = [_Line(name, (column,)) for column, name in enumerate(matrix.measures) if column in present]
    table = _with_transforms(matrix, values, composites)
    available = {name for column, name in enumerate(matrix.measures) if not np.isnan(table[:, column]).all()}
    place = {name: column for column, name in enumerate(matrix.measures)}
    own = len(matrix.measures)
    for composite in composites:
        parts = composite.measured_parts(available)
        columns = tuple(place[part] for part in parts)
        if composite.transform is not None:
            columns, own = ((own,) if parts else ()), own + 1
        if composite.side in (None, group.labels.get("side")):
            statistic = None if composite.transform else composite.of
            lines.append(_Line(composite.shown_as(parts), columns, parts, statistic))
    return table, lines


def _with_transforms(matrix: ScoreMatrix, values: Array, composites: Sequence[Composite]) -> Array:
    """The values with one more column for each composite that transforms scores before their mean."""
    own = [
        composite.transform(values[:, matrix.measures.index(part)])
        if (part := composite.parts[0]) in matrix.measures
        else np.full(len(values), np.nan)
        for composite in composites
        if composite.transform is not None
    ]
    return np.column_stack([values, *own]) if own else values


def _align(ours: ScoreMatrix, theirs: ScoreMatrix) -> tuple[ScoreMatrix, Array]:
    """Both models' values with the same rows and columns; NaN for missing items."""
    measures = tuple(dict.fromkeys((*ours.measures, *theirs.measures)))
    same = ours.keys.equals(theirs.keys)
    # Without a row an array would be of floats, which are no places.
    rows = np.arange(len(ours.keys)) if same else np.array(_places(ours.keys, theirs.keys), dtype=np.intp)
    values = _widen(ours.values, ours.measures, measures)
    other = np.full(values.shape, np.nan)
    other[rows] = _widen(theirs.values, theirs.measures, measures)
    present = _widen(ours.rows_of, ours.measures, measures) == 1.0
    present[rows] |= _widen(theirs.rows_of, theirs.measures, measures) == 1.0
    aligned = ScoreMatrix(ours.keys, ours.subjects, measures, values, present)
    return aligned, other


def _places(keys: pd.DataFrame, others: pd.DataFrame) -> list[int]:
    """Row of ``keys`` with each row of ``others``."""
    place = {key: row for row, key in enumerate(_key_tuples(keys))}
    rows = []
    for key in _key_tuples(others):
        if key not in place:
            raise InputError(f"item {key[-1]!r} has scores of only one model. Were both asked the same questions?")
        rows.append(place[key])
    return rows


def _widen(values: npt.NDArray[Any], names: Sequence[str], columns: Sequence[str]) -> Array:
    table = np.full((len(values), len(columns)), np.nan)
    table[:, [columns.index(name) for name in names]] = values
    return table


def _key_tuples(keys: pd.DataFrame) -> Iterator[tuple[object, ...]]:
    columns = [keys[name].astype(object).where(keys[name].notna(), None) for name in keys.columns]
    return zip(*columns, strict=True)


def _frame(
    rows: Sequence[Mapping[str, Any]], by: Sequence[str], numbers: Sequence[str], counts: Sequence[str]
) -> pd.DataFrame:
    """A table with fixed columns and types, even without rows; missing numbers are null, missing counts 0."""
    columns: dict[str, Any] = {name: _label_column([row[name] for row in rows]) for name in by}
    columns["measure"] = pd.Series([row["measure"] for row in rows], dtype="str")
    for name in numbers:
        columns[name] = pd.array([row.get(name) for row in rows], dtype="Float64")
    for name in counts:
        columns[name] = pd.Series([row.get(name, 0) for row in rows], dtype="int64")
    columns["parts"] = pd.Series([row["parts"] for row in rows], dtype="str")
    columns["replicates_dropped"] = pd.Series([row.get("replicates_dropped", 0) for row in rows], dtype="int64")
    columns[EFFECTIVE] = pd.array([row.get(EFFECTIVE) for row in rows], dtype="Float64")
    return pd.DataFrame(columns)


def _label_column(values: Sequence[object]) -> pd.Series[Any]:
    text = all(isinstance(value, str) for value in values)
    return pd.Series(list(values), dtype="str" if text else None)
