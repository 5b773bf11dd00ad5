"""From a score table to a matrix of questions by metrics, with nothing lost and nothing doubled."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import get_args

import numpy as np
import numpy.typing as npt
import pandas as pd

from medunlearn.data.records import FOLDS, KINDS, Side
from medunlearn.errors import InputError
from medunlearn.results.composites import COMPOSITES, DEGRADATION

Array = npt.NDArray[np.float64]

ALL_KINDS = "all"
"""The kind of a roll-up row: every question of its side and fold, each counted once."""

_SCORE_COLUMNS = ("question_id", "metric", "value")
_META_COLUMNS = ("question_id", "subject", "side", "fold", "kind")
_RESERVED = (*(composite.name for composite in COMPOSITES), DEGRADATION)


@dataclass(frozen=True, slots=True)
class Group:
    """The questions of one side, fold and kind.

    Attributes:
        rows: their places in the table of questions, shape [n].
        subjects: whose each is, length n.
    """

    side: Side
    fold: str
    kind: str
    rows: npt.NDArray[np.intp]
    subjects: Sequence[object]


def groups(items_meta: pd.DataFrame) -> Iterator[Group]:
    """Every side, fold and kind that has questions, and the roll-up of each side and fold, which comes last.

    Raises:
        InputError: a column is missing, a question is there twice, something in a row is missing, a side
            is neither forget nor retain, a kind is called ``all``.
    """
    _check_meta(items_meta)
    columns = {name: items_meta[name].tolist() for name in _META_COLUMNS[1:]}
    members: dict[tuple[Side, str, str], list[int]] = {}
    for row, (side, fold, kind) in enumerate(zip(columns["side"], columns["fold"], columns["kind"], strict=True)):
        for key in ((side, fold, kind), (side, fold, ALL_KINDS)):
            members.setdefault(key, []).append(row)
    for side, fold, kind in sorted(members, key=_order):
        rows = members[side, fold, kind]
        subjects = [columns["subject"][row] for row in rows]
        yield Group(side, fold, kind, np.array(rows, dtype=np.intp), subjects)


def metric_names(*tables: pd.DataFrame) -> list[str]:
    """The metrics of some score tables, in order of first appearance.

    Raises:
        InputError: a column is missing, or a row names no metric, or a metric has a composite's name.
    """
    for table in tables:
        _check_columns(table, _SCORE_COLUMNS, "the score table")
        if table["metric"].isna().any():
            raise InputError("A row of the score table does not name its metric.")
    found = list(dict.fromkeys(str(name) for table in tables for name in table["metric"]))
    for name in found:
        if name in _RESERVED:
            raise InputError(f"metric {name!r} has the name of a composite; give it another.")
    return found


def matrix(scores: pd.DataFrame, items_meta: pd.DataFrame, metrics: Sequence[str]) -> Array:
    """Values of shape [questions, metrics], rows in the order of ``items_meta``; NaN = unscored.

    A question that has no row for a metric is unscored too: it was asked for, and there is no number.

    Raises:
        InputError: a question that ``items_meta`` does not have, a question and metric twice, a value that
            is infinite or no number.
    """
    place = {question: row for row, question in enumerate(items_meta["question_id"].tolist())}
    questions = scores["question_id"].tolist()
    strangers = [question for question in questions if question not in place]
    if strangers:
        raise InputError(
            f"question {strangers[0]!r} has scores but no row in items_meta ({len(strangers)} such scores). "
            "Are the scores of another benchmark?"
        )
    _refuse_duplicates(scores, ["question_id", "metric"], "the score table")
    column = {metric: number for number, metric in enumerate(metrics)}
    values = np.full((len(items_meta), len(metrics)), np.nan)
    rows = [place[question] for question in questions]
    values[rows, [column[str(metric)] for metric in scores["metric"]]] = _numbers(scores)
    return values


def _numbers(scores: pd.DataFrame) -> Array:
    try:
        values = pd.to_numeric(scores["value"]).to_numpy(dtype=np.float64, na_value=np.nan)
    except (TypeError, ValueError) as error:
        raise InputError(f"A value of the score table is no number: {error}.") from error
    if np.isinf(values).any():
        where = scores.iloc[int(np.flatnonzero(np.isinf(values))[0])]
        raise InputError(
            f"The {where['metric']} of question {where['question_id']!r} is infinite. "
            "A score is a finite number, or null with a reason."
        )
    return values


def _check_meta(items_meta: pd.DataFrame) -> None:
    _check_columns(items_meta, _META_COLUMNS, "items_meta")
    for name in _META_COLUMNS:
        missing = items_meta.loc[items_meta[name].isna(), "question_id"].tolist()
        if missing:
            raise InputError(f"question {missing[0]!r} has no {name} in items_meta ({len(missing)} such).")
    _refuse_duplicates(items_meta, ["question_id"], "items_meta")
    sides = set(items_meta["side"]) - set(get_args(Side))
    if sides:
        raise InputError(f"A side is forget or retain, not {min(map(str, sides))!r}.")
    if (items_meta["kind"] == ALL_KINDS).any():
        raise InputError(f"A kind cannot be called {ALL_KINDS!r}: that is the row of all kinds together.")


def _check_columns(table: pd.DataFrame, needed: Sequence[str], what: str) -> None:
    absent = [name for name in needed if name not in table.columns]
    if absent:
        raise InputError(f"{what} lacks the column {', '.join(absent)}; it has {', '.join(table.columns)}.")


def _refuse_duplicates(table: pd.DataFrame, keys: list[str], what: str) -> None:
    twice = table[table.duplicated(keys)]
    if len(twice):
        first = ", ".join(str(value) for value in twice[keys].iloc[0])
        raise InputError(f"{what} has {first} more than once ({len(twice)} rows too many).")


def _order(key: tuple[Side, str, str]) -> tuple[int, int, str, int, str]:
    """Forget before retain, folds and kinds as records.py lists them, others after, the roll-up last."""
    side, fold, kind = key
    folds: tuple[str, ...] = FOLDS
    kinds: tuple[str, ...] = (*KINDS,)
    fold_place = folds.index(fold) if fold in folds else len(folds)
    kind_place = kinds.index(kind) if kind in kinds else len(kinds) + (kind == ALL_KINDS)
    return get_args(Side).index(side), fold_place, fold, kind_place, kind
