"""Settings of `evaluate`, `attack`, `judge`, `utility` and `export tasks`."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from medunlearn.config.probe_settings import (
    FactProbes,
    ProbeSettings,
    QuestionProbes,
    SamplesPerPrompt,
    SplitProbes,
)
from medunlearn.config.settings import (
    MOST_REPLICATES,
    AllowBroken,
    Backend,
    Context,
    OwnPrompt,
    Settings,
    Words,
)


class EvaluateSettings(FactProbes):
    """Ask a model the benchmark's questions and score its responses."""

    metrics: Words = Field(
        (), description="names from `medunlearn list measures`; default, or none: the benchmark's own"
    )
    batch_size: int = Field(64, ge=1, description="prompts decoded together")
    weights: Literal["fp32", "bf16"] = Field("fp32", description="type of the weights in memory")
    backend: Backend = "own"
    image_control: bool = Field(
        False,
        description="ask the trained questions once more with another patient's image and with a blank one, "
        "and show "
        "the loss in score, to see whether answers need the image",
    )
    encoder: str | None = Field(None, description="sentence encoder for CS: folder, hub id or minilm")
    nli: str | None = Field(None, description="entailment model for ES: folder or hub id")
    bert: str | None = Field(None, description="encoder for BERTScore: folder or hub id")
    bart: str | None = Field(None, description="sequence-to-sequence model for BARTScore: folder or hub id")
    extractor: str = Field("offline", description="finds the keywords of LS: offline, scispacy, or module:Class")
    keywords: Path | None = Field(
        None, description="keywords of LS as `medunlearn build keywords --out` writes them; none: found when needed"
    )
    allow_broken: AllowBroken = False
    other_texts: bool = Field(
        False, description="also ask about texts that the model was not trained on; the report says so"
    )
    replicates: int = Field(1000, ge=2, le=MOST_REPLICATES, description="bootstrap replicates over subjects")


class AttackSettings(SplitProbes):
    """Attack a model to measure what an adversary can still learn from it."""

    attacks: Words = Field(
        (),
        min_length=1,
        description="names, families or sets (battery, quick) from `medunlearn list attacks`, or module:Class; a "
        "family or set stands for all of its attacks; left out: membership",
    )
    limit: int | None = Field(
        None,
        ge=1,
        exclude=True,
        description="ask about this many subjects per side (seeded), in every attack that asks; none: its own "
        "number",
    )
    samples_per_prompt: SamplesPerPrompt | None = Field(
        None, exclude=True, description="answers per question, in every attack that samples; none: its own number"
    )
    arguments: dict[str, dict[str, Any]] = Field(
        default_factory=dict, description="settings of single attacks, by attack; --min_k.k 0.4"
    )
    more_measures: Words = Field(
        (),
        description="measures of answers besides the attacks' own: names from `medunlearn list measures`, or "
        "module:ATTRIBUTE",
    )
    reference: str | None = Field(
        None, description="model for the attack `reference`, not trained on the documents: folder, run or hub id"
    )
    batch_size: int = Field(32, ge=1, description="sequences in one pass")
    weights: Literal["fp32", "bf16"] = Field("fp32", description="type of the weights in memory")
    allow_broken: AllowBroken = False
    replicates: int = Field(1000, ge=2, le=MOST_REPLICATES, description="bootstrap replicates over subjects")


class JudgeSettings(ProbeSettings):
    """Settings of a judging run; a probe set names the questions or responses to judge."""

    PROBES_OF = "questions"
    per_group: int | None = Field(None, ge=1, description="cases to judge per group (seeded); none: all")
    limit: int | None = Field(
        None, ge=1, description="judge one case per group from this many subjects (seeded); none: all"
    )
    groups: Words = Field((), description="judge these groups only (categories; kinds of question)")
    folds: Words = Field(("train",), description="of a benchmark's questions: judge these folds only")
    splits: Words = Field(
        (),
        description="of a benchmark: judge what these splits forget (AMNESIA: its diseases' 5%)",
    )
    prompt: OwnPrompt | None = Field(
        None, description="file with a prompt of your own; placeholders as the task shows: {{ note }}, ..."
    )
    split: str | None = Field(None, description="of responses: the evaluation to take; none: the one there is")
    temperature: float | None = Field(
        0.0, ge=0, description="sampling temperature of the judges; null for servers that refuse it"
    )
    max_tokens: int = Field(1024, ge=16, description="longest answer of a judge, its thoughts included")
    allow_broken: AllowBroken = False
    replicates: int = Field(1000, ge=2, le=MOST_REPLICATES, description="bootstrap replicates over subjects")
    seed: int = Field(0, description="seed of the sample, the judges and the bootstrap")

    @classmethod
    def of_probes(cls) -> tuple[str, ...]:
        return ()


class UtilitySettings(Settings):
    """General utility: tasks of lm-evaluation-harness."""

    tasks: Words = Field(
        min_length=1, description="tasks or groups of lm-evaluation-harness (mmlu, ...), or of include="
    )
    include: Path | None = Field(None, description="folder with task files (YAML) of your own")
    fewshot: int | None = Field(None, ge=0, description="examples in the prompt; none: the task's own number, or 0")
    limit: int | None = Field(None, ge=1, description="ask this many items per task, its first ones; none: all")
    metric: str | None = Field(None, description="main metric (acc, acc_norm, ...); none: the first of each task")
    chat: bool = Field(False, description="put prompts into the model's chat template")
    batch_size: int = Field(32, ge=1, description="sequences in one pass")
    weights: Literal["fp32", "bf16"] = Field("fp32", description="type of the weights in memory")
    allow_broken: AllowBroken = False
    replicates: int = Field(1000, ge=2, le=MOST_REPLICATES, description="bootstrap replicates over items")
    seed: int = Field(0, description="seed of examples in prompts and of the bootstrap")


class TaskExportSettings(QuestionProbes):
    """A benchmark's questions as tasks of lm-evaluation-harness."""

    metrics: Words = Field(
        (), description="metrics that need only the response; none: those of the benchmark's defaults"
    )
    template: Literal["plain", "clinical"] | None = Field(
        None, description="prompt template; left out: that of like, or plain"
    )
    context: Context | None = Field(None, description="context mode; left out: that of like, or closed_book")
    like: Path | None = Field(
        None,
        description="a run whose template, context and tokenizer are used, so that numbers equal those of evaluate",
    )
    max_new_tokens: int | None = Field(
        None,
        ge=1,
        description="longest response; none: as evaluate with like, else twice the longest answer's words",
    )
