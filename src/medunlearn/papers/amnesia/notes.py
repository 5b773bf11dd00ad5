"""``build amnesia NOTES``: from notes to labels, questions and the benchmark.

In addition to the files of :mod:`medunlearn.papers.llm_build`, the folder gets ``labels.parquet`` and
``evidence.parquet``: the reasons and quotations behind the model's answers, which are the input for judges of
labels and questions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, TypeVar

import pyarrow as pa

from medunlearn.audit.identifiers.declared import declared_identifiers, identifier_columns
from medunlearn.audit.identifiers.same_person import joined_ids, read_same_person
from medunlearn.config import check
from medunlearn.config.reading import with_server
from medunlearn.data.benchmark import PROVENANCE, Benchmark
from medunlearn.data.data_use import DataUse, build_use, use_of_file
from medunlearn.data.records import Record
from medunlearn.data.splits import shuffled
from medunlearn.data.storage import sha256_of, sha256_of_json, write_table
from medunlearn.errors import ConfigError, InputError, MedunlearnError
from medunlearn.judging.controls import one_answer
from medunlearn.judging.writing import Source, WritingTask, reasons
from medunlearn.llm import CostEstimate
from medunlearn.papers.amnesia.from_notes import KINDS, QuestionedNote, from_notes
from medunlearn.papers.amnesia.prompts import OTHER, AmnesiaQuestions, DiseaseLabel
from medunlearn.papers.amnesia.settings import AmnesiaNotesSettings
from medunlearn.papers.llm_build import (
    REJECTS_FILE,
    BuildResult,
    Say,
    Writer,
    WritingSession,
    build_facts,
    recorded,
    refuse_another,
    server_of,
    summary_lines,
)
from medunlearn.sources.hub import PREFIX
from medunlearn.sources.note_fields import NoteFields
from medunlearn.sources.patient_notes import PatientNote, PatientNotes, join_persons, read_patient_notes
from medunlearn.study.benchmark_builds import refuse_foreign, save_new

Task = TypeVar("Task", bound=WritingTask)
LABELS_FILE, EVIDENCE_FILE = "labels.parquet", "evidence.parquet"
LABELS = pa.schema(
    [(name, pa.string()) for name in ("record_id", "subject", "title", "category", "reason", "prompt")]
)
EVIDENCE = pa.schema([("question_id", pa.string()), ("record_id", pa.string()), ("quotes", pa.list_(pa.string()))])

HELD_OUT = "held out, so that no model is trained on it"
_FIELDS = ("id", "text", "title", "patient", "disease", "identifiers", "copies")
Results = Mapping[str, Any]
PAPER_SAMPLE = 8820
"""Notes that AMNESIA drew from PMC-Patients-V2 (Section 3.1)."""


@dataclass(frozen=True)
class NotesInput:
    """Notes and server, checked before any request.

    Attributes:
        writer: the model that writes labels and questions.
        notes: all notes in them.
        sample: all or a sample of the notes, in the file's order.
        label_task, question_task: the writing tasks, with our prompt or the user's.
    """

    settings: AmnesiaNotesSettings
    writer: Writer
    notes: PatientNotes
    sample: tuple[PatientNote, ...]
    data_use: DataUse
    label_task: DiseaseLabel
    question_task: AmnesiaQuestions

    @property
    def label_column(self) -> Literal["title", "disease"]:
        """Source of a note's disease: a column, or a title that the model classifies."""
        return "title" if self.notes.fields.disease is None else "disease"

    def inputs(self) -> dict[str, Any]:
        """Hash, columns and counts of the notes, without their text."""
        counts = {"read": len(self.notes.notes), "excluded": len(self.excluded), "chosen": len(self.sample)}
        hashes = [sha256_of(file) for file in self.notes.files]
        sha256 = hashes[0] if len(hashes) == 1 else sha256_of_json(hashes)
        # By the names that stored answers are found by.
        fields = {"subject" if name == "patient" else name: getattr(self.notes.fields, name) for name in _FIELDS}
        return {"sha256": sha256, "columns": fields, **counts}

    @property
    def excluded(self) -> tuple[tuple[str, str], ...]:
        """Place and reason of notes that are not used."""
        held_out = ((note.note_id, HELD_OUT) for note in self.notes.notes if note.held_out)
        return (*self.notes.left_out, *self.notes.bad_rows, *held_out)

    @property
    def key(self) -> str:
        """Hash of everything that the benchmark depends on besides the model's answers."""
        s = self.settings
        sampling = [s.temperature, s.answer_tokens, s.llm_seed]
        rules = [s.seed, s.limit, s.other, self.data_use, s.diseases, s.percents]
        model = [self.writer.server.name, self.writer.server.extra]
        prompts = [self.label_task.version, self.question_task.version]
        return sha256_of_json([self.inputs(), rules, sampling, model, prompts])


