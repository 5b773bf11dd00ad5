"""Settings of multiple-choice questions: `build options`, and the options part of an audit."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator

from medunlearn.config.settings import (
    MOST_REPLICATES,
    AllowBroken,
    Licence,
    Listed,
    Percents,
    Settings,
    Template,
    Words,
)


class OptionsFields(Settings):
    """Settings for reading a file of multiple-choice questions."""

    count_from: Literal[0, 1] | None = Field(
        None, description="first number of numeric answers (0 or 1); none: detected from the file"
    )
    skip_bad_rows: bool = Field(False, description="leave out rows that cannot be read and list them")
    limit: int | None = Field(None, ge=2, description="seeded sample of this many questions; none: all")


class OptionsSettings(OptionsFields):
    """A benchmark from a file of multiple-choice questions (MedQA, MedMCQA, or the same form)."""

    builder: Literal["options"] = "options"
    file: Path = Field(description="CSV, TSV, JSONL, JSON or Parquet, one question per row")
    nonmembers: int = Field(
        0, ge=0, description="number of questions, drawn by the seed, that no model is trained on"
    )
    percents: Percents = Field((5, 10, 25), description="shares of the questions that splits forget")
    data_use: Literal["open", "credentialed"] | None = Field(
        None, description="open: the file is published; none: credentialed, it stays on this machine"
    )
    licence: Licence = ""
    seed: int = Field(0, description="seed of sample, non-members and splits")


class AuditOptionsSettings(OptionsFields):
    """Remove one answer option of each question and ask a model to restore it; rate the options."""

    prompts: Words = Field((), description="names of prompts; none: all that the model supports")
    prompts_file: Path | None = Field(None, description="YAML of prompts of your own; none: ours")
    forms: Annotated[tuple[Literal["text", "letter"], ...], Listed] = Field(
        ("text", "letter"),
        description="accuracy by the options' texts, length-normalised, or by their letters; none: skip",
    )
    template: Template | None = Field(
        None, description="template of instructions for a local model; none: that of its training, or plain"
    )
    letters: Literal["kept", "restarted"] = Field(
        "kept",
        description="letters of the shown options: as in the file, with a gap at the removed one's; or "
        "anew from A, the removed one last, as the memorization paper's released code",
    )
    max_new_tokens: int | None = Field(
        None, ge=1, description="longest response; none: the longest option asked about and a quarter"
    )
    batch_size: int = Field(64, ge=1, description="prompts decoded together")
    weights: Literal["fp32", "bf16"] = Field("fp32", description="type of the weights in memory")
    api: Literal["chat", "completions"] = Field("chat", description="server API to use")
    data_use: Literal["open", "credentialed"] = Field(
        "credentialed", description="open: the questions are published and may go to a server off this machine"
    )
    allow_broken: AllowBroken = False
    replicates: int = Field(1000, ge=2, le=MOST_REPLICATES, description="bootstrap replicates over questions")
    seed: int = Field(0, description="seed of the sample, the removed options and the bootstrap")

    @field_validator("forms", mode="before")
    @classmethod
    def _none(cls, value: Any) -> Any:
        return () if value in ("none", ["none"]) else value
