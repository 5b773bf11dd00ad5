"""What a build from notes starts from: the notes it takes, the server, and what the guard says of the two."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal

from medunlearn.config import AmnesiaNotesSettings, check
from medunlearn.data.records import Record
from medunlearn.data.sources.notes import Columns, Note, Notes, read_notes
from medunlearn.data.splits import shuffled
from medunlearn.data.storage import sha256_of, sha256_of_json
from medunlearn.errors import ConfigError, InputError
from medunlearn.llm import Decision, ServerSettings, decide


@dataclass(frozen=True)
class Prepared:
    """Checked and read, before anything is asked.

    Attributes:
        notes: everything in the file.
        chosen: the notes, or their sample, in the file's order.
        asks_labels: diseases come from the model, not from a column.
    """

    settings: AmnesiaNotesSettings
    server: ServerSettings
    notes: Notes
    chosen: tuple[Note, ...]
    data_use: Literal["open", "credentialed"]
    decision: Decision
    asks_labels: bool

    def inputs(self) -> dict[str, Any]:
        """What was read, without what stands in it."""
        columns = {one.name: getattr(self.notes.columns, one.name) for one in fields(Columns)}
        counts = {"read": len(self.notes.notes), "excluded": len(self.notes.excluded), "chosen": len(self.chosen)}
        return {"sha256": sha256_of(self.settings.notes), "columns": columns, **counts}

    def key(self, prompts: Sequence[str]) -> str:
        """Hash of all that the benchmark depends on besides what the model says."""
        chosen = self.settings
        sampling = [chosen.temperature, chosen.answer_tokens, chosen.llm_seed]
        rules = [chosen.seed, chosen.sample, chosen.other, self.data_use, chosen.diseases, chosen.percents]
        model = [self.server.name, self.server.extra]
        return sha256_of_json([self.inputs(), rules, sampling, model, list(prompts)])


def prepare(settings: AmnesiaNotesSettings) -> Prepared:
    """Read the notes and ask the guard; sends nothing and writes nothing.

    Raises:
        ConfigError: no server or no model, columns that are not there, no way to tell a disease.
        SourceError: notes that cannot be read.
    """
    lacking = {"base_url": "--llm URL", "model": "--llm-model NAME"}
    missing = [flag for key, flag in lacking.items() if not settings.llm.get(key)]
    if missing:
        raise ConfigError(
            [f"{flag} is missing: questions on notes are written by a language model" for flag in missing]
        )
    server = check(ServerSettings, settings.llm)
    given = Columns(**{one.name: getattr(settings, one.name) for one in fields(Columns)})
    notes = read_notes(settings.notes, given, skip_bad_rows=settings.skip_bad_rows)
    if notes.columns.title is None and notes.columns.disease is None:
        raise ConfigError(
            ["no column tells a note's disease: name one with --title (a sentence on the note, or the note's own "
             "column), or give diseases of your own with --disease"]
        )  # fmt: skip
    data_use = settings.data_use or ("open" if notes.is_pmc else "credentialed")
    chosen = _sample(notes.notes, settings)
    records = (Record(note.note_id, note.text, {}, note.identifiers or ()) for note in chosen)
    decision = decide(server.base_url, data_use=data_use, records=records, permitted=settings.allow_remote_llm)
    return Prepared(settings, server, notes, chosen, data_use, decision, notes.columns.disease is None)


def _sample(notes: tuple[Note, ...], settings: AmnesiaNotesSettings) -> tuple[Note, ...]:
    if settings.sample is None:
        return notes
    if settings.sample > len(notes):
        raise InputError(f"sample={settings.sample}: the file holds {len(notes)} notes. Ask for fewer.")
    drawn = set(shuffled([note.note_id for note in notes], "sample", settings.seed)[: settings.sample])
    return tuple(note for note in notes if note.note_id in drawn)
