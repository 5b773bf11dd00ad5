"""The settings of every command: typed, flat, with the help text beside the field.

Unknown keys are refused with the nearest right one, and all mistakes are reported at once. What a user may
leave out takes its default from the AMNESIA paper (Table 6) or, for the tiny model, from ``TINY``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from medunlearn.errors import ConfigError, InputError, unknown_name

Context = Literal["note", "closed_book"]
Template = Literal["plain", "chat", "clinical"]
What = Literal["records", "questions", "both"]
LongNotes = Literal["refuse", "cut"]
Percent = Annotated[int, Field(ge=1, le=99)]


def _listed(value: Any) -> Any:
    return [word.strip() for word in value.split(",")] if isinstance(value, str) else value


class Settings(BaseModel):
    """Base of all settings: unknown keys are mistakes, and a value never changes after it was checked."""

    model_config = ConfigDict(extra="forbid", frozen=True, protected_namespaces=(), allow_inf_nan=False)


class SplitFields(Settings):
    """What all AMNESIA benchmarks are split by."""

    diseases: tuple[str, ...] = Field(
        (), description="diseases that get splits of their own, with commas; none: the three largest"
    )
    percents: tuple[Percent, ...] = Field(
        (5, 10, 15, 20, 25), description="shares of the patients that splits forget"
    )

    @field_validator("diseases", mode="before")
    @classmethod
    def _words(cls, value: Any) -> Any:
        """One name, or several with commas, is as good as a list."""
        return _listed(value)

    @field_validator("percents", mode="before")
    @classmethod
    def _numbers(cls, value: Any) -> Any:
        """One number is as good as a list of one."""
        if value in ([], ()):
            raise ValueError("name one at least")
        return [value] if isinstance(value, int) else _listed(value)

    @field_validator("diseases", "percents")
    @classmethod
    def _once(cls, value: tuple[Any, ...]) -> tuple[Any, ...]:
        if len(set(value)) < len(value):
            raise ValueError("name each of them once")
        return value


class AmnesiaSettings(SplitFields):
    """An AMNESIA benchmark from an invented hospital."""

    builder: Literal["amnesia"] = "amnesia"
    invented: int = Field(ge=2, description="patients to invent")
    institutions: int = Field(4, ge=1, description="institutions that they are spread over")
    studies: int = Field(0, ge=0, description="dated chest studies a patient, each with four report sections")
    note_length: Literal["short", "medium", "long"] = Field("short", description="length of a note")
    nonmember_patients: int = Field(
        0, ge=0, description="patients invented besides, that no model is trained on and nothing is asked about"
    )
    seed: int = Field(0, description="seed of hospital and splits")


class AmnesiaNotesSettings(SplitFields):
    """An AMNESIA benchmark from a person's own notes, labelled and asked about by a language model."""

    builder: Literal["amnesia"] = "amnesia"
    notes: Path = Field(
        description="CSV, TSV, JSONL, JSON or Parquet, one note a row, or a folder of such files, or "
        "hub:org/name[/FILE][@REVISION]; PMC-Patients is recognised"
    )
    llm: dict[str, Any] = Field(
        description="the server: llm.base_url, llm.model, llm.concurrency, ... (docs/llm.md)"
    )
    id: str | None = Field(None, description="column of the note's id; none: id, or the row's number")
    text: str | None = Field(None, description="column of the note; none: text")
    title: str | None = Field(None, description="column of the title that a disease is told by; none: title")
    subject: str | None = Field(None, description="column of the patient; none: subject, or every note another one")
    disease: str | None = Field(None, description="column of a disease of your own; none: disease, or the model's")
    identifiers: str | None = Field(
        None, description="column of known identifiers; none: identifiers, or none known"
    )
    sample: Annotated[int, Field(ge=2)] | Literal["all"] | None = Field(
        None, description="seeded sample of this many notes, or all; none: 8820 of PMC-Patients, all of other files"
    )
    other: Literal["drop", "keep"] = Field("drop", description="patients whose title fits none of the 11 diseases")
    data_use: Literal["open", "credentialed"] | None = Field(
        None, description="credentialed: notes stay on this machine; none: open for PMC-Patients alone"
    )
    allow_remote_llm: bool = Field(False, description="permit a server off this machine for notes that should stay")
    skip_bad_rows: bool = Field(False, description="leave out rows that cannot be read and list them")
    leave_out_failed: bool = Field(False, description="build without the notes that server or network failed on")
    again: bool = Field(False, description="ask again what a model answered unusably or refused before")
    temperature: float | None = Field(0.0, ge=0, description="sampling temperature; null sends none")
    answer_tokens: int | None = Field(None, ge=1, description="longest answer; none: as each prompt says")
    store: Path | None = Field(None, description="folder of the model's responses; none: llm/ in the benchmark's")
    llm_seed: int | None = Field(0, description="seed sent to the model; null sends none")
    seed: int = Field(0, description="seed of sample, holdout and splits; another one asks nothing again")

    @field_validator("sample", mode="before")
    @classmethod
    def _number_or_all(cls, value: Any) -> Any:
        if isinstance(value, str) and value != "all" and not value.isdecimal():
            raise ValueError("give a number, or all")
        return int(value) if isinstance(value, str) and value != "all" else value


