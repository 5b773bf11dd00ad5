"""The score table: one row per item and measure, the same for all measuring commands.

Columns: ``item`` (question, record, probe), ``subject`` (resampled by statistics), ``measure``,
``value`` (Float64; null = unscored), ``reason`` (for an unscored item; null if there is a value), and the label
columns that apply (:data:`LABELS`). Every measuring command writes one such table, ``scores.parquet``, into the
folder of its record. :mod:`medunlearn.results.summary` turns it into means and differences.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from glob import glob, has_magic
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from medunlearn.data.benchmark import Benchmark
from medunlearn.data.records import RECORD, Question
from medunlearn.data.recurring_answers import recurring_answers
from medunlearn.data.splits import Split
from medunlearn.data.storage import read_arrow, read_frame, write_frame
from medunlearn.errors import InputError
from medunlearn.paper import paper_of
from medunlearn.results.runs import EPOCHS, Run

FILE = "scores.parquet"
ATTACKS = "attacks"
"""Folder of a run's attacks."""
COLUMNS = ("item", "subject", "measure", "value", "reason")
LABELS = (
    *("run", "verb", "model", "role", "method", "seed", "split", "context"),
    *("side", "fold", "kind", "level", "node", "identifier", "private", "member", "epoch", "attack", "strength"),
    *("given", "identifiers"),
    *("corpus", "way", "prefix_tokens", "decoding", "option", "task", "filter"),
)
"""Label columns that our own commands write; a table may have others."""

_TEXT = ("item", "subject", "measure")


def score_table(rows: pd.DataFrame) -> pd.DataFrame:
    """Check rows against the schema, and give them fixed types with fixed columns first.

    Args:
        rows: ``item``, ``subject``, ``measure``, ``value``, labels, and ``reason`` for null values.

    Raises:
        InputError: a missing column, a row without item, subject or measure, an infinite value, a value with a
            reason or neither, or a duplicate item and measure with the same labels.
    """
    absent = [name for name in COLUMNS if name not in rows.columns]
    if absent:
        raise InputError(f"The score table lacks the column {', '.join(absent)}; it has {', '.join(rows.columns)}.")
    texts = {name: rows[name].astype("str") for name in _TEXT}
    for name, text in texts.items():
        if text.isna().any() or (text == "").any():
            raise InputError(f"A row of the score table has no {name}.")
    values = numbers(rows)
    reasons = rows["reason"].astype("string")
    unscored = np.isnan(values)
    wrong = unscored != reasons.notna().to_numpy()
    if wrong.any():
        row = rows.iloc[int(np.flatnonzero(wrong)[0])]
        raise InputError(
            f"The {row['measure']} of {row['item']!r} must have either a value or a reason why there is none."
        )
    labels = [name for name in rows.columns if name not in COLUMNS]
    value = pd.arrays.FloatingArray(values.copy(), unscored)
    table = rows[[*COLUMNS, *labels]].assign(**texts, value=value, reason=reasons)
    refuse_duplicates(table, ["item", "measure", *labels])
    return table.reset_index(drop=True)


def measured(scores: pd.DataFrame, labels: pd.DataFrame) -> pd.DataFrame:
    """The score table from the scores of :func:`medunlearn.metrics.item_scoring.score` on labelled items.

    Args:
        scores: question_id, metric, value, reason.
        labels: ``item``, ``subject`` and other labels, one row per item.
    """
    renamed_scores = scores.rename(columns={"question_id": "item", "metric": "measure"})
    return score_table(renamed_scores.merge(labels, on="item", how="left", validate="many_to_one"))


def numbers(table: pd.DataFrame) -> np.ndarray[Any, np.dtype[np.float64]]:
    """The column ``value`` as floats; NaN = unscored.

    Raises:
        InputError: a value that is infinite or not a number.
    """
    try:
        values = pd.to_numeric(table["value"]).to_numpy(dtype=np.float64, na_value=np.nan)
    except (TypeError, ValueError) as error:
        raise InputError(f"A value of the score table is no number: {error}.") from error
    if np.isinf(values).any():
        row = table.iloc[int(np.flatnonzero(np.isinf(values))[0])]
        raise InputError(
            f"The {row['measure']} of {row['item']!r} is infinite. "
            "A score is a finite number, or null with a reason."
        )
    return values


