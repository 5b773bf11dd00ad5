"""What is read of a file of notes, what is left out and why, and ids that may be one person's."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import median
from typing import Any

from medunlearn.audit.identifiers.declared import column_values, identifier_columns
from medunlearn.audit.identifiers.kinds import kind_of
from medunlearn.audit.identifiers.same_person import Pair, People, read_same_person
from medunlearn.config.clinical_notes import NoteColumnFields
from medunlearn.reports.blocks import Block
from medunlearn.reports.view import ResultView, plain_table
from medunlearn.sources.note_fields import NoteFields
from medunlearn.sources.patient_notes import PatientNotes, read_patient_notes
from medunlearn.sources.text_encodings import encoding_of_file, ending_of

_KINDS = ("resource", "category", "note_type", "document_type", "note_title", "note_type_concept_id")
"""Columns that say what kind of document a note is."""
_TEXT_ENDINGS = (".csv", ".tsv", ".txt", ".text", ".md")
MOST_ROWS = 40
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")


@dataclass(frozen=True)
class NoteInspection:
    """Notes as every command reads them.

    Attributes:
        where: file or folder of the notes.
        columns: columns with identifiers.
        persons: ids of one person each, as the user says.
    """

    where: str
    read: PatientNotes
    columns: tuple[str, ...]
    persons: tuple[tuple[str, ...], ...] = ()

    @property
    def counts(self) -> dict[str, Any]:
        """Numbers of notes, patients and dates that were read."""
        own = Counter(note.patient for note in self.read.notes)
        dates = sorted(day[0] for note in self.read.notes if (day := _DAY.match(note.date)))
        known = {"patients": len(own), "notes per patient": f"{min(own.values())} to {max(own.values())}"}
        return {
            "form": self.read.form,
            "files": len(self.read.files),
            "files not read": self._other_files(),
            "files that are not UTF-8": sum(1 for file in self.read.files if _is_other(file)),
            "notes": len(self.read.notes),
            **(known if self.read.fields.patient else {"patients": "unknown: no column of patients"}),
            "median notes per patient": median(own.values()),
            "held out": sum(note.held_out for note in self.read.notes),
            "first date": dates[0] if dates else "none",
            "last date": dates[-1] if dates else "none",
            "notes without a date": len(self.read.notes) - len(dates),
        }

    def _other_files(self) -> str:
        """Numbers of files in the folder of the notes that hold none, by their endings."""
        folder, own = Path(self.where), {*self.read.files}
        others = (
            (file for file in folder.rglob("*") if file.is_file() and file not in own) if folder.is_dir() else ()
        )
        counts = Counter(ending_of(file) or "no ending" for file in others)
        return ", ".join(f"{n} {ending}" for ending, n in counts.most_common()) or "none"

    def view(self) -> ResultView:
        """Counts, columns, notes that were left out, and ids that may be one person's."""

        def blocks() -> Iterator[Block | str]:
            yield plain_table(("what", "count"), self.counts.items(), "notes")
            yield plain_table(("field", "column"), self.fields.items(), "columns")
            if self.read.excluded:
                yield plain_table(("reason", "notes"), self.read.excluded.items(), "left out")
            if self.read.bad_rows:
                rows = self.read.bad_rows[:MOST_ROWS]
                yield plain_table(("place", "reason"), rows, "rows that cannot be read")
            for column, counts in self.kinds.items():
                kinds = [*counts.items()][:MOST_ROWS]
                yield plain_table((column, "notes"), kinds, f"kinds of documents, by {column}")
            heads = ("column", "kind", "notes with one", "in their texts")
            yield plain_table(heads, self.identifiers, "identifiers by column")
            if self.doubles:
                pairs = [(one, other, ", ".join(why)) for one, other, why in self.doubles]
                yield plain_table(("id", "other id", "why"), pairs[:MOST_ROWS], "ids that may be one person's")
                yield (
                    f"{len(pairs):,} pairs. --same-person FILE says which are one person's (her ids in a line) and "
                    "which are not (an id alone); `audit` joins them, and `forget` takes all of hers."
                )

        return ResultView(self.facts, blocks())

    @property
    def fields(self) -> dict[str, str]:
        """Field -> the column that it was read from."""
        return {name: column for name in NoteFields.__slots__ if (column := getattr(self.read.fields, name))}

    @property
    def kinds(self) -> dict[str, dict[str, int]]:
        """Column that says what kind of document a note is -> number of notes by its values."""
        present = [name for name in self.read.columns if name.lower() in _KINDS]
        return {
            name: dict(Counter(note.values.get(name, "") for note in self.read.notes).most_common())
            for name in present
        }

    @property
    def identifiers(self) -> list[tuple[str, str, int, int]]:
        """Column of identifiers, its kind, notes with a value, and notes whose text has it as it stands."""
        rows = []
        for column in self.columns:
            values = [(next(iter(column_values(n.values, [column]).values()), ""), n.text) for n in self.read.notes]
            full = [(value, text) for value, text in values if value]
            rows.append((column, kind_of(column).name, len(full), sum(value in text for value, text in full)))
        listed = sum(bool(note.identifiers) for note in self.read.notes)
        return [*rows, *([("identifiers", "listed", listed, listed)] if listed else [])]

    @cached_property
    def doubles(self) -> list[Pair]:
        """Pairs of ids that may be one person's, of which the user has said nothing."""
        if self.read.fields.patient is None:
            return []
        return People.of_notes(self.read.notes).open_doubles(self.persons)

    def facts(self) -> Mapping[str, Any]:
        """Everything as data."""
        return {
            "counts": self.counts,
            "columns": self.fields,
            "left_out": self.read.excluded,
            "bad_rows": [f"{place}: {reason}" for place, reason in self.read.bad_rows],
            "kinds": self.kinds,
            "identifiers": [
                dict(zip(("column", "kind", "notes", "in_text"), row, strict=True)) for row in self.identifiers
            ],
            "possible_doubles": [dict(zip(("id", "other", "why"), pair, strict=True)) for pair in self.doubles],
        }


def _is_other(file: Path) -> bool:
    return ending_of(file) in _TEXT_ENDINGS and encoding_of_file(file) != "utf-8-sig"


def inspect_notes(where: Path | str, settings: NoteColumnFields) -> NoteInspection:
    """Read notes as every command does, and count.

    Raises:
        ConfigError: missing or ambiguous columns, all at once.
        SourceError: notes that cannot be read.
    """
    required = [("--identifier-columns", name) for name in settings.identifier_columns]
    named = NoteFields.of_settings(settings)
    read = read_patient_notes(where, named, required=required, skip_bad_rows=True, needs_patient=False)
    columns = settings.identifier_columns or tuple(identifier_columns(read.columns))
    return NoteInspection(str(where), read, columns, tuple(read_same_person(settings.same_person)))