class LumeSettings(Settings):
    """A LUME benchmark from the released files."""

    builder: Literal["lume"] = "lume"
    released: Path = Field(description="folder with forget.jsonl and retain.jsonl")
    documents_per_task: int | None = Field(
        None, ge=2, description="seeded subset: documents a task, half from each side; all when left out"
    )
    nonmembers: Path | None = Field(
        None, description="a file of the same form with documents that no model is to be trained on"
    )
    nonmember_documents: int | None = Field(
        None,
        ge=1,
        description="public biographies of the retain side, seeded, that no model is to be trained on; not with "
        "nonmembers; none: all are trained on, as the released models were",
    )
    skip_bad_rows: bool = Field(False, description="leave out malformed rows and count them, instead of refusing")
    seed: int = Field(0, description="seed of the subset")


class LumeNewSettings(Settings):
    """A LUME benchmark built anew: invented stories and biographies, and public ones from articles of your own."""

    builder: Literal["lume"] = "lume"
    new: Literal[True] = Field(True, description="build anew instead of reading released files")
    stories: int = Field(393, ge=2, description="short stories; the paper's number")
    personal_biographies: int = Field(405, ge=2, description="biographies with identifiers; the paper's number")
    public_biographies: int = Field(589, ge=2, description="biographies of an encyclopedia; the paper's number")
    nonmembers: int = Field(
        100, ge=0, description="further public biographies that no model is to be trained on (fold holdout)"
    )
    articles: Path | None = Field(
        None, description="CSV, TSV, JSONL, JSON or Parquet of articles, cut to 100-200 words; none: invented lives"
    )
    title: str = Field("title", description="column of an article's title")
    text: str = Field("text", description="column of an article's text")
    completion: Literal["sentence", "word"] = Field(
        "sentence", description="completions begin at a sentence, or at any word as in the released files"
    )
    alike: float = Field(
        0.5, gt=0, description="overlap of word triples from which a document is left out as a near-duplicate"
    )
    email_domain: str = Field(
        "me.com", pattern=r"^[a-z0-9-]+(\.[a-z0-9-]+)+$", description="domain of the invented e-mail addresses"
    )
    reviewed: tuple[Path, ...] = Field(
        (), description="labelled review sheets (labels.csv); a document that somebody labelled No is left out"
    )
    llm: dict[str, Any] = Field(
        default_factory=dict, description="the server that writes: llm.base_url, llm.model, ...; none: a grammar"
    )
    verifiers: Path | None = Field(
        None, description="YAML of models that try each question a language model wrote (docs/judging.md: judges:)"
    )
    allow_remote_llm: bool = Field(False, description="permit a server off this machine; invented data need it not")
    leave_out_failed: bool = Field(False, description="build without what server or network failed on")
    again: bool = Field(False, description="ask again what a model answered unusably or refused before")
    temperature: float | Literal["prompt"] | None = Field(
        "prompt", description="sampling temperature; prompt: as each prompt says; null sends none"
    )
    answer_tokens: int | None = Field(None, ge=1, description="longest answer; none: as each prompt says")
    store: Path | None = Field(None, description="folder of the model's responses; none: llm/ in the benchmark's")
    llm_seed: int | None = Field(0, description="seed sent to the model; null sends none")
    seed: int = Field(0, description="seed of everything drawn: names, texts, sides, cuts, questions")

    @field_validator("reviewed", mode="before")
    @classmethod
    def _paths(cls, value: Any) -> Any:
        """One file, or several with commas, is as good as a list."""
        return [part.strip() for part in value.split(",")] if isinstance(value, str) else value