def refuse_duplicates(table: pd.DataFrame, keys: Sequence[str]) -> None:
    """Raise an InputError if two rows have the same keys."""
    keys = list(keys)
    # Most tables are told apart by their first two keys, and a comparison of every label takes ten times as long.
    if not table.duplicated(keys[:2]).any():
        return
    twice = table.duplicated(keys)
    if twice.any():
        row = table[twice].iloc[0]
        raise InputError(
            f"The {row['measure']} of {row['item']!r} occurs more than once ({int(twice.sum())} rows too many)."
        )


def write_scores(folder: Path, rows: pd.DataFrame) -> pd.DataFrame:
    """Validate a score table and write it to ``folder/scores.parquet``, replacing an earlier one atomically.

    Raises:
        InputError: rows that break the schema (:func:`score_table`).
    """
    table = score_table(rows)
    write_frame(folder / FILE, table)
    return table


def replace_scores(folder: Path, rows: pd.DataFrame, **labels: Sequence[str]) -> pd.DataFrame:
    """Add rows to a record's score table, replacing earlier rows with one of these values of each label.

    ``replace_scores(folder, rows, attack=["loss", "min_k"])`` keeps the scores of other attacks.
    """
    if (folder / FILE).exists():
        old = read_scores(folder)
        same = pd.Series(True, index=old.index)
        for name, values in labels.items():
            same &= old[name].isin(list(values)) if name in old.columns else False
        rows = pd.concat([old[~same], rows], ignore_index=True) if (~same).any() else rows
    return write_scores(folder, rows)


def read_outcomes(folder: Path) -> pd.DataFrame:
    """The columns ``measure``, ``value`` and ``reason`` of a score table."""
    return read_frame(folder / FILE, ("measure", "value", "reason"), columns=["measure", "value", "reason"])


def read_scores(folder: Path, labels: Sequence[str] = ()) -> pd.DataFrame:
    """The score table of a record's folder.

    Args:
        labels: required columns besides those of every score table.

    Raises:
        InputError: it is missing, broken, or has another schema.
    """
    path = folder / FILE
    if not path.exists():
        raise InputError(f"{folder} holds no {FILE}. `medunlearn evaluate --help` says how to measure.")
    table = read_frame(path, (*COLUMNS, *labels))
    try:
        return table.assign(value=_score_array(table))
    except InputError as error:
        raise InputError(f"{path}: {error}") from error


def scores(
    paths: Path | str | Run | Sequence[Path | str | Run], *, attacks: bool = False, epochs: bool = False
) -> pd.DataFrame:
    """The scores below some run folders as one table, with the labels of run and record.

    Args:
        paths: run folders, folders with run folders, or patterns (``"runs/*"``).
        attacks: also those of attacks, which are of another model or another question: they have the label
            ``attack``. A folder of attacks that is named itself is always read.
        epochs: also those of a model after each of its epochs, with the label ``epoch``; likewise.

    Returns:
        The concatenated score tables, with ``run`` (folder), ``verb``, ``model`` (label), ``role``,
        ``method``, ``seed`` (of training), ``epoch``, ``split`` and ``context``. A table's own labels are kept.

    Raises:
        InputError: a path that does not exist, a pattern that matches nothing, a table of an older version, no
            score at all.
    """
    several = [paths] if isinstance(paths, (Path, str, Run)) else list(paths)
    folders = list(dict.fromkeys(folder for path in several for folder in _folders(path)))
    unasked = {*(() if attacks else (ATTACKS,)), *(() if epochs else (EPOCHS,))}
    found = {file: folder for folder in folders for file in sorted(folder.rglob(FILE))}
    left_out = {name for file, folder in found.items() for name in unasked & {*file.relative_to(folder).parts}}
    files = [file for file, folder in found.items() if not unasked & {*file.relative_to(folder).parts}]
    records = [file.parent for file in files if (file.parent / "run.json").exists()]
    if not records:
        more = "".join(f" There are those of {name}: {name}=True." for name in sorted(left_out))
        raise InputError(f"There are no scores below {', '.join(map(str, folders))}.{more}")
    table = _labelled_scores(records)
    labels = [name for name in LABELS if name in table.columns]
    return table[[*COLUMNS, *labels, *(name for name in table.columns if name not in {*COLUMNS, *labels})]]


