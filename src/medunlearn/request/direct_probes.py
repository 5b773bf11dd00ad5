"""Direct questions of a request: made by rule from the notes, and a hospital's own from a file."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from medunlearn.config.clinical_notes import NotesSettings
from medunlearn.data.benchmark import Benchmark
from medunlearn.data.facts import NAMES, facts_of
from medunlearn.data.records import DIRECT, Fold, Question, Record
from medunlearn.data.value_halves import ValueHalves
from medunlearn.errors import InputError, SourceError
from medunlearn.notes.note_probes import NoteProbes, without_repeats
from medunlearn.sources.patient_notes import text_key
from medunlearn.sources.table_files import Row, column_names, read_rows, refuse_bad_rows

SOURCE = "questions:"
"""Provenance of a hospital's own question, before its type."""
_COLUMNS: Mapping[str, tuple[str, ...]] = {
    "patient": ("patient_id", "patient", "subject_id", "mrn"),
    "question": ("question", "prompt"),
    "answer": ("answer", "true_answer", "reference"),
    "type": ("type", "kind", "label"),
}
"""Role -> usual names of its column; the type is optional."""


def with_direct_questions(
    benchmark: Benchmark, subjects: Collection[str], settings: NotesSettings, *, all_of: Collection[str] = ()
) -> Benchmark:
    """The benchmark with direct questions about some subjects, of which training takes none.

    A subject who has questions made by rule keeps them. Records that several subjects share are not asked about.

    Args:
        all_of: subjects of whom every fact is asked for, not only the number that the settings name.
    """
    some = NoteProbes.of_settings(settings)
    every = replace(some, questions=None if settings.questions else 0)
    has = {benchmark.subject(q.record_id) for q in benchmark.questions if is_made_by_rule(q)}
    shared, names, questions = shared_records(benchmark), shared_names(benchmark), list[Question]()
    for record in benchmark.records:
        subject = record.groups[benchmark.subject_level]
        if subject in subjects and subject not in has and record.record_id not in shared:
            # Who has another's name is called by a number.
            nameless = replace(record, identifiers=tuple(i for i in record.identifiers if i.value not in names))
            questions += (every if subject in all_of else some).direct(nameless)
    owners = {record.record_id: benchmark.subject(record.record_id) for record in benchmark.records}
    both = (*benchmark.questions, *without_repeats(questions, owners))
    return replace(benchmark, questions=both, folder=None)


def is_made_by_rule(question: Question) -> bool:
    """True for a direct question that is not a hospital's own."""
    return question.kind == DIRECT and not question.provenance.startswith(SOURCE)


def shared_records(benchmark: Benchmark) -> set[str]:
    """Ids of records whose text several subjects have."""
    holders: dict[bytes, set[str]] = defaultdict(set)
    keys = {record.record_id: text_key(record.text) for record in benchmark.records}
    for name, key in keys.items():
        holders[key].add(benchmark.subject(name))
    return {name for name, key in keys.items() if len(holders[key]) > 1}


def shared_names(benchmark: Benchmark) -> set[str]:
    """Names that several subjects have."""
    holders: dict[str, set[str]] = defaultdict(set)
    for record in benchmark.records:
        for identifier in record.identifiers:
            if identifier.type in NAMES:
                holders[identifier.value].add(benchmark.subject(record.record_id))
    return {name for name, subjects in holders.items() if len(subjects) > 1}