class TofuSettings(Settings):
    """A TOFU benchmark from its published files."""

    builder: Literal["tofu"] = "tofu"
    released: str = Field(description="folder of the released files, or hub: locuslab/TOFU")
    revision: str | None = Field(None, description="of the hub's data set; none: its newest")
    questions_an_author: int = Field(20, ge=1, description="rows of the file `full` that are about one author")
    seed: int = Field(0, description="kept in the manifest; nothing is drawn")


class MuseSettings(Settings):
    """A MUSE benchmark from its published files."""

    builder: Literal["muse"] = "muse"
    released: str = Field(description="folder of the released files, or hub: muse-bench/MUSE-News or -Books")
    corpus: Literal["news", "books"] = Field("news", description="which of the two corpora it is")
    revision: str | None = Field(None, description="of the hub's data set; none: its newest")
    seed: int = Field(0, description="kept in the manifest; nothing is drawn")


class LoopFields(Settings):
    """What all training shares."""

    epochs: int = Field(3, ge=0, description="passes over the training set (unlearning: over the forget set)")
    lr: float = Field(2e-5, gt=0, description="peak learning rate of AdamW")
    batch_size: int = Field(64, ge=1, description="sequences a side in an optimizer step")
    micro_batch_size: int = Field(8, ge=1, description="sequences a side in one pass; changes memory, no number")
    schedule: Literal["cosine", "constant"] = Field("cosine", description="learning rate after the warm-up")
    warmup_ratio: float = Field(0.03, ge=0, lt=1, description="share of steps with a rising learning rate")
    weight_decay: float = Field(0.0, ge=0, description="weight decay of AdamW")
    clip: float = Field(1.0, ge=0, description="largest gradient norm; 0 for none")
    precision: Literal["auto", "bf16", "fp32"] = Field(
        "auto",
        description="matrix products in bf16 by autocast, or fp32; auto: bf16 where the device is fast in it",
    )
    weights: Literal["fp32", "bf16"] = Field("fp32", description="type of the weights in memory")
    max_length: int = Field(2048, ge=8, description="longest sequence in tokens; records are cut to this")
    checkpoint_seconds: float = Field(60.0, ge=0, description="least time between two checkpoints")
    optimizer: Literal["adamw", "adamw_8bit", "paged_adamw_8bit", "sgd"] = Field(
        "adamw", description="AdamW; its moments in 8 bits, or in 8 bits and paged (both: bitsandbytes); plain SGD"
    )
    offload: Literal["none", "optimizer"] = Field(
        "none", description="optimizer: AdamW's moments in the host's memory; changes memory, no number"
    )
    sharding: Literal["none", "fsdp2"] = Field(
        "none", description="fsdp2: divide the decoder layers among the processes of torchrun"
    )
    gradient_checkpointing: bool = Field(
        False, description="compute activations again in the backward pass; changes memory, no number"
    )


class EpochFields(LoopFields):
    """Evaluation while a run goes on."""

    evaluate_every: int = Field(
        0, ge=0, description="epochs from one evaluation to the next, the first before the first epoch; 0: none"
    )
    evaluate: dict[str, Any] = Field(
        default_factory=dict, description="settings of `evaluate` for these: evaluate.folds=train, ..."
    )
    keep_epochs: bool = Field(False, description="keep the model of each evaluated epoch")


