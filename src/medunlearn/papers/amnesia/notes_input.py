"""What a build from notes starts from: the notes it takes, the server, and what the guard says of the two."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal

from medunlearn.config import AmnesiaNotesSettings, check
from medunlearn.data.records import Record
from medunlearn.data.splits import shuffled
from medunlearn.data.storage import sha256_of, sha256_of_json
from medunlearn.errors import ConfigError, InputError
from medunlearn.llm import Decision, ServerSettings, decide
from medunlearn.sources.hub import files_of
from medunlearn.sources.notes import Columns, Note, Notes, read_notes

PAPER_SAMPLE = 8820
"""Notes that AMNESIA drew from PMC-Patients-V2 (Section 3.1)."""


@dataclass(frozen=True)
class Prepared:
    """Checked and read, before anything is asked.

    Attributes:
        files: that the notes were read from.
        notes: everything in them.
        chosen: the notes, or their sample, in the file's order.
        asks_labels: diseases come from the model, not from a column.
    """

    settings: AmnesiaNotesSettings
    server: ServerSettings
    files: tuple[Path, ...]
    notes: Notes
    chosen: tuple[Note, ...]
    data_use: Literal["open", "credentialed"]
    decision: Decision
    asks_labels: bool

    def inputs(self) -> dict[str, Any]:
        """What was read, without what stands in it."""
        columns = {one.name: getattr(self.notes.columns, one.name) for one in fields(Columns)}
        counts = {"read": len(self.notes.notes), "excluded": len(self.notes.excluded), "chosen": len(self.chosen)}
        hashes = [sha256_of(file) for file in self.files]
        return {"sha256": hashes[0] if len(hashes) == 1 else sha256_of_json(hashes), "columns": columns, **counts}

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
        HubError: a hub that cannot be reached.
    """
    lacking = {"base_url": "--llm URL", "model": "--llm-model NAME"}
    missing = [flag for key, flag in lacking.items() if not settings.llm.get(key)]
    if missing:
        raise ConfigError(
            [f"{flag} is missing: questions on notes are written by a language model" for flag in missing]
        )
    server = check(ServerSettings, settings.llm)
    given = Columns(**{one.name: getattr(settings, one.name, None) for one in fields(Columns)})
    files = files_of(settings.notes)
    notes = read_notes(files, given, skip_bad_rows=settings.skip_bad_rows)
    if notes.columns.title is None and notes.columns.disease is None:
        raise ConfigError(
            ["no column tells a note's disease: name one with --title (a sentence on the note, or the note's own "
             "column), or give diseases of your own with --disease"]
        )  # fmt: skip
    data_use = settings.data_use or ("open" if notes.is_pmc else "credentialed")
    chosen = _sample(notes, settings)
    records = (Record(note.note_id, note.text, {}, note.identifiers or ()) for note in chosen)
    decision = decide(server.base_url, data_use=data_use, records=records, permitted=settings.allow_remote_llm)
    return Prepared(settings, server, files, notes, chosen, data_use, decision, notes.columns.disease is None)


def _sample(notes: Notes, settings: AmnesiaNotesSettings) -> tuple[Note, ...]:
    """A seeded sample, in the file's order; of PMC-Patients as many as the paper drew, unless told otherwise."""
    found, wanted = notes.notes, settings.sample
    if wanted is None and notes.is_pmc and len(found) > PAPER_SAMPLE:
        wanted = PAPER_SAMPLE
    if wanted is None or wanted == "all":
        return found
    if wanted > len(found):
        raise InputError(f"sample={wanted}: the file holds {len(found)} notes. Ask for fewer.")
    drawn = set(shuffled([note.note_id for note in found], "sample", settings.seed)[:wanted])
    return tuple(note for note in found if note.note_id in drawn)