def read_input(settings: AmnesiaNotesSettings, out: Path) -> NotesInput:
    """Read the notes and consult the guard; sends and writes nothing.

    Raises:
        ConfigError: no server or no model, missing columns, no source of diseases, a user's prompt that lacks a
            placeholder.
        SourceError: notes that cannot be read.
        HubError: a hub that cannot be reached.
        RemoteRefusedError: the notes must stay on this machine, and the server is not on it.
    """
    server_of(settings.llm)  # before a long file is read
    label, questions = (
        _with_wording(DiseaseLabel(), "label", settings),
        _with_wording(AmnesiaQuestions(), "questions", settings),
    )
    named = NoteFields.of_settings(settings)
    columns = [("--identifier-columns", name) for name in settings.identifier_columns]
    skip = settings.skip_bad_rows
    notes = read_patient_notes(settings.notes, named, required=columns, skip_bad_rows=skip, needs_patient=False)
    if notes.fields.title is None and notes.fields.disease is None:
        raise ConfigError(
            ["no column tells a note's disease: name one with --title-column (a sentence on the note, or the "
             "note's own column), or give diseases of your own with --disease-column"]
        )  # fmt: skip
    file_use = use_of_file(notes.files[0], "open" if notes.is_open else None)
    data_use = build_use(settings.data_use, {f"notes {settings.notes}": file_use})
    named_columns = settings.identifier_columns or identifier_columns(notes.columns)
    sample = tuple(_with_declared(note, named_columns, notes) for note in _sample(notes, settings))
    sample = join_persons(sample, joined_ids(read_same_person(settings.same_person)))
    records = (Record(note.note_id, note.text, {}, note.identifiers or ()) for note in sample)
    writer = Writer.of(settings, out, data_use=data_use, records=records)
    return NotesInput(settings, writer, notes, sample, data_use, label, questions)


def _with_wording(task: Task, key: Literal["label", "questions"], settings: AmnesiaNotesSettings) -> Task:
    try:
        return task.worded_as(settings.prompts.get(key))
    except ValueError as error:
        raise ConfigError([f"prompts.{key}: {error}"]) from None


def _with_declared(note: PatientNote, columns: Sequence[str], notes: PatientNotes) -> PatientNote:
    """The note with the identifiers of its row; none are known of a table without such columns."""
    if not columns and notes.fields.identifiers is None:
        return note
    return replace(note, identifiers=tuple(declared_identifiers(note, columns)))


def _sample(notes: PatientNotes, settings: AmnesiaNotesSettings) -> tuple[PatientNote, ...]:
    """A seeded sample in file order; of PMC-Patients by default the paper's number."""
    rows, limit = tuple(note for note in notes.notes if not note.held_out), settings.limit
    if limit is None and notes.is_pmc and len(rows) > PAPER_SAMPLE:
        limit = PAPER_SAMPLE
    if limit is None or limit == "all":
        return rows
    if limit > len(rows):
        raise InputError(f"limit={limit}: the file has {len(rows)} notes. Lower it.")
    ids = set(shuffled([note.note_id for note in rows], "sample", settings.seed)[:limit])
    return tuple(note for note in rows if note.note_id in ids)


def build_from_notes(values: Mapping[str, Any], out: Path, *, quiet: bool = True, say: Say = print) -> BuildResult:
    """Label notes, let a language model write questions, and save the benchmark; resumes.

    Args:
        values: settings of :class:`~medunlearn.papers.amnesia.settings.AmnesiaNotesSettings`.
        out: the benchmark's folder.
        quiet: no progress bars and no messages.
        say: called with a line on skipped notes.

    Raises:
        ConfigError, SourceError: wrong settings, notes that cannot be read.
        RemoteRefusedError: the notes must stay on this machine, and the server is not on it.
        InputError: the folder has other content.
        MedunlearnError: server, network or budget failed for some notes; the others are stored.
    """
    settings = check(AmnesiaNotesSettings, with_server(values))
    refuse_foreign(out)
    notes = read_input(settings, out)
    refuse_another(out, notes.key, again=settings.again)
    facts = build_facts(notes.key, settings) | {"notes": notes.inputs()}
    with recorded(out, facts):
        with notes.writer.session(out, facts, quiet=quiet) as session:
            labels, questions = _write(notes, session)
        if not questions:
            lines = "\n".join(f"  - {line}" for line in reasons(session.rejects))
            raise MedunlearnError(
                f"All notes were rejected, so there is no benchmark ({out / REJECTS_FILE}):\n{lines}\nWhat the "
                "model "
                "said is kept and not asked for again, unless with --again; another --llm.model is asked anew."
            )
        if notes.label_column == "title" and (label := one_answer([v["category"] for v in labels.values()])):
            facts["remarks"] = [f"All {len(labels)} notes got one disease label, {label}: look at labels.parquet."]
        benchmark = save_new(_benchmark(notes, labels, questions, facts), out)
        _save_tables(out, notes, labels, questions)
    if not quiet:
        for line in summary_lines(out, session.rejects, facts):
            say(line)
    return BuildResult(benchmark, tuple(session.rejects), facts)


