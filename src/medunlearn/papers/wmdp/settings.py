"""Settings of `build wmdp`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from medunlearn.config.settings import Listed, Settings

Files = Annotated[tuple[Path, ...], Listed]


class WmdpSettings(Settings):
    """A WMDP benchmark from files of corpora and questions."""

    builder: Literal["wmdp"] = "wmdp"
    forget: Files = Field(
        min_length=1,
        description="corpora to forget: tables (JSONL, CSV, Parquet) with a column text, a document a row",
    )
    retain: Files = Field(min_length=1, description="corpora to retain, such as Wikipedia; files as for forget")
    questions: Files = Field(
        (), description="multiple-choice questions on what is forgotten (question, choices, answer counted from 0)"
    )
    retain_questions: Files = Field((), description="multiple-choice questions on other knowledge, such as MMLU's")
    limit: int | None = Field(None, ge=1, description="first documents of each corpus; none: all")
    shortest: int = Field(50, ge=1, description="characters of a document at least; shorter ones are left out")
    licence: str = Field("as the files", description="of the files, for the benchmark's card and manifest")
    data_use: Literal["open", "credentialed"] | None = Field(
        None,
        description="credentialed: nothing made from it leaves this machine; none: as the files say, or open",
    )
    seed: int = Field(0, description="kept in the manifest; nothing is drawn")
