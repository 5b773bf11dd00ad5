"""Settings of `adopt`."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from medunlearn.config.prompt_files import PromptFile
from medunlearn.config.settings import Context, Images, LongNotes, Settings, TemplateName, check_template

BETTER: Literal["better"] = "better"
"""Template: the one in which the model's answers have the lower loss."""


def _template(value: Any) -> Any:
    return value if value == BETTER else check_template(value)


AdoptedTemplate = Annotated[TemplateName | Literal["better"] | PromptFile, BeforeValidator(_template)]


class AdoptSettings(Settings):
    """Record a model that was trained elsewhere as a run."""

    role: Literal["target", "retrained"] = Field(
        "target",
        description="target: trained on all of the benchmark; retrained: without the forget set of --without",
    )
    without: str | None = Field(None, description="split whose forget set a retrained model never saw")
    base: str | None = Field(
        None, description="base of a LoRA adapter: folder, run or hub id; none: the one that it names"
    )
    tokenizer: str | None = Field(
        None,
        description="folder or hub id of the tokenizer, for a model saved without one; none: the model's own",
    )
    revision: str | None = Field(None, description="branch, tag or commit of a hub id; none: its main branch")
    copy_weights: bool = Field(
        False, description="copy the model into the run; else the run names its folder and the hash of each file"
    )
    template: AdoptedTemplate | None = Field(
        None,
        description="prompt template or file for all later commands; none: that of training where the "
        "folder records it, else the tokenizer's chat template, else plain; better: the one of these with the "
        "lower loss",
    )
    context: Context = Field("closed_book", description="closed_book: the record is not in the prompt; note: it is")
    max_length: int = Field(
        2048, ge=8, description="longest sequence in tokens; records are cut to this, or to the model's positions"
    )
    images: Images = Field("use", description="as in train")
    long_notes: LongNotes = Field("refuse", description="as in train")
    sample: int = Field(
        32, ge=1, description="training records, and training questions, whose loss is measured (seeded)"
    )
    batch_size: int = Field(8, ge=1, description="sequences in one pass")
    weights: Literal["fp32", "bf16"] = Field("fp32", description="type of the weights in memory")
    data_use: Literal["open", "credentialed"] | None = Field(
        None,
        description="data use of the model's training data; none: what its folder records, else unknown, which "
        "counts as credentialed",
    )
    allow_broken: bool = Field(
        False, description="adopt a model though its weights are not finite or its loss is no better than guessing"
    )
    seed: int = Field(0, description="seed of the sample")

    @model_validator(mode="after")
    def _role_and_split(self) -> AdoptSettings:
        if self.role == "retrained" and self.without is None:
            raise ValueError("role=retrained: without is missing, the split whose forget set it never saw")
        if self.role == "target" and self.without is not None:
            raise ValueError("without is for --role retrained: a target model was trained on everything")
        if isinstance(self.template, PromptFile) and self.context == "note":
            self.template.check(["question", "note"])
        return self
