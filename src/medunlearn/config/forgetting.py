"""Settings of `forget`."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, timedelta
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field, field_validator, model_validator

from medunlearn.config.clinical_notes import ColumnPrompts, NotesSettings, PatientIds, SamePerson
from medunlearn.config.evaluation import EvaluateSettings
from medunlearn.config.settings import Listed, Settings, Template, Words
from medunlearn.config.training import UnlearnSettings
from medunlearn.errors import nearest

AUTOMATIC = "auto"
"""Method: settings are chosen by measuring."""
MEASURES = ("rouge_l", "rank", "ranked_first")
"""Measures of a deletion request's evaluations."""
ALL = "all"
"""Number of earlier patients: every one."""
USUAL = "default"
"""Word for the attacks that verify a deletion unless others are named."""


def _without_none(value: Any) -> Any:
    """Replace the word ``none`` by an empty list of attacks."""
    return () if value == "none" else value


class ForgetSettings(Settings):
    """Carry out a deletion request: adopt the model, unlearn, verify, and write the case."""

    SECTIONS: ClassVar[Mapping[str, type[Settings]]] = {
        "build": NotesSettings,
        "unlearn": UnlearnSettings,
        "evaluate": EvaluateSettings,
    }

    patient: PatientIds = Field(description="who: ids with commas, or a file with an id a line")
    same_person: SamePerson = None
    key: Path = Field(
        description="private key that signs the case; pseudonyms.key stands beside it (`medunlearn case key`)"
    )
    holdout: Path | None = Field(
        None,
        description="notes of patients that the model never saw, as a control; none: invented ones",
    )
    prompt: ColumnPrompts = Field(
        (),
        description='chat prompt whose answer is a note, columns in braces: "Write the note of {name}."; may be '
        "given several times",
        json_schema_extra={"flag": "repeated"},
    )
    questions: Path | None = Field(
        None,
        description="questions of your own, to be asked besides those made of the notes: a table with the columns "
        "patient_id, question, answer, and type if you like",
    )
    template: Template | None = Field(
        None,
        description="prompt template or file; none: that of training where recorded, else chat, else plain, unless "
        "the model answers better in another of these",
    )
    base: str | None = Field(None, description="base of a LoRA adapter: folder, run or hub id")
    retrained: Path | None = Field(
        None, description="a model trained without the patient, to compare with: folder, run or hub id"
    )
    method: str = Field(
        "auto",
        description="auto: a short, stated list of settings, the first that is good enough; exact: train again "
        "without the patient (runs of `train`); or a name from `medunlearn list methods`",
    )
    base_unseen: bool = Field(
        False,
        description="exact: declare that the base never saw the patient, if its training is not recorded; "
        "the case says "
        "so",
    )
    budget: int = Field(6, ge=1, le=100, description="auto: most runs to try")
    utility_floor: float = Field(
        0.95, ge=0, le=1, description="auto: least share of the score on other patients' answers to keep"
    )
    utility_tasks: Words = Field(
        (), description="tasks of lm-evaluation-harness that measure the cost in general ability (mmlu, ...)"
    )
    margin: float = Field(
        0.25,
        gt=0,
        le=1,
        description="largest excess over unseen patients that counts as none, on scales from 0 to 1; for "
        "ranks, a model "
        "that knows everything has about 0.5",
    )
    battery: Annotated[tuple[str, ...], Listed, BeforeValidator(_without_none)] = Field(
        (USUAL,),
        description="attacks that verify in addition to questions and ranks: names from `medunlearn list attacks`, "
        "module:Class, a set (battery, quick), or default for those that do so by themselves; none: no attack",
    )
    others: int = Field(12, ge=3, description="most further patients to ask about, retained and unseen (seeded)")
    earlier: Literal["all"] | Annotated[int, Field(ge=1)] = Field(
        12,
        description="patients of earlier requests to ask about again, by turns, each in every request of a round; "
        "all: every one, which takes longer with each request",
    )
    facts: int = Field(
        16,
        ge=2,
        description="facts to rank per patient and fold, and per note",
    )
    anyway: bool = Field(False, description="unlearn even if nothing of the patient is found in the model")
    model_key: Path | None = Field(
        None,
        description="private key (P-256, PEM) that signs the files of the new model as OpenSSF model signing does: "
        "OUT-model.sig; needs medunlearn[signing]",
    )
    received: date | None = Field(None, description="date of the request (2026-01-31); none: today")
    delete_files: bool = Field(False, description="the request also asks to delete the patient's files")
    build: dict[str, Any] = Field(
        default_factory=dict, description="settings of `build notes`: --build.patient-column ID"
    )
    unlearn: dict[str, Any] = Field(
        default_factory=dict, description="settings of `unlearn` for every run: --unlearn.trainable lora"
    )
    evaluate: dict[str, Any] = Field(
        default_factory=dict, description="settings of `evaluate`: --evaluate.batch_size 16"
    )
    seed: int = Field(0, ge=0, description="seed of all random draws")

    @model_validator(mode="after")
    def _with_known_names(self) -> ForgetSettings:
        problems = [
            f"There is no setting {section}.{key}." + (f" Did you mean {section}.{near}?" if near else "")
            for section, model in self.SECTIONS.items()
            for key in getattr(self, section)
            if "." not in key and key not in model.model_fields  # a dot: of a method, which the method checks
            for near in [nearest(key, model.model_fields)]
        ]
        if problems:
            raise ValueError(" ".join(problems))
        return self

    @field_validator("received")
    @classmethod
    def _not_to_come(cls, received: date | None) -> date | None:
        if received is not None and received > date.today() + timedelta(days=1):  # it may be tomorrow elsewhere
            raise ValueError("this day is still to come")
        return received

    @model_validator(mode="after")
    def _without_twice(self) -> ForgetSettings:
        own = {"holdout", "prompt", "seed", "forget_patients", "probed", "notes", "same_person"} & set(self.build)
        if own:
            raise ValueError(f"build.{min(own)}: `forget` sets it itself, or has a flag of its own for it")
        own = {"probes", "split", "folds", "values", "seed"} & set(self.evaluate)
        if own:
            raise ValueError(
                f"evaluate.{min(own)}: `forget` sets it itself: what verifies follows from the request"
            )
        own = {"split", "method", "seed"} & set(self.unlearn)
        if own:
            raise ValueError(f"unlearn.{min(own)}: `forget` sets it itself, or has a flag of its own for it")
        return self