class TrainSettings(EpochFields):
    """Train the target model, or with ``without`` the retrained model."""

    model: str = Field(description="folder, hub id (org/name), or tiny")
    without: str | None = Field(None, description="split whose forget set is left out: the retrained model")
    pretrain_epochs: int = Field(1, ge=0, description="passes over the records alone, before fine-tuning")
    pack_records: bool = Field(
        False, description="pretraining counts rows of max_length tokens, filled with records, as its sequences"
    )
    train_on: What = Field("both", description="what fine-tuning sees: records, questions (train fold), both")
    template: Template = Field("clinical", description="prompt template")
    context: Context = Field("note", description="note: the record is in the prompt; closed_book: it is not")
    long_notes: LongNotes = Field(
        "refuse", description="a note that takes more than 7/8 of max_length in a prompt: refuse, or cut its end"
    )
    trainable: str = Field("all", description="all, lora[:RANK], layers:7, layers:5-7, or pattern:REGEX")
    trust_remote_code: bool = Field(False, description="run code that comes with a hub model")
    seed: int = Field(0, description="seed of order, dropout and the tiny model's weights")
    tiny_width: int = Field(192, ge=16, multiple_of=8, description="tiny model: width of the hidden states")
    tiny_layers: int = Field(4, ge=1, description="tiny model: decoder layers")
    tiny_vocabulary: int = Field(2048, ge=300, description="tiny model: tokens in the vocabulary at most")


class UnlearnSettings(EpochFields):
    """Make a trained model forget one split's forget set."""

    method: str = Field(description="a name from `medunlearn list methods`, or module:Class")
    split: str = Field(description="split of the benchmark, or an ad-hoc request level=node,node")
    arguments: dict[str, Any] = Field(default_factory=dict, description="the method's own settings")
    trainable: str = Field("default", description="default: what the method asks for; else as in train")
    train_on: What = Field("both", description="what the forget and retain sets hold: records, questions, both")
    template: Template | None = Field(None, description="prompt template; left out: the target model's")
    context: Context | None = Field(None, description="context mode; left out: the target model's")
    long_notes: LongNotes | None = Field(None, description="as in train; left out: the target model's")
    select: Literal["last", "best"] = Field(
        "last", description="the epoch whose model is the run's; best: of utility and forgetting together"
    )
    stop_early: int = Field(
        0, ge=0, description="end after so many epochs without a better one by the rule of select=best; 0: never"
    )
    keep_gb: float = Field(
        4.0, ge=0, description="GB on disk for what is the same in every epoch and is computed once; 0: nothing"
    )
    seed: int = Field(0, description="seed of order and dropout")


class EvaluateSettings(Settings):
    """Ask a model the benchmark's questions and score what it says."""

    split: str = Field(description="split of the benchmark, or an ad-hoc request level=node,node")
    metrics: tuple[str, ...] = Field((), description="names from `medunlearn list metrics`; none: the benchmark's")
    folds: tuple[Literal["train", "holdout", "rephrase", "utility"], ...] = Field(
        ("train", "holdout"), description="folds to ask"
    )
    template: Template | None = Field(None, description="prompt template; left out: the model's own")
    context: Context | None = Field(None, description="context mode; left out: the model's own")
    subjects: int | None = Field(None, ge=1, description="ask about this many subjects a side (seeded); none: all")
    max_new_tokens: int | None = Field(
        None, ge=1, description="longest response; none: the longest reference answer and a quarter"
    )
    batch_size: int = Field(64, ge=1, description="prompts decoded together")
    weights: Literal["fp32", "bf16"] = Field("fp32", description="type of the weights in memory")
    encoder: str | None = Field(None, description="sentence encoder for CS: folder or hub id")
    nli: str | None = Field(None, description="entailment model for ES: folder or hub id")
    extractor: str = Field("offline", description="finds the keywords of LS: offline, scispacy, or module:Class")
    keywords: Path | None = Field(
        None, description="keywords of LS as `medunlearn keywords --out` writes them; none: found when needed"
    )
    replicates: int = Field(1000, ge=2, description="bootstrap replicates over subjects")
    seed: int = Field(0, description="seed of the subset and the bootstrap")

    @field_validator("metrics", "folds", mode="before")
    @classmethod
    def _words(cls, value: Any) -> Any:
        """One name, or several with commas, is as good as a list."""
        return _listed(value)


