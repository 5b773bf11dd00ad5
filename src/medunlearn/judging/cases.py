"""Judging cases: from a benchmark or a table, and seeded samples of them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa

from medunlearn.data.benchmark import Benchmark
from medunlearn.data.records import Question, Record
from medunlearn.data.splits import shuffled
from medunlearn.errors import InputError, SourceError
from medunlearn.judging.task import UNSURE, JudgingCase, JudgingTask


def _read_jsonl(path: Path) -> pd.DataFrame:
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    if not all(isinstance(row, dict) for row in rows):
        raise ValueError("a line is not an object, {...}")
    return pd.DataFrame(rows, dtype=object)


_READERS: dict[str, Callable[[Path], pd.DataFrame]] = {
    ".csv": lambda path: pd.read_csv(path, dtype=str, keep_default_na=False, encoding="utf-8-sig"),
    ".jsonl": _read_jsonl,
    ".parquet": pd.read_parquet,
}
_LABEL_LEVEL = "disease"


def identifiers_of(record: Record) -> tuple[str, ...]:
    return tuple(found.value for found in record.identifiers)


def label_cases(benchmark: Benchmark) -> list[JudgingCase]:
    """The disease label of every record that has one. Records have no title, so the whole text stands for it.

    Raises:
        InputError: the benchmark has no level of diseases.
    """
    if _LABEL_LEVEL not in benchmark.levels:
        raise InputError(
            f"The benchmark has no level {_LABEL_LEVEL!r} (it has {', '.join(benchmark.levels)}), so there are no "
            "labels to judge. Give a table with case_id, title and category instead."
        )
    return [
        JudgingCase(
            case_id=record.record_id,
            subject=benchmark.subject(record.record_id),
            group=record.groups[_LABEL_LEVEL],
            fields={"title": record.text, "category": record.groups[_LABEL_LEVEL]},
            identifiers=identifiers_of(record),
        )
        for record in benchmark.records
        if _LABEL_LEVEL in record.groups
    ]


def question_cases(benchmark: Benchmark, kinds: Sequence[str] = ()) -> list[JudgingCase]:
    """Every question on a record's text, with that text; of the kinds named, or all.

    Raises:
        InputError: no question is of these kinds.
    """
    questions = [q for q in benchmark.questions if not kinds or q.kind in kinds]
    if not questions:
        there = sorted({q.kind for q in benchmark.questions})
        raise InputError(f"The benchmark has no question of kind {', '.join(kinds)}; it has {', '.join(there)}.")
    return [_question_case(benchmark, question) for question in questions]


def _question_case(benchmark: Benchmark, question: Question) -> JudgingCase:
    record = benchmark.record[question.record_id]
    return JudgingCase(
        case_id=question.question_id,
        subject=benchmark.subject(question.record_id),
        group=question.kind,
        fields={"note": record.text, "question": question.question, "answer": question.answer},
        identifiers=identifiers_of(record),
    )


def document_cases(benchmark: Benchmark) -> list[JudgingCase]:
    """Every record with all the questions on it but completions."""
    asked: dict[str, list[str]] = {record.record_id: [] for record in benchmark.records}
    for question in benchmark.questions:
        if question.kind != "completion":
            asked[question.record_id].append(f"{question.question} -> {question.answer}")
    return [
        JudgingCase(
            case_id=record.record_id,
            subject=benchmark.subject(record.record_id),
            group=record.groups[benchmark.levels[0]],
            fields={
                "task": record.groups[benchmark.levels[0]],
                "document": record.text,
                "questions": "\n".join(asked[record.record_id]) or "none",
            },
            identifiers=identifiers_of(record),
        )
        for record in benchmark.records
    ]


def read_cases(path: Path, task: JudgingTask) -> list[JudgingCase]:
    """Cases from a CSV, JSONL or Parquet table.

    Columns: case_id, those that the task shows, and where there are any subject (else each case is its own) and
    group (else the category, or ``all``). Others are passed over. Nobody says what identifiers stand in them.

    Raises:
        SourceError: it cannot be read, lacks a column, has an empty cell or an id twice; with row numbers.
    """
    if path.suffix not in _READERS:
        raise SourceError(f"{path}: cases are read from {', '.join(_READERS)}.")
    try:
        table = _READERS[path.suffix](path)
    except FileNotFoundError:
        raise SourceError(f"There is no file {path}.") from None
    except (OSError, ValueError, pa.ArrowException) as error:
        raise SourceError(f"{path} cannot be read: {str(error).splitlines()[0]}") from error
    needed = ("case_id", *task.shows)
    missing = [name for name in needed if name not in table.columns]
    if missing:
        raise SourceError(
            f"{path} lacks the column {', '.join(missing)}. Judging a {task.name} needs {', '.join(needed)}."
        )
    rows = _rows(table)
    empty = [(place, name) for place, row in enumerate(rows, 1) for name in needed if not row[name].strip()]
    # A model may well have said nothing; that is a response to judge.
    empty = [(place, name) for place, name in empty if name != "response"]
    if empty:
        raise SourceError(f"{path}: row {empty[0][0]} has no {empty[0][1]} ({len(empty)} such cells in all).")
    return checked([_case(row, task) for row in rows], str(path))


def _rows(table: pd.DataFrame) -> list[dict[str, str]]:
    return [{str(name): _text(value) for name, value in row.items()} for row in table.to_dict("records")]


def _text(value: Any) -> str:
    return "" if value is None or (isinstance(value, float) and pd.isna(value)) else str(value)


def _case(row: dict[str, str], task: JudgingTask) -> JudgingCase:
    return JudgingCase(
        case_id=row["case_id"],
        subject=row.get("subject") or row["case_id"],
        group=row.get("group") or row.get("category") or "all",
        fields={name: row[name] for name in task.shows},
    )


def checked(cases: Iterable[JudgingCase], where: str) -> list[JudgingCase]:
    """The cases, if there are any and no id is there twice.

    Raises:
        SourceError: which it is.
    """
    found = list(cases)
    twice = [name for name, times in Counter(case.case_id for case in found).items() if times > 1]
    if twice:
        raise SourceError(f"{where}: case_id {twice[0]!r} is there more than once ({len(twice)} such in all).")
    if not found:
        raise SourceError(f"{where} holds nothing to judge.")
    return found


def categories_of(cases: Sequence[JudgingCase], task: JudgingTask) -> tuple[str, ...]:
    """The categories in use, for a task that has some.

    Raises:
        SourceError: one is called as the judges call "none of them".
    """
    if "category" not in task.shows:
        return ()
    found = tuple(sorted({case.fields["category"] for case in cases}))
    if UNSURE in found:
        raise SourceError(f"A category is called {UNSURE!r}, the judges' word for none of them. Rename it.")
    return found


def case_table(cases: Sequence[JudgingCase]) -> pd.DataFrame:
    """One row a case: case_id, subject, group, and the fields."""
    rows = [{"case_id": c.case_id, "subject": c.subject, "group": c.group, **c.fields} for c in cases]
    return pd.DataFrame(rows, dtype="str")


def to_cases(table: pd.DataFrame, task: JudgingTask) -> list[JudgingCase]:
    """Back from :func:`case_table`."""
    return [_case(row, task) for row in _rows(table)]


def per_group(cases: Sequence[JudgingCase], number: int, seed: int) -> list[JudgingCase]:
    """So many cases of each group, or all where it has fewer (AMNESIA, F: 300 titles of each of three diseases)."""
    chosen = {
        case_id
        for group in sorted({case.group for case in cases})
        for case_id in shuffled([c.case_id for c in cases if c.group == group], "judge", group, seed)[:number]
    }
    return [case for case in cases if case.case_id in chosen]


def per_subject(cases: Sequence[JudgingCase], subjects: int, seed: int) -> list[JudgingCase]:
    """One case of each group from each of so many subjects (AMNESIA, G: a factual and a reasoning one of 500).

    Subjects that lack a group come last, so that every one drawn has all groups as long as there are enough.
    """
    groups = sorted({case.group for case in cases})
    of: dict[str, dict[str, list[str]]] = {}
    for case in cases:
        of.setdefault(case.subject, {}).setdefault(case.group, []).append(case.case_id)
    drawn = sorted(shuffled(list(of), "judge subjects", seed), key=lambda name: len(of[name]) < len(groups))
    chosen = {
        shuffled(ids, "judge one", subject, group, seed)[0]
        for subject in drawn[:subjects]
        for group, ids in of[subject].items()
    }
    return [case for case in cases if case.case_id in chosen]


def spread(cases: Sequence[JudgingCase], number: int, seed: int) -> list[JudgingCase]:
    """So many cases, as evenly over the groups as their sizes allow, in a drawn order that mixes the groups.

    Raises:
        InputError: there are fewer.
    """
    if not 1 <= number <= len(cases):
        raise InputError(f"{number} cases cannot be drawn of {len(cases)}.")
    waiting = {
        group: shuffled([c.case_id for c in cases if c.group == group], "annotate", group, seed)
        for group in sorted({case.group for case in cases})
    }
    taken: list[str] = []
    while len(taken) < number:
        for ids in waiting.values():
            if ids and len(taken) < number:
                taken.append(ids.pop(0))
    by_id = {case.case_id: case for case in cases}
    return [by_id[case_id] for case_id in shuffled(taken, "annotate order", seed)]
