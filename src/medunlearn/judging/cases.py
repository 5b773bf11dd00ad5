"""Judging cases from a benchmark or a table, and seeded samples of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from math import isnan
from pathlib import Path
from typing import Any

import pandas as pd

from medunlearn.data.benchmark import Benchmark
from medunlearn.data.records import Record
from medunlearn.data.splits import shuffled
from medunlearn.errors import InputError, SourceError
from medunlearn.judging.panel_tables import ALL
from medunlearn.judging.tasks import UNSURE, JudgingCase, JudgingTask
from medunlearn.probes.question_selection import recorded_probes
from medunlearn.sources.table_files import read_rows

_LABEL_LEVEL = "disease"


def _record_case(benchmark: Benchmark, record: Record, name: str, group: str, **fields: str) -> JudgingCase:
    identifiers = tuple(identifier.value for identifier in record.identifiers)
    return JudgingCase(name, benchmark.subject(record.record_id), group, fields, identifiers)


def label_cases(benchmark: Benchmark) -> list[JudgingCase]:
    """One case for every record with a title: its disease label and its title only (AMNESIA, Appendix F).

    Raises:
        InputError: the benchmark has no level of diseases, or no titles.
    """
    if _LABEL_LEVEL not in benchmark.levels:
        raise InputError(
            f"The benchmark has no level {_LABEL_LEVEL!r} (it has {', '.join(benchmark.levels)}), so there are no "
            "labels to judge. Give a table with case_id, title and category instead."
        )
    if not benchmark.titles:
        raise InputError(
            "The records of this benchmark have no titles, and labels are judged by titles, since notes identify "
            "patients. Build it from notes with --title, or give a table with case_id, title and category."
        )
    return [
        _record_case(benchmark, record, record.record_id, label, title=title, category=label)
        for record in benchmark.records
        if (label := record.groups.get(_LABEL_LEVEL)) and (title := benchmark.titles.get(record.record_id))
    ]


def question_cases(
    benchmark: Benchmark, folds: Sequence[str] = ("train",), probes: Path | None = None
) -> list[JudgingCase]:
    """Questions of these folds, each with its record's text; by default the training pool (AMNESIA, Appendix G).

    Args:
        probes: a probe set, whose questions of these folds are judged.

    Raises:
        InputError: no question in these folds; a probe set of another benchmark.
    """
    asked = benchmark.questions if probes is None else recorded_probes(probes, benchmark)[0]
    questions = [question for question in asked if question.fold in folds]
    if not questions:
        there = ", ".join(sorted({question.fold for question in benchmark.questions})) or "no questions"
        raise InputError(f"The benchmark has no question of fold {', '.join(folds)}; it has {there}.")
    return [
        _record_case(
            benchmark, record, q.question_id, q.kind, note=record.text, question=q.question, answer=q.answer
        )
        for q in questions
        for record in [benchmark.record[q.record_id]]
    ]


def forgotten_ids(benchmark: Benchmark, splits: Sequence[str]) -> set[str]:
    """Ids of the records, and of the questions on them, that some splits forget (AMNESIA, Section 3.2).

    Raises:
        UnknownNameError: no such split.
    """
    forgotten = [record for name in splits for record in benchmark.records_of(benchmark.split(name), "forget")]
    records = {record.record_id for record in forgotten}
    return records | {q.question_id for q in benchmark.questions if q.record_id in records}


def document_cases(benchmark: Benchmark) -> list[JudgingCase]:
    """Every record with its questions, except completions."""
    question_lines: dict[str, list[str]] = {}
    for question in benchmark.questions:
        if question.kind != "completion":
            question_lines.setdefault(question.record_id, []).append(f"{question.question} -> {question.answer}")
    return [
        _record_case(
            benchmark,
            record,
            record.record_id,
            task := record.groups[benchmark.levels[0]],
            task=task,
            document=record.text,
            questions="\n".join(question_lines.get(record.record_id, ())) or "none",
        )
        for record in benchmark.records
    ]


def read_cases(path: Path, task: JudgingTask) -> list[JudgingCase]:
    """Cases from a table: CSV, TSV, JSONL, JSON or Parquet.

    Columns: case_id, those shown by the task, and optionally subject (default: each case its own) and group
    (default: the category, or ``all``). Others are ignored. Identifiers in the texts are unknown. An empty response
    is judged, since a model may answer nothing; null means missing.

    Raises:
        SourceError: it cannot be read, lacks a column, has an empty cell or a duplicate id; with row numbers.
    """
    rows: list[dict[str, str]] = []
    for place, row in read_rows(path):
        if isinstance(row, str):
            raise SourceError(f"{path} cannot be read: {place} {row}.")
        rows.append(_cells(row))
    columns = ("case_id", *task.shows)
    missing = [name for name in columns if rows and not any(name in row for row in rows)]
    if missing:
        raise SourceError(
            f"{path} lacks the column {', '.join(missing)}. Judging a {task.name} needs {', '.join(columns)}."
        )
    # A subject or group in some rows only would mix subjects with rows, and groups with the rest.
    optional = [name for name in ("subject", "group") if any(row.get(name, "").strip() for row in rows)]
    empty = [
        (number, name)
        for number, row in enumerate(rows, 1)
        for name in (*columns, *optional)
        if name not in row or not (row[name].strip() or name == "response")
    ]
    if empty:
        raise SourceError(f"{path}: row {empty[0][0]} has no {empty[0][1]} ({len(empty)} such cells in all).")
    return check_cases([_row_case(row, task) for row in rows], str(path))


def _cells(row: Mapping[Any, Any]) -> dict[str, str]:
    """Cells as text, without nulls."""
    return {
        str(name): str(value)
        for name, value in row.items()
        if not (value is None or (isinstance(value, float) and isnan(value)))
    }


def _row_case(row: Mapping[str, str], task: JudgingTask) -> JudgingCase:
    group = row.get("group") or row.get("category") or ALL
    return JudgingCase(
        row["case_id"],
        row.get("subject") or row["case_id"],
        group,
        {name: row.get(name, "") for name in task.shows},
    )


def check_cases(cases: Iterable[JudgingCase], where: str) -> list[JudgingCase]:
    """Return the cases; raise a SourceError if there are none, an id occurs twice, or a group is called ``all``."""
    cases = list(cases)
    twice = [name for name, times in Counter(case.case_id for case in cases).items() if times > 1]
    if twice:
        raise SourceError(f"{where}: case_id {twice[0]!r} occurs more than once ({len(twice)} such ids in all).")
    if not cases:
        raise SourceError(f"{where} contains nothing to judge.")
    groups = {case.group for case in cases}
    if ALL in groups and len(groups) > 1:
        raise SourceError(
            f"{where}: a group is called {ALL!r}, the tables' name for all cases together. Rename it."
        )
    return cases


def categories_of(cases: Sequence[JudgingCase], task: JudgingTask) -> tuple[str, ...]:
    """Categories of the cases; empty for a task without categories.

    Raises:
        SourceError: one has the judges' name for "none of them".
    """
    if "category" not in task.shows:
        return ()
    categories = sorted({case.fields["category"] for case in cases})
    if UNSURE in categories:
        raise SourceError(f"A category is called {UNSURE!r}, the judges' word for none of them. Rename it.")
    return tuple(categories)


def case_table(cases: Sequence[JudgingCase]) -> pd.DataFrame:
    """One row per case: case_id, subject, group, and the fields."""
    rows = [{"case_id": c.case_id, "subject": c.subject, "group": c.group, **c.fields} for c in cases]
    return pd.DataFrame(rows, dtype="str")


def to_cases(table: pd.DataFrame, task: JudgingTask) -> list[JudgingCase]:
    """Inverse of :func:`case_table`."""
    return [_row_case(_cells(row), task) for row in table.to_dict("records")]


def _ids_by_group(cases: Sequence[JudgingCase], *purpose: str | int) -> dict[str, list[str]]:
    """Group -> ids of its cases in random order; ``purpose`` ends with the seed."""
    ids: dict[str, list[str]] = {group: [] for group in sorted({case.group for case in cases})}
    for case in cases:
        ids[case.group].append(case.case_id)
    *name, seed = purpose
    return {group: shuffled(own, *name, group, seed) for group, own in ids.items()}


def sample_per_group(cases: Sequence[JudgingCase], number: int, seed: int) -> list[JudgingCase]:
    """Draw cases of each group, or take all if it has fewer (AMNESIA, F: 300 titles of each of 3 diseases)."""
    sample = {name for ids in _ids_by_group(cases, "judge", seed).values() for name in ids[:number]}
    return [case for case in cases if case.case_id in sample]


def sample_per_subject(cases: Sequence[JudgingCase], subjects: int, seed: int) -> list[JudgingCase]:
    """Draw subjects, and one case of each group per subject (AMNESIA, G: a factual and a reasoning one for 500
    subjects).

    Subjects that lack a group come last, so all drawn subjects have all groups if there are enough.
    """
    by_subject: dict[str, list[JudgingCase]] = {}
    for case in cases:
        by_subject.setdefault(case.subject, []).append(case)
    n_groups = {subject: len({case.group for case in own}) for subject, own in by_subject.items()}
    order = shuffled(list(by_subject), "judge subjects", seed)
    every = len({case.group for case in cases})
    order.sort(key=lambda subject: n_groups[subject] < every)
    sample = {
        ids[0]
        for subject in order[:subjects]
        for ids in _ids_by_group(by_subject[subject], "judge one", subject, seed).values()
    }
    return [case for case in cases if case.case_id in sample]


def sample_evenly(cases: Sequence[JudgingCase], number: int, seed: int) -> list[JudgingCase]:
    """Draw cases as evenly over the groups as their sizes allow, in an order that mixes the groups.

    Raises:
        InputError: there are fewer cases.
    """
    if not 1 <= number <= len(cases):
        raise InputError(f"{number} cases cannot be drawn from {len(cases)}.")
    # The first of every group, then the second of every group that has one, and so on.
    turns = [
        (turn, place, name)
        for place, ids in enumerate(_ids_by_group(cases, "annotate", seed).values())
        for turn, name in enumerate(ids)
    ]
    by_id = {case.case_id: case for case in cases}
    sample = [name for _, _, name in sorted(turns)[:number]]
    return [by_id[name] for name in shuffled(sample, "annotate order", seed)]
