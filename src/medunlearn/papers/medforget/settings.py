"""Settings of `build medforget`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, model_validator

from medunlearn.config.settings import MOST_INVENTED, Licence, Numbers, Percents, Server, Words, WriterFields, once

SOURCES = ("synthetic", "mimic_cxr", "openi", "folder")


class MedforgetSettings(WriterFields):
    """A MedForget benchmark: institution > patient > study > section."""

    builder: Literal["medforget"] = "medforget"
    synthetic: int | None = Field(
        None,
        ge=1,
        le=MOST_INVENTED,
        description="number of patients to invent, with drawn chest phantoms; the paper's number is 64",
    )
    mimic_cxr: Path | None = Field(None, description="folder of MIMIC-CXR (files/p10/...), credentialed")
    openi: Path | None = Field(None, description="folder of Open-i (indiana_reports.csv), or that file")
    folder: Path | None = Field(None, description="table with the columns patient, study, image and report")
    images: Path | None = Field(None, description="folder of the images, if they are not next to the reports")
    text_only: bool = Field(False, description="build without images")
    institutions: int = Field(8, ge=1, le=MOST_INVENTED, description="institutions; the paper's number")
    patients: int = Field(8, ge=1, le=MOST_INVENTED, description="patients per institution; the paper's number")
    studies: int = Field(4, ge=1, le=1000, description="studies per patient; the paper's number")
    sections: int = Field(4, ge=1, le=1000, description="sections per study; the paper's number")
    required: Annotated[Words, AfterValidator(once)] = Field(
        ("examination", "indication", "findings", "impression"),
        description="sections that a study must have, with commas; the paper's four",
    )
    sample_from: Literal["required", "all"] = Field(
        "required", description="sections are drawn from the required ones, or from all that the report has"
    )
    percents: Percents = Field((25,), description="shares of the nodes that splits forget")
    nested: bool = Field(
        True,
        description="nest the levels' forget sets: what a finer level forgets is part of what a coarser one does; "
        "false: draw each level independently",
    )
    identity: Literal["node", "image"] = Field(
        "node",
        description="nodes with which an identity question is forgotten: its own and those above (the "
        "paper's Table 2), "
        "or all that its image belongs to",
    )
    options: int = Field(4, ge=2, le=8, description="options of a classification question")
    rephrase: Literal["all", "crossed", "none"] = Field(
        "all",
        description="paraphrased questions on another view; crossed: also paraphrased on the same view, and "
        "unchanged "
        "on another one",
    )
    text_twin: Literal["none", "asked", "trained"] = Field(
        "none",
        description="the same questions on a study's name, without its image: only asked, asked with the rephrased "
        "ones, or also trained on",
    )
    paraphrases: int = Field(
        0,
        ge=0,
        le=3,
        description="further wordings of each question in training, each on a further view; none is part of the "
        "rephrased set",
    )
    views: Literal["turned", "same"] = Field(
        "turned", description="rephrased questions show a turned or augmented view, or the same image"
    )
    angles: Annotated[tuple[int, ...], Numbers, AfterValidator(once), Field(min_length=1)] = Field(
        (-30, -15, 15, 30), description="degrees of turned views; the paper's"
    )
    images_per_study: int = Field(
        1,
        ge=1,
        le=4,
        description="images of a study that a question shows at most, the frontal one first, then those of other "
        "views; more than one needs a model that takes several",
    )
    image_size: int = Field(
        128, ge=32, le=1024, description="width and height in pixels of drawn and augmented images"
    )
    max_pixels: int | None = Field(
        None,
        ge=1024,
        le=2**26,
        description="scale images that have more pixels down to this many, as copies, so that all folds have one "
        "resolution; none: unchanged",
    )
    copy_images: bool = Field(False, description="copy images as PNG into the folder instead of pointing to them")
    data_use: Literal["open", "credentialed"] | None = Field(
        None,
        description="credentialed: it stays on this machine; none: open if invented or Open-i, else credentialed",
    )
    licence: Licence = ""
    general: Path | None = Field(None, description="PMC-VQA's file, or a table with image, question and answer")
    general_rows: int = Field(200, ge=1, description="rows of --general, drawn by seed")
    llm: Server = Field(
        default_factory=dict, description="the server that writes: llm.base_url, llm.model, ...; none: templates"
    )
    leave_out_failed: bool = Field(
        False, description="use templates where server or network failed, and count them"
    )
    seed: int = Field(0, description="seed of all draws: patients, names, sections, questions, images")

    @model_validator(mode="before")
    @classmethod
    def _patients_an_institution(cls, values: Any) -> Any:
        """Spread ``synthetic`` patients evenly over the institutions."""
        if not isinstance(values, dict) or not isinstance(values.get("synthetic"), int):
            return values
        number, institutions = values["synthetic"], values.get("institutions", 8)
        if isinstance(institutions, int) and institutions > 0:
            if number % institutions:
                raise ValueError(
                    f"synthetic={number} patients cannot be spread evenly over {institutions} institutions"
                )
            if values.get("patients", number // institutions) != number // institutions:
                raise ValueError(
                    f"synthetic={number} over {institutions} institutions leaves no choice of patients"
                )
            return {**values, "patients": number // institutions}
        return values

    @model_validator(mode="after")
    def _one_source(self) -> MedforgetSettings:
        sources = [name for name in SOURCES if getattr(self, name)]
        if len(sources) != 1:
            flags = ", ".join(f"--{name.replace('_', '-')}" for name in SOURCES)
            raise ValueError(
                f"give exactly one source: {flags}" + (f"; given: {', '.join(sources)}" if sources else "")
            )
        if self.sample_from == "required" and self.sections > len(self.required):
            raise ValueError(
                f"sections={self.sections} is more than the {len(self.required)} required ones: name more in "
                "required, or --sample-from all"
            )
        return self