class AttackSettings(Settings):
    """Attack a model: find out what an adversary can still tell from it."""

    split: str = Field(description="split of the benchmark, or an ad-hoc request level=node,node")
    attacks: tuple[str, ...] = Field(
        ("membership",), description="names or kinds from `medunlearn list attacks`; a kind is all of its attacks"
    )
    arguments: dict[str, dict[str, Any]] = Field(
        default_factory=dict, description="settings of single attacks, written ATTACK.KEY=VALUE (min_k.k=0.4)"
    )
    reference: str | None = Field(
        None, description="model for the attack `reference`, not trained on the documents: folder, run or hub id"
    )
    batch_size: int = Field(32, ge=1, description="sequences in one pass")
    weights: Literal["fp32", "bf16"] = Field("fp32", description="type of the weights in memory")
    replicates: int = Field(1000, ge=2, description="bootstrap replicates over subjects")
    seed: int = Field(0, description="seed of the bootstrap")

    @field_validator("attacks", mode="before")
    @classmethod
    def _words(cls, value: Any) -> Any:
        """One name, or several with commas, is as good as a list."""
        return [word.strip() for word in value.split(",")] if isinstance(value, str) else value


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
    show_text: bool = Field(False, description="show records' text in the report")
    seed: int = Field(0, description="seed of every stage that has none of its own")


class SearchSettings(Settings):
    """A learning rate for each method of a sweep, out of the same few."""

    split: str = Field(description="split that rates are tried on; best one that is not reported")
    lr: tuple[float, ...] = Field(min_length=1, description="rates that every method is tried at")


class SweepSettings(Settings):
    """Many experiments in one: methods x splits x seeds."""

    name: str = Field(description="title of the report")
    out: Path = Field(description="folder of all cells")
    benchmark: dict[str, Any] = Field(description="settings of `build`, with builder: amnesia or lume; or folder:")
    splits: tuple[str, ...] = Field(min_length=1, description="what is forgotten, each by models of its own")
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
    seeds: tuple[int, ...] = Field((), description="each trains models of its own and unlearns with it; none: 0")
    seed: int | None = Field(None, description="one seed instead of seeds")

    @field_validator("splits", "contexts", "seeds", mode="before")
    @classmethod
    def _one(cls, value: Any) -> Any:
        """One is as good as a list of one; no commas, which separate the nodes of a request."""
        return [value] if isinstance(value, str | int) else value

    @field_validator("retrain", mode="before")
    @classmethod
    def _some_splits(cls, value: Any) -> Any:
        found = [value] if isinstance(value, str) else value
        if isinstance(found, bool) or (isinstance(found, list | tuple) and all(isinstance(v, str) for v in found)):
            return found
        raise ValueError("give true, false, or a list of splits")


# What memorizes a hospital of 100 patients on two cores (benchmarks_perf/tiny_memorizes.py measures it).
TINY: Mapping[str, Any] = {
    "epochs": 18,
    "pretrain_epochs": 0,
    "lr": 3e-3,
    "batch_size": 8,
    "micro_batch_size": 8,
    "warmup_ratio": 0.05,
    "max_length": 512,
    "template": "plain",
    "context": "closed_book",
}

# For a tiny target. The learning rates are the best of a small search, the same for every method
# (benchmarks_perf/tiny_rates.py, on a hospital with another seed than the demo's). RMU's defaults are for hidden
# states thousands wide and for layer 7; the tiny model has neither.
TINY_UNLEARN: Mapping[str, Any] = {
    "epochs": 3,
    "batch_size": 8,
    "micro_batch_size": 8,
    "max_length": 512,
    "lr": 1e-3,
}
TINY_METHODS: Mapping[str, Mapping[str, Any]] = {
    "ga": {"lr": 6e-4},
    "npo": {"lr": 6e-4},
    "simnpo": {"lr": 3e-3},
    "rmu": {"lr": 1e-2, "arguments": {"layer": 1, "coefficient": 20.0}},
}

