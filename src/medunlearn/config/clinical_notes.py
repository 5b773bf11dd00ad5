"""Settings of `build notes`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from medunlearn.config.settings import Licence, Listed, Percents, Server, Settings, Words, WriterFields, once


def _prefixes(values: tuple[str, ...]) -> tuple[str, ...]:
    wrong = [value for value in values if not re.fullmatch(r"[1-9]\d{0,5}|[1-9]\d?%", value)]
    if wrong:
        raise ValueError(f"{wrong[0]!r} is neither a number of words (64) nor a share of the note (25%)")
    return once(values)


def _texts(value: Any) -> Any:
    """One text or several; commas belong to the text."""
    return (value,) if isinstance(value, str) else value


def _with_columns(values: tuple[str, ...]) -> tuple[str, ...]:
    if bare := [value for value in values if not re.search(r"\{[^{}]+\}", value)]:
        raise ValueError(f"{bare[0]!r} contains no column in braces, so it would be the same for every note")
    return once(values)


def _as_text(value: Any) -> Any:
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


Prefixes = Annotated[
    tuple[str, ...],
    BeforeValidator(lambda value: [str(v) for v in value] if isinstance(value, list | tuple) else str(value)),
    Listed,
    AfterValidator(_prefixes),
]
ColumnPrompts = Annotated[tuple[str, ...], BeforeValidator(_texts), AfterValidator(_with_columns)]
Prompts = Annotated[tuple[str, ...], BeforeValidator(_texts), AfterValidator(once)]
PatientIds = Annotated[str, BeforeValidator(_as_text)]


class NoteColumnFields(Settings):
    """Columns of a table of notes; unnamed ones are found by their usual names."""

    patient_column: str | None = Field(None, description="column of the patient's id; none: patient_id, mrn, ...")
    text_column: str | None = Field(None, description="column of the note; none: note, text, ...")
    id_column: str | None = Field(None, description="column of the note's id; none: note_id, or the row's number")
    date_column: str | None = Field(None, description="column of the note's date; none: note_date, charttime, ...")
    holdout_column: str | None = Field(
        None, description="column that says which notes no model is trained on: 1 or 0, holdout or train"
    )
    level: Annotated[Words, AfterValidator(once)] = Field(
        (), description="columns that are levels (disease, ward), with commas; none: those of usual names"
    )
    identifier_columns: Annotated[Words, AfterValidator(once)] = Field(
        (), description="columns with identifiers of the patient; none: those named as one (name, mrn, phone, ...)"
    )


class NotesSettings(WriterFields, NoteColumnFields):
    """A benchmark from clinical notes only, with probes made from the notes themselves."""

    builder: Literal["notes"] = "notes"
    notes: Path = Field(
        description="CSV, TSV, JSONL, JSON or Parquet, a note per row; FHIR (DocumentReference, Bundle); a "
        "folder of "
        "such files, or of text files in a folder per patient; hub:org/name"
    )
    holdout: Path | None = Field(
        None, description="notes of patients whom no model is trained on (non-members), in any of these forms"
    )
    prefixes: Prefixes = Field(
        ("10%", "25%", "50%"),
        description="lengths of the beginnings that are to be continued: words (64), or a share of the note (25%)",
    )
    clozes: int = Field(
        6, ge=0, le=100, description="cloze gaps per note at most: identifiers, values, dates, findings"
    )
    questions: int = Field(
        0,
        ge=0,
        le=100,
        description="facts per note at most with plain questions: What is the phone number of Ann Vane?",
    )
    prompt: ColumnPrompts = Field(
        (),
        description='chat prompt whose answer is the note, columns in braces: "Write the note of {name}."; may be '
        "given several times",
        json_schema_extra={"flag": "repeated"},
    )
    probed: int | None = Field(
        None, ge=1, description="patients with probes (seeded; those to forget always are); none: all"
    )
    longest: int = Field(512, ge=16, description="most words of a probe's prompt, and of its answer")
    detectors: str = Field(
        "patterns",
        description="finds identifiers in the notes: patterns, presidio, tagger:FOLDER, several (a,b), or none",
    )
    percents: Percents = Field((5, 10, 25), description="shares of the patients that splits forget")
    split_by: Annotated[Words, AfterValidator(once)] = Field(
        (), description="levels for which each node gets a split that forgets it"
    )
    forget_patients: PatientIds | None = Field(
        None, description="a deletion request, as split `request`: a file with one id per line, or ids with commas"
    )
    limit: int | None = Field(None, ge=2, description="seeded sample of this many patients; none: all")
    llm: Server = Field(
        default_factory=dict,
        description="server that writes further questions: llm.base_url, llm.model, ... (docs/servers.md)",
    )
    data_use: Literal["open", "credentialed"] | None = Field(
        None, description="open: the notes are published; none: credentialed, they stay on this machine"
    )
    licence: Licence = ""
    skip_bad_rows: bool = Field(False, description="leave out rows that cannot be read and list them")
    temperature: float | None = Field(0.0, ge=0, description="sampling temperature; null sends none")
    seed: int = Field(0, description="seed of sample, probes, folds and splits")