def _labelled_scores(folders: Sequence[Path]) -> pd.DataFrame:
    """The score tables of records as one, with the labels of each record and of the measured run.

    Neighbouring tables with the same columns become one before they become a pandas one: made one by one, two
    hundred small tables take most of the time.
    """
    read = [(read_arrow(folder / FILE, COLUMNS), _labels(Run.open(folder))) for folder in folders]
    parts = [(table, {name: new[name] for name in new if name not in table.column_names}) for table, new in read]
    pieces = list[pd.DataFrame]()
    for _, group in groupby(
        parts, lambda part: (part[0].schema, [(name, type(new)) for name, new in part[1].items()])
    ):
        same = list(group)
        piece = pa.concat_tables([table for table, _ in same]).to_pandas()
        counts = [len(table) for table, _ in same]
        for name in same[0][1]:
            piece[name] = pd.Series([labels[name] for _, labels in same]).repeat(counts).array
        pieces.append(piece)
    try:
        checked = [piece.assign(value=_score_array(piece)) for piece in pieces]
    except InputError:
        # The first wrong table is named.
        for folder in folders:
            read_scores(folder)
        raise
    return pd.concat(checked, ignore_index=True)


def _score_array(table: pd.DataFrame) -> Any:
    return pd.array(numbers(table), dtype="Float64")


def _labels(record: Run) -> Mapping[str, Any]:
    run = record.parent or record
    labels = {
        "run": str(run.folder),
        "verb": record.info.verb,
        "model": run.label,
        "role": run.role,
        "method": run.info.method,
        "seed": run.info.seed,
        "epoch": run.info.results.get("epoch"),
        "split": record.info.split,
        "context": record.info.results.get("context"),
    }
    return {name: value for name, value in labels.items() if value is not None}


def _folders(path: Path | str | Run) -> Iterator[Path]:
    if isinstance(path, Run):
        yield path.folder
    elif has_magic(str(path)):
        matches = [Path(name) for name in sorted(glob(str(path))) if Path(name).is_dir()]
        if not matches:
            raise InputError(f"No folder matches {path}.")
        yield from matches
    elif Path(path).is_dir():
        yield Path(path)
    else:
        raise InputError(f"{path} is no folder. Name run folders, or a pattern such as 'runs/*'.")


def record_labels(benchmark: Benchmark, split: Split, records: Sequence[str]) -> pd.DataFrame:
    """Labels of records, like :func:`question_labels`; fold and kind are
    :data:`~medunlearn.data.records.RECORD`.
    """
    sides, level = benchmark.sides(split), _grouping_level(benchmark)
    rows = [
        {
            "item": name,
            "subject": benchmark.subject(name),
            "side": sides[name],
            "fold": RECORD,
            "kind": RECORD,
            "level": benchmark.subject_level,
            "node": benchmark.record[name].groups.get(level),
            "identifier": None,
        }
        for name in records
    ]
    return _label_table(rows)


def question_labels(benchmark: Benchmark, split: Split, questions: Sequence[Question]) -> pd.DataFrame:
    """Labels of questions, one row each: item, subject, side, fold, kind, level, node, identifier.

    For papers with recurring answers (:mod:`medunlearn.data.recurring_answers`) also ``private``: True if no
    retained record contains the answer; null for general questions.

    ``level`` is the level of the question; ``node`` the record's node at the level by which the
    benchmark's paper groups its numbers, else at the coarsest level; ``identifier`` the requested type.
    """
    sides, level = benchmark.sides(split), _grouping_level(benchmark)
    paper = paper_of(benchmark.builder)
    identifier_asked = paper.grouping.identifier_asked if paper.grouping else lambda provenance: None
    rows = [
        {
            "item": question.question_id,
            "subject": benchmark.subject(question.record_id),
            "side": sides[question.record_id],
            "fold": question.fold,
            "kind": question.kind,
            "level": question.level,
            "node": benchmark.record[question.record_id].groups.get(level),
            "identifier": identifier_asked(question.provenance),
        }
        for question in questions
    ]
    table = _label_table(rows)
    if paper.recurring_answers:
        recurring = recurring_answers(benchmark, split)
        private = [None if q.fold == "utility" else q.question_id not in recurring for q in questions]
        table["private"] = pd.array(private, dtype="boolean")
    return table


def _grouping_level(benchmark: Benchmark) -> str:
    grouping = paper_of(benchmark.builder).grouping
    return grouping.level if grouping else next(iter(benchmark.levels), "")


def _label_table(rows: Sequence[Mapping[str, object]]) -> pd.DataFrame:
    columns = ["item", "subject", "side", "fold", "kind", "level", "node", "identifier"]
    return pd.DataFrame(rows, columns=columns).astype(dict.fromkeys(("node", "identifier"), "string"))
