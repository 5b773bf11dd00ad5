"""Settings of `build diagnosis`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from medunlearn.config.settings import MOST_INVENTED, Licence, Percents, Settings


class DiagnosisSettings(Settings):
    """Admissions with their diagnoses, in a training, a validation and a test part."""

    builder: Literal["diagnosis"] = "diagnosis"
    admissions: Path | None = Field(None, description="CSV, TSV, JSONL, JSON or Parquet, one admission per row")
    synthetic: Annotated[int, Field(ge=4, le=MOST_INVENTED)] | None = Field(
        None, description="patients to invent, instead of a file"
    )
    validation: Annotated[int, Field(ge=1)] | None = Field(
        None, description="patients of the validation part; none: 2 of 13, as the paper's 2,000 of 13,000"
    )
    test: Annotated[int, Field(ge=1)] | None = Field(
        None, description="patients of the test part; none: 1 of 13, as the paper's 1,000 of 13,000"
    )
    stays: Literal["latest", "all"] = Field(
        "latest", description="of a patient with several admissions: the latest, as in the paper, or all"
    )
    percents: Percents = Field(
        (5, 10), description="shares of the training patients that splits forget, for unlearning"
    )
    institutions: int = Field(
        4, ge=1, le=MOST_INVENTED, description="of synthetic: institutions that patients are spread over"
    )
    hpi_column: str = Field("hpi", description="column of the history of present illness")
    diagnoses_column: str = Field("diagnoses", description="column of the diagnoses, the principal one first")
    hpi_date_column: str = Field("hpi_date", description="column of the history's date")
    labs_column: str = Field("labs", description="column of laboratory results")
    patient_column: str = Field("patient", description="column of the patient")
    specialty_column: str = Field("specialty", description="column of the medical specialty")
    part_column: str = Field("part", description="column of a partition of your own: train, validation, test")
    id_column: str = Field("id", description="column of the admission's name")
    data_use: Literal["open", "credentialed"] | None = Field(
        None, description="credentialed data stay on this machine; none: open if invented, a file is credentialed"
    )
    licence: Licence = ""
    skip_bad_rows: bool = Field(False, description="leave out rows that cannot be read and list them")
    seed: int = Field(0, description="seed of the hospital and of the parts")