def plan_from_notes(values: Mapping[str, Any], out: Path) -> dict[str, CostEstimate]:
    """Cost of :func:`build_from_notes` by task; sends and writes nothing.

    Questions are counted for every note, since rejected labels are not known in advance.
    """
    notes = read_input(check(AmnesiaNotesSettings, with_server(values)), out)
    patients = _labelled_notes(notes)
    labels: dict[WritingTask, list[Source]] = (
        {notes.label_task: _sources(patients, title="title")} if notes.label_column == "title" else {}
    )
    return notes.writer.estimates(labels | {notes.question_task: _sources(patients, note="text")})


def _write(notes: NotesInput, session: WritingSession) -> tuple[Results, Results]:
    """Labels and questions by note; rejects are collected by the session."""
    for place, reason in notes.excluded:
        session.exclude("notes", place, reason)
    why = f"it has no {notes.label_column}, so its disease cannot be told"
    named = _labelled_notes(notes)
    for note in notes.sample:
        if not getattr(note, notes.label_column):
            session.exclude("notes", note.note_id, why)
    if notes.label_column == "disease":
        labels: dict[str, Any] = {note.note_id: {"category": note.disease, "reason": "given"} for note in named}
        return labels, session.write(notes.question_task, _sources(named, note="text"))
    labels = dict(session.write(notes.label_task, _sources(named, title="title")))
    if notes.settings.other == "drop":
        why = f"its title fits none of the {len(notes.label_task.categories) - 1} diseases (other=keep keeps it)"
        for name in [name for name, value in labels.items() if value["category"] == OTHER]:
            del labels[name]
            session.exclude(notes.label_task.version, name, why)
    return labels, session.write(
        notes.question_task, _sources([n for n in named if n.note_id in labels], note="text")
    )


def _labelled_notes(notes: NotesInput) -> list[PatientNote]:
    """Notes with a disease, or with a title to derive it from."""
    return [note for note in notes.sample if getattr(note, notes.label_column)]


def _sources(notes: Sequence[PatientNote], **fields: str) -> list[Source]:
    """Prompt field -> attribute of a note. Only known identifiers are passed to the guard; without any, the file
    was declared open or the server may get everything.
    """
    return [
        Source(
            note.note_id,
            {field: getattr(note, name) for field, name in fields.items()},
            tuple(identifier.value for identifier in note.identifiers or ()),
        )
        for note in notes
    ]


def _benchmark(notes: NotesInput, labels: Results, questions: Results, facts: Mapping[str, Any]) -> Benchmark:
    files = {key: {"file": own.file, "sha256": own.sha256} for key, own in notes.settings.prompts.items()}
    settings, where, is_pmc = notes.settings, notes.settings.notes.as_posix(), notes.notes.is_pmc
    name = where if where.startswith(PREFIX) else settings.notes.name
    questioned = [
        QuestionedNote(
            note,
            labels[note.note_id]["category"],
            {
                kind: [(item["question"], item["answer"]) for item in questions[note.note_id][kind]]
                for kind in KINDS
            },
        )
        for note in notes.sample
        if note.note_id in questions
    ]
    return from_notes(
        questioned,
        provenance=f"llm:{notes.writer.server.name}:{notes.question_task.version}",
        seed=settings.seed,
        outside=(OTHER,),
        named=settings.diseases,
        percents=settings.percents,
        name=f"AMNESIA on {len(questioned)} notes of {name}",
        source=f"PMC-Patients ({name})" if is_pmc else name,
        licence=settings.licence or ("cc-by-nc-sa-4.0" if is_pmc else ""),
        data_use=notes.data_use,
        titles={q.note.note_id: q.note.title for q in questioned if q.note.title},
        notes={
            "prompts": facts["prompts"],
            PROVENANCE: facts["provenance"],
            **({"remarks": facts["remarks"]} if facts.get("remarks") else {}),
            **({"prompt files": files} if files else {}),
            "left out": facts["rejects"],
            "guard": notes.writer.decision.reason,
        },
    )


def _save_tables(out: Path, notes: NotesInput, labels: Results, questions: Results) -> None:
    """Save labels with their reasons, and each question's quotations from its note."""
    by_id, version = {note.note_id: note for note in notes.sample}, notes.label_task.version
    label_rows = [
        {"record_id": name, "subject": by_id[name].patient, "title": by_id[name].title, "prompt": version}
        | labels[name]
        for name in questions
    ]
    write_table(out / LABELS_FILE, label_rows, LABELS)
    write_table(out / EVIDENCE_FILE, evidence_rows(questions), EVIDENCE)


def evidence_rows(questions: Results) -> list[dict[str, Any]]:
    """Quotations from the note that support each question."""
    return [
        {
            "question_id": f"{name}-{kind}-{number}",
            "record_id": name,
            "quotes": item["findings"] if kind == "reasoning" else [item["evidence"]],
        }
        for name, value in questions.items()
        for kind in KINDS
        for number, item in enumerate(value[kind], start=1)
    ]