@dataclass(frozen=True)
class HospitalQuestions:
    """A hospital's own questions about its patients.

    Attributes:
        questions: without a fold yet: half of the values is for choosing.
        unsaid: number of answers that do not stand in the patient's notes.
    """

    questions: tuple[Question, ...]
    unsaid: int

    @staticmethod
    def read(
        file: Path, benchmark: Benchmark, patients: Collection[str], *, others: Collection[str] = ()
    ) -> HospitalQuestions:
        """Read questions: a row each, with columns for patient, question and answer, and perhaps a type.

        Args:
            patients: patients of the request, one of whom must be asked about.
            others: patients of the notes who may not be in the benchmark; rows about these are passed over.

        Raises:
            SourceError: no such file, a missing column, an empty cell, an unknown patient: the rows, without ids.
            InputError: no question about the patients.
        """
        columns, level = _columns_of(file), benchmark.subject_level
        records, questions = defaultdict[str, list[Record]](list), list[Question]()
        for record in benchmark.records:
            records[record.groups[level]].append(record)
        bad, unsaid = list[tuple[str, str]](), 0
        for number, (place, row) in enumerate(read_rows(file), start=1):
            cells = {} if isinstance(row, str) else _cells(row, columns)
            own = records.get(cells.get("patient", ""), [])
            if (
                problem := row
                if isinstance(row, str)
                else _problem(cells, known=bool(own) or cells.get("patient", "") in others)
            ):
                bad.append((place, problem))
            elif own:
                holder = _holder(own, cells["answer"])
                unsaid += holder is None
                questions.append(_question(number, cells, holder or own[0], level))
        refuse_bad_rows(bad, file, skippable=False)
        if not any(benchmark.subject(question.record_id) in patients for question in questions):
            raise InputError(
                f"--questions: {file} has no question about a patient of the request. Add some, or leave it out."
            )
        return HospitalQuestions(tuple(questions), unsaid)

    def added_to(self, benchmark: Benchmark, *, halves: bool, seed: int) -> Benchmark:
        """The benchmark with the questions.

        Args:
            halves: settings are chosen by the questions on one half of a patient's values; else all verify.
        """

        values = ValueHalves(benchmark, seed)

        def fold_of(question: Question) -> Fold:
            record = benchmark.record[question.record_id]
            if record.fold == "holdout":
                return "utility"
            value = facts_of(question, record.identifiers)[0].of(question.answer)
            subject = benchmark.subject(question.record_id)
            return "choosing" if halves and values.keeps(subject, value, "choosing") else "holdout"

        own = (replace(question, fold=fold_of(question)) for question in self.questions)
        return replace(benchmark, questions=(*benchmark.questions, *own), folder=None)

    @property
    def remark(self) -> str:
        """A sentence on answers that the notes do not hold; empty if they hold all."""
        if not self.unsaid:
            return ""
        return (
            f"--questions: {self.unsaid} of {len(self.questions)} answers do not stand in the patient's notes; "
            "they are asked for all the same"
        )


def _columns_of(file: Path) -> dict[str, str]:
    """Role -> column of the file."""
    names = {name.strip().lower().replace(" ", "_"): name for name in column_names([file])}
    columns = {
        role: next((names[usual] for usual in all_usual if usual in names), "")
        for role, all_usual in _COLUMNS.items()
    }
    if missing := [role for role, column in columns.items() if not column and role != "type"]:
        expected = " or ".join(_COLUMNS[missing[0]][:2])
        raise SourceError(
            f"--questions: {file} has no column of the {missing[0]} ({expected}). Its columns are: "
            f"{', '.join(map(repr, names.values()))}."
        )
    return {role: column for role, column in columns.items() if column}


def _cells(row: Row, columns: Mapping[str, str]) -> dict[str, str]:
    """Role -> cell as text; whole numbers without decimals."""

    def text(value: object) -> str:
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        return "" if value is None else str(value).strip()

    return {role: text(row.get(column)) for role, column in columns.items()}


def _problem(cells: Mapping[str, str], *, known: bool) -> str:
    """Reason why a row cannot be used, without a patient's id; "" if it can be."""
    empty = [role for role in ("patient", "question", "answer") if not cells.get(role)]
    if empty:
        return f"has no {empty[0]}"
    return "" if known else "is about a patient who is not in the notes"


def _holder(records: Sequence[Record], answer: str) -> Record | None:
    """The first record that an answer stands in."""
    words = " ".join(answer.split())
    return next((record for record in records if words in " ".join(record.text.split())), None)


def _question(number: int, cells: Mapping[str, str], record: Record, level: str) -> Question:
    source = f"{SOURCE}{cells.get('type') or 'own'}"
    text, answer = cells["question"], cells["answer"]
    return Question(
        f"own-question-{number}", record.record_id, "holdout", DIRECT, level, text, answer, provenance=source
    )
