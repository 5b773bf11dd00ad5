"""Settings of `build amnesia`: an invented hospital, or notes of your own."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, field_validator

from medunlearn.config.clinical_notes import NOTES_HELP, NoteColumnFields
from medunlearn.config.settings import (
    MOST_INVENTED,
    Licence,
    OwnPrompt,
    Percents,
    Server,
    Settings,
    Words,
    WriterFields,
    once,
)


class SplitFields(Settings):
    """Splits of all AMNESIA benchmarks."""

    diseases: Annotated[Words, AfterValidator(once)] = Field(
        (), description="diseases with separate splits, separated by commas; none: the three largest"
    )
    percents: Percents = Field((5, 10, 15, 20, 25), description="shares of the patients that splits forget")


class AmnesiaSettings(SplitFields):
    """An AMNESIA benchmark from an invented hospital."""

    builder: Literal["amnesia"] = "amnesia"
    synthetic: int = Field(ge=2, le=MOST_INVENTED, description="patients to invent")
    institutions: int = Field(4, ge=1, le=MOST_INVENTED, description="institutions that they are spread over")
    studies: int = Field(
        0, ge=0, le=1000, description="dated chest studies per patient, each with four report sections"
    )
    note_length: Literal["short", "medium", "long"] = Field("short", description="length of a note")
    nonmember_patients: int = Field(
        0,
        ge=0,
        le=MOST_INVENTED,
        description="further invented patients that no model is trained on and no question is about",
    )
    seed: int = Field(0, description="seed of hospital and splits")


class AmnesiaNotesSettings(WriterFields, SplitFields, NoteColumnFields):
    """An AMNESIA benchmark from your own notes, labelled and asked about by a language model."""

    builder: Literal["amnesia"] = "amnesia"
    notes: Path = Field(description=f"{NOTES_HELP}[/FILE][@REVISION]; PMC-Patients is recognised")
    llm: Server = Field(description="the server: llm.base_url, llm.model, llm.concurrency, ... (docs/servers.md)")
    prompts: dict[Literal["label", "questions"], OwnPrompt] = Field(
        default_factory=dict,
        description="files with prompts of your own: prompts.label ({{ title }}), prompts.questions ({{ note }})",
    )
    limit: Annotated[int, Field(ge=2)] | Literal["all"] | None = Field(
        None, description="seeded sample of this many notes, or all; none: 8820 of PMC-Patients, all of other files"
    )
    other: Literal["drop", "keep"] = Field("drop", description="patients whose title fits none of the 11 diseases")
    data_use: Literal["open", "credentialed"] | None = Field(
        None, description="credentialed: notes stay on this machine; none: open for PMC-Patients alone"
    )
    licence: Licence = ""
    skip_bad_rows: bool = Field(False, description="leave out rows that cannot be read and list them")
    temperature: float | None = Field(0.0, ge=0, description="sampling temperature; null sends none")
    seed: int = Field(0, description="seed of sample, holdout and splits; changing it sends no request again")

    @field_validator("limit", mode="before")
    @classmethod
    def _number_or_all(cls, value: Any) -> Any:
        if isinstance(value, str) and value != "all" and not value.isdecimal():
            raise ValueError("give a number, or all")
        return int(value) if isinstance(value, str) and value != "all" else value
