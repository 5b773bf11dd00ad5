"""Settings of `run`, `sweep` and `tune`, as in their files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from medunlearn.config.settings import Context, Listed, Numbers, Settings, listed
from medunlearn.errors import ConfigError

Axis = Literal["utility", "forgetting", "ranks"]
_JUDGE = (
    "language models that judge, after everything else: llm, and settings of `judge` by task (label, question, "
    "document: of the benchmark; factuality: of every model's responses); none: nobody judges"
)
_PYTHON = (
    "Python of another environment that finds the keywords of evaluate.extractor before anything trains; none: "
    "this one's"
)
_SCALE = "one of the file's scales, whose values replace the file's; a folder of its own unless out is given"
_QUICK = "the file's scale quick (scale=quick): a small version of the experiment"
_SCALES = "sizes of the experiment by name, as settings by section or dotted key (docs/scale.md)"


EngineName = Annotated[
    Literal["local", "torchrun", "slurm", "ray"],
    Field(
        description="what runs the cells: local processes of one GPU each; torchrun, several GPUs per cell; slurm "
        "jobs (medunlearn[slurm]); ray tasks (medunlearn[ray])"
    ),
]
Processes = Annotated[
    int, Field(ge=1, le=1024, description="processes that share a training run, one a GPU (not with local)")
]
DeviceName = Annotated[
    str | None,
    Field(description="device that --plan assumes: H100, A100, ... (docs/scale.md); none: this machine"),
]
SlurmOptions = Annotated[
    dict[str, Any],
    Field(
        description="sbatch options of a job: --slurm.partition gpu --slurm.timeout_min 600; it is signalled "
        "signal_delay_s before its end"
    ),
]


def _names(value: Any) -> Any:
    """One name, or several with commas; the commas of a request (``patient=a,b``) separate its nodes."""
    return [value] if isinstance(value, str) and "=" in value else listed(value)


class ExperimentSettings(Settings):
    """One experiment: build, train, retrain, unlearn with each method, evaluate, report."""

    name: str = Field(description="title of the report")
    out: Path = Field(description="folder of all its stages")
    benchmark: dict[str, Any] = Field(description="settings of `build`, with builder: amnesia or lume; or folder:")
    split: str = Field(description="what is forgotten")
    train: dict[str, Any] = Field(description="settings of `train`")
    retrain: bool = Field(True, description="train the retrained model too")
    unlearn: dict[str, Any] = Field(
        description="settings of `unlearn`, with methods: [...]; METHOD.KEY sets a key for one method"
    )
    evaluate: dict[str, Any] = Field(default_factory=dict, description="settings of `evaluate`")
    attack: dict[str, Any] = Field(
        default_factory=dict, description="settings of `attack`, on every model; none: no model is attacked"
    )
    utility: dict[str, Any] = Field(
        default_factory=dict, description="settings of `utility`, on every model; none: it is not measured"
    )
    adopt: dict[str, Any] | None = Field(
        None,
        description="settings of `adopt`, with model: an adopted target, instead of training one; none: the "
        "target is "
        "trained",
    )
    device_name: DeviceName = None
    judge: dict[str, Any] = Field(default_factory=dict, description=_JUDGE)
    extractor_python: str | None = Field(None, description=_PYTHON)
    scale: str | None = Field(None, description=_SCALE)
    quick: bool = Field(False, description=_QUICK)
    scales: dict[str, dict[str, Any]] = Field(default_factory=dict, description=_SCALES)
    show_text: bool = Field(False, description="show records' text in the report")
    seed: int = Field(0, description="seed of every stage without its own seed")


class SearchSettings(Settings):
    """Search of a learning rate for each method of a sweep, from the same candidates."""

    split: str = Field(description="split to try rates on, preferably one that is not reported")
    lr: Annotated[tuple[float, ...], Numbers] = Field(
        min_length=1, description="learning rates to try for every method"
    )


class ExpectedSettings(Settings):
    """Size of a benchmark that is not built yet; ``--plan`` uses a few invented patients as a stand-in."""

    patients: int = Field(ge=1, le=10_000_000, description="number of patients")
    note_tokens: int | None = Field(
        None, ge=1, le=1_000_000, description="mean tokens of its notes; none: as long as the invented ones"
    )
    longest_note: int | None = Field(
        None,
        ge=1,
        le=1_000_000,
        description="tokens of its longest note, which determines memory; none: all of equal length",
    )
    image_pixels: int | None = Field(
        None,
        ge=1,
        le=1_000_000_000,
        description="pixels of an image as the model gets it; none: as many as the invented ones have",
    )
    synthetic: int = Field(40, ge=30, le=10_000, description="invented patients that stand in for it in the plan")


class SweepSettings(Settings):
    """Many experiments in one: methods x splits x seeds."""

    name: str = Field(description="title of the report")
    out: Path = Field(description="folder of all cells")
    benchmark: dict[str, Any] = Field(description="settings of `build`, with builder: amnesia or lume; or folder:")
    splits: tuple[str, ...] = Field(min_length=1, description="splits to forget, each with its own models")
    train: dict[str, Any] = Field(description="settings of `train`")
    retrain: bool | tuple[str, ...] = Field(
        True, description="retrained models: true for every split, false for none, or the splits that get one"
    )
    unlearn: dict[str, Any] = Field(
        description="settings of `unlearn`, with methods: [...]; METHOD.KEY sets a key for one method; "
        "search: {split: ..., lr: [...]} finds each method's learning rate"
    )
    evaluate: dict[str, Any] = Field(default_factory=dict, description="settings of `evaluate`")
    contexts: tuple[Context, ...] = Field((), description="context modes to ask in; none: the model's own")
    asked_about: dict[str, tuple[str, ...]] = Field(
        default_factory=dict,
        description="splits whose unlearned models are asked about other splits too, {flat_25: [patient_25]}: for "
        "comparison with models of another forget set of the same size",
    )
    sequence: bool = Field(
        False,
        description="the splits are requests, one after the other: each method continues from its model of "
        "the previous "
        "request, and its models are asked about all earlier requests again",
    )
    attack: dict[str, Any] = Field(
        default_factory=dict, description="settings of `attack`, on every model; none: no model is attacked"
    )
    on: EngineName = "local"
    processes: Processes = 1
    slurm: SlurmOptions = Field(default_factory=dict)
    expected: dict[str, Any] = Field(
        default_factory=dict,
        description="size of a benchmark that is not built yet, for --plan: {patients: 8820, note_tokens: 716}",
    )
    device_name: DeviceName = None
    judge: dict[str, Any] = Field(default_factory=dict, description=_JUDGE)
    extractor_python: str | None = Field(None, description=_PYTHON)
    scale: str | None = Field(None, description=_SCALE)
    quick: bool = Field(False, description=_QUICK)
    scales: dict[str, dict[str, Any]] = Field(default_factory=dict, description=_SCALES)
    seeds: Annotated[tuple[int, ...], Numbers] = Field(
        (), min_length=1, description="seeds; each trains its own models and unlearns them; none: 0"
    )
    seed: int | None = Field(None, description="one seed instead of seeds")

    @field_validator("splits", "contexts", mode="before")
    @classmethod
    def _lists(cls, value: Any) -> Any:
        return _names(value)

    @field_validator("retrain", mode="before")
    @classmethod
    def _some_splits(cls, value: Any) -> Any:
        names = value if isinstance(value, bool) else _names(value)
        if isinstance(names, bool) or (isinstance(names, list | tuple) and all(isinstance(v, str) for v in names)):
            return names
        raise ValueError("give true, false, or a list of splits")


class TuneSettings(Settings):
    """Settings of each method, found with an equal budget."""

    name: str = Field(description="title of the report")
    out: Path = Field(description="folder of all trials and final models")
    benchmark: dict[str, Any] = Field(description="settings of `build`, with builder: amnesia or lume; or folder:")
    split: str = Field(description="what is forgotten")
    train: dict[str, Any] = Field(description="settings of `train`")
    retrain: bool = Field(
        True,
        description="train the retrained model, to which the objective measures the distance; false: ranks "
        "of forgotten "
        "facts, under a floor of utility",
    )
    unlearn: dict[str, Any] = Field(
        description="settings of `unlearn`, with methods: [...]; METHOD.KEY sets a key for one method. They "
        "are the "
        "first trial, and stay for settings that are not searched"
    )
    space: dict[str, Any] = Field(
        default_factory=dict,
        description="ranges other than the default ones: lr: [1e-5, 1e-3] for all methods, npo.beta: [0.01, 1] for "
        "one; {choices: [...]}; null: not searched",
    )
    runs: int | None = Field(
        None, ge=1, description="trials of all methods together, divided equally; a failed one counts"
    )
    flops: float | None = Field(
        None, gt=0, description="instead of runs: FLOPs of all methods' trials together, divided equally"
    )
    halving: int = Field(
        3,
        ge=0,
        description="successive halving: of the trials that reach an epoch of 1, n, n^2, ... the best 1 / n go on; "
        "0: every trial runs to its end",
    )
    axes: Annotated[tuple[Axis, ...], Listed] = Field(
        ("utility", "forgetting", "ranks"),
        min_length=1,
        description="components of the distance to the retrained model",
    )
    utility_floor: float = Field(
        0.95, ge=0, le=1, description="without a retrained model: the least utility, as a share of the target's"
    )
    rank_level: float | None = Field(
        None,
        ge=0,
        le=1,
        description="without a retrained model: share of facts ranked first for subjects unseen in training; "
        "none: that "
        "of exchangeable alternatives",
    )
    evaluate: dict[str, Any] = Field(default_factory=dict, description="settings of `evaluate`")
    on: EngineName = "local"
    processes: Processes = 1
    slurm: SlurmOptions = Field(default_factory=dict)
    seeds: Annotated[tuple[int, ...], Numbers] = Field(
        (),
        min_length=1,
        description="seeds; trials use the first one; each trains a target and unlearns it with the best and the "
        "default settings; none: 0",
    )
    seed: int | None = Field(None, description="one seed instead of seeds")

    @model_validator(mode="after")
    def _one_budget(self) -> TuneSettings:
        if (self.runs is None) == (self.flops is None):
            raise ValueError("give a budget: either runs=60 or flops=1e15")
        if self.halving == 1:
            raise ValueError("halving=1 lets every trial continue: use 0 for that, or 2 and more")
        return self


class AdaptationStep(Settings):
    """One step of an adaptation: a benchmark, how the model is trained on it, and what is asked afterwards."""

    benchmark: dict[str, Any] = Field(description="settings of `build`, with builder; or folder:")
    train: dict[str, Any] = Field(description="settings of `train`; the model is that of the step before")
    options: dict[str, Any] | None = Field(
        None,
        description="settings of `audit --options` on the step's questions, asked of every model; none: not asked",
    )
    diagnose: dict[str, Any] | None = Field(
        None, description="settings of `audit diagnosis` of the step's model and the one before; none: not asked"
    )
    expected: dict[str, Any] = Field(
        default_factory=dict,
        description="size of its benchmark, for --plan until it is built: {patients: 10000, note_tokens: 800}",
    )


class AdaptationSettings(Settings):
    """A model that is adapted step by step, with an audit of every model on the texts of every step."""

    paper: str = Field(description="the paper whose experiment this is: memorization")
    name: str = Field(description="title of the report")
    out: Path = Field(description="folder of all its stages")
    model: str = Field(description="the model before adaptation: folder, hub id (org/name), or tiny")
    tiny: dict[str, Any] = Field(
        default_factory=dict,
        description="settings of `train` for the size of the tiny model: tiny_width, ...",
    )
    steps: dict[str, Any] = Field(
        min_length=1,
        description="adaptation steps by name, in their order: benchmark, train; options and diagnose where they "
        "are asked",
    )
    audit: dict[str, Any] = Field(default_factory=dict, description="settings of `audit`, on every model")
    relations: dict[str, Any] = Field(
        default_factory=dict,
        description="what the report is told of corpora: clinical, datasets; baselines and persistence follow from "
        "the steps",
    )
    device_name: DeviceName = None
    scale: str | None = Field(None, description=_SCALE)
    quick: bool = Field(False, description=_QUICK)
    scales: dict[str, dict[str, Any]] = Field(default_factory=dict, description=_SCALES)
    show_text: bool = Field(False, description="show records' text in the report")
    seed: int = Field(0, description="seed of every stage without its own seed")


VERBS: Mapping[str, tuple[type[Settings], ...]] = {
    "run": (ExperimentSettings, AdaptationSettings),
    "sweep": (SweepSettings,),
    "tune": (TuneSettings,),
}
"""Verb that takes a file of settings -> what the file may have, by one of these classes."""


def refuse_file_of_other_verb(verb: str, values: Mapping[str, Any]) -> None:
    """Refuse settings whose names are all another verb's, instead of listing each that is not this verb's.

    Raises:
        ConfigError: names the verb that takes them.
    """
    if verb not in VERBS or _takes(verb, values):
        return
    for other in (name for name in VERBS if _takes(name, values)):
        own = set().union(*(settings.model_fields for settings in VERBS[verb]))
        foreign = ", ".join(name for name in values if name not in own)
        raise ConfigError([f"This file is for `medunlearn {other}`: `medunlearn {verb}` has no {foreign}"])


def _takes(verb: str, values: Mapping[str, Any]) -> bool:
    """True if a verb knows every name, and lacks none that it needs."""
    every = (settings.model_fields for settings in VERBS[verb])
    return any(
        fields.keys() >= values.keys() >= {name for name, field in fields.items() if field.is_required()}
        for fields in every
    )
