"""Input of a build from notes: the notes, their sample, and the language model that the guard allowed."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Literal, TypeVar

from medunlearn.config import AmnesiaNotesSettings
from medunlearn.data.data_use import DataUse, build_use, use_of_file
from medunlearn.data.records import Record
from medunlearn.data.splits import shuffled
from medunlearn.data.storage import sha256_of, sha256_of_json
from medunlearn.errors import ConfigError, InputError
from medunlearn.judging.writing import WritingTask
from medunlearn.papers.amnesia.prompts.disease_label import DiseaseLabel
from medunlearn.papers.amnesia.prompts.questions import AmnesiaQuestions
from medunlearn.papers.llm_build import Writer, server_of
from medunlearn.sources.hub import files_of
from medunlearn.sources.notes import Note, NoteColumns, Notes, read_notes

Task = TypeVar("Task", bound=WritingTask)
PAPER_SAMPLE = 8820
"""Notes that AMNESIA drew from PMC-Patients-V2 (Section 3.1)."""


@dataclass(frozen=True)
class NotesInput:
    """Notes and server, checked before anything is asked.

    Attributes:
        writer: the model that labels and asks.
        files: that the notes were read from.
        notes: everything in them.
        chosen: the notes, or their sample, in the file's order.
        label_task, question_task: what the model writes, in our words or the user's.
    """

    settings: AmnesiaNotesSettings
    writer: Writer
    files: tuple[Path, ...]
    notes: Notes
    chosen: tuple[Note, ...]
    data_use: DataUse
    label_task: DiseaseLabel
    question_task: AmnesiaQuestions

    @property
    def label_column(self) -> Literal["title", "disease"]:
        """Source of a note's disease: a column, or a title that the model sorts."""
        return "title" if self.notes.columns.disease is None else "disease"

    def inputs(self) -> dict[str, Any]:
        """Hash, columns and counts of the notes, without their text."""
        counts = {"read": len(self.notes.notes), "excluded": len(self.notes.excluded), "chosen": len(self.chosen)}
        hashes = [sha256_of(file) for file in self.files]
        sha256 = hashes[0] if len(hashes) == 1 else sha256_of_json(hashes)
        return {"sha256": sha256, "columns": asdict(self.notes.columns), **counts}

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
    """Read the notes and ask the guard; sends nothing and writes nothing.

    Raises:
        ConfigError: no server or no model, columns that are not there, no way to tell a disease, a prompt of the
            user's that lacks a placeholder.
        SourceError: notes that cannot be read.
        HubError: a hub that cannot be reached.
        RemoteRefusedError: the notes must stay here, and the server is elsewhere.
    """
    server_of(settings.llm)  # before a long file is read
    label, questions = (
        _worded(DiseaseLabel(), "label", settings),
        _worded(AmnesiaQuestions(), "questions", settings),
    )
    given = NoteColumns(**{column.name: getattr(settings, column.name, None) for column in fields(NoteColumns)})
    files = files_of(settings.notes)
    notes = read_notes(files, given, skip_bad_rows=settings.skip_bad_rows)
    if notes.columns.title is None and notes.columns.disease is None:
        raise ConfigError(
            ["no column tells a note's disease: name one with --title (a sentence on the note, or the note's own "
             "column), or give diseases of your own with --disease"]
        )  # fmt: skip
    known = use_of_file(files[0], "open" if notes.is_pmc else None)
    data_use = build_use(settings.data_use, {f"notes {settings.notes}": known})
    chosen = _sample(notes, settings)
    records = (Record(note.note_id, note.text, {}, note.identifiers or ()) for note in chosen)
    writer = Writer.of(settings, out, data_use=data_use, records=records)
    return NotesInput(settings, writer, files, notes, chosen, data_use, label, questions)


def _worded(task: Task, key: Literal["label", "questions"], settings: AmnesiaNotesSettings) -> Task:
    try:
        return task.worded_as(settings.prompts.get(key))
    except ValueError as error:
        raise ConfigError([f"prompts.{key}: {error}"]) from None


def _sample(notes: Notes, settings: AmnesiaNotesSettings) -> tuple[Note, ...]:
    """A seeded sample, in the file's order; of PMC-Patients as many as the paper drew, unless told otherwise."""
    rows, wanted = notes.notes, settings.limit
    if wanted is None and notes.is_pmc and len(rows) > PAPER_SAMPLE:
        wanted = PAPER_SAMPLE
    if wanted is None or wanted == "all":
        return rows
    if wanted > len(rows):
        raise InputError(f"limit={wanted}: the file holds {len(rows)} notes. Ask for fewer.")
    drawn = set(shuffled([note.note_id for note in rows], "sample", settings.seed)[:wanted])
    return tuple(note for note in rows if note.note_id in drawn)