T = TypeVar("T", bound=Settings)


def check(model: type[T], values: Mapping[str, Any]) -> T:
    """Values to settings.

    Raises:
        ConfigError: every mistake, each with its key and the fix.
    """
    read = {key: value for key, value in values.items() if not isinstance(value, _Misread)}
    problems = [
        f"{word!r} is not understood: settings are written key=value"
        for key, word in values.items()
        if key not in read
    ]
    try:
        found = model.model_validate(read)
    except ValidationError as error:
        problems += [_problem(model, one) for one in error.errors()]
    if problems:
        raise ConfigError(problems)
    return found


def _problem(model: type[Settings], error: Any) -> str:
    key = ".".join(str(part) for part in error["loc"])
    kind, field = error["type"], model.model_fields.get(str(error["loc"][0]))
    if kind == "extra_forbidden":
        return unknown_name("setting", key, model.model_fields)
    if kind == "missing":
        return f"{key} is missing: {field.description if field else 'it must be given'}"
    return f"{key}={error['input']!r}: {error['msg'][0].lower()}{error['msg'][1:]}"


class _Loader(yaml.SafeLoader):
    """Reads 1e-4 as a number; YAML 1.1, for want of a point, reads it as text."""


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"[-+]?\d+(\.\d*)?[eE][-+]?\d+$"), list("-+0123456789")
)


def _load(text: str) -> Any:
    return yaml.load(text, Loader=_Loader)


def read_yaml(path: Path) -> dict[str, Any]:
    """A YAML file that holds keys and values.

    Raises:
        InputError: not there, or not YAML.
    """
    try:
        values = _load(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"There is no file {path}.") from None
    except (OSError, ValueError, RecursionError, yaml.YAMLError) as error:
        raise InputError(f"{path} cannot be read as YAML: {error}") from error
    if not isinstance(values, dict):
        raise InputError(f"{path} must hold keys and values, one `key: value` a line.")
    return values


def parse_overrides(words: Sequence[str]) -> dict[str, Any]:
    """``key=value`` words as a dictionary; values are read as YAML, so ``lr=1e-4``, ``metrics=[rouge_l,em]``.

    Words that are not of this form stay in it; :func:`check` reports them with all other mistakes.
    """
    bad = [word for word in words if "=" not in word.lstrip("=") or word.startswith(("=", "-"))]
    good = (word.partition("=") for word in words if word not in bad)
    # Under a key without a point: such a key is the command's own, and not a section's or a method's.
    misread = {f"misread word {place}": _Misread(word) for place, word in enumerate(bad)}
    return {**{key: _value(value) for key, _, value in good}, **misread}


class _Misread(str):
    """A word that is no setting."""


def _value(text: str) -> Any:
    try:
        return _load(text)
    except (ValueError, RecursionError, yaml.YAMLError):
        return text


def merge(values: Mapping[str, Any], overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Nested settings with overrides by dotted key: ``train.lr`` goes into ``train``.

    The first part of a key names a section, which is made where the values have none; what is left stays
    whole, so that ``unlearn.npo.beta`` becomes the key ``npo.beta`` of ``unlearn``.
    """
    merged = {key: dict(value) if isinstance(value, dict) else value for key, value in values.items()}
    for key, value in overrides.items():
        section, dot, rest = key.partition(".")
        if dot and isinstance(merged.get(section) or {}, dict):
            merged[section] = {**(merged.get(section) or {}), rest: value}
        else:
            merged[key] = value
    return merged


def fields_of(model: type[Settings]) -> Iterator[tuple[str, str, str]]:
    """Name, default and help text of each setting, for ``--help``."""
    for name, field in model.model_fields.items():
        if name == "builder":
            continue
        default = "required" if field.is_required() else repr(field.get_default(call_default_factory=True))
        yield name, default, field.description or ""
