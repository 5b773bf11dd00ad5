"""Settings of `train` and `unlearn`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field, model_validator

from medunlearn.config.prompt_files import PromptFile
from medunlearn.config.settings import Context, Images, LongNotes, Settings, Template, Unlearned, What

TINIES = {"tiny": "tiny", "tiny-vision": "tiny-vision"}
"""Models that are built in memory, and the preset that is taken for each."""


class LoopFields(Settings):
    """Settings of every training loop."""

    epochs: int = Field(
        3, ge=0, le=100_000, description="passes over the training set (unlearning: over the forget set)"
    )
    lr: float = Field(2e-5, gt=0, description="peak learning rate of AdamW")
    batch_size: int = Field(64, ge=1, description="sequences per side in an optimizer step")
    micro_batch_size: int = Field(
        8, ge=1, description="sequences per side in one pass; changes memory, and numbers only by dropout"
    )
    micro_batch_tokens: int | None = Field(
        None,
        ge=1,
        description="most tokens per side in one pass, with text shared by questions counted once; changes memory, "
        "and numbers only by dropout",
    )
    schedule: Literal["cosine", "linear", "constant"] = Field(
        "cosine", description="learning rate after the warm-up"
    )
    schedule_end: float = Field(
        0.0, ge=0, le=1, description="share of the peak rate to which cosine and linear fall by the end"
    )
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
    merge_adapter: bool = Field(
        False,
        description="save a LoRA model merged into full weights; else only its adapter, with a reference to "
        "the base",
    )
    tracker: Literal["none", "tensorboard", "trackio", "wandb", "mlflow"] = Field(
        "none", description="experiment tracker for losses and measures during the run; each needs an extra"
    )
    allow_tracking: bool = Field(
        False, description="permit a tracker for credentialed data, and for data of unrecorded use"
    )
    gradient_checkpointing: bool = Field(
        False,
        description="compute activations again in the backward pass; changes memory, and numbers only by dropout",
    )


class EpochFields(LoopFields):
    """Settings of evaluation during a run."""

    evaluate_every: int = Field(
        0, ge=0, description="epochs between evaluations, the first before training starts; 0: none"
    )
    evaluate: dict[str, Any] = Field(
        default_factory=dict, description="settings of `evaluate` for these: --evaluate.folds train, ..."
    )
    attack: dict[str, Any] = Field(
        default_factory=dict,
        description="settings of `attack` after each of these: --attack.attacks loss, ...; none: no",
    )
    utility: dict[str, Any] = Field(
        default_factory=dict,
        description="settings of `utility` after each of these: --utility.tasks mmlu; none: no",
    )
    keep_epochs: bool = Field(False, description="keep the model of each evaluated epoch")


class TrainSettings(EpochFields):
    """Train the target model, or with ``without`` the retrained model."""

    model: str = Field(description="folder, hub id (org/name), tiny, or tiny-vision for images and text")
    without: str | None = Field(None, description="split whose forget set is left out: the retrained model")
    retrained_length: Literal["steps", "epochs"] = Field(
        "steps",
        description="length of a retrained model's training (--without): steps: the target's, in more "
        "epochs; epochs: the target's epochs, which have fewer steps without the forget set",
    )
    pretrain_epochs: int = Field(
        1, ge=0, le=100_000, description="passes over the records only, before fine-tuning"
    )
    pack_records: bool = Field(
        False, description="pretraining counts rows of max_length tokens, filled with records, as its sequences"
    )
    train_on: What = Field("both", description="fine-tuning data: records, questions (train fold), both")
    template: Template = Field(
        "clinical", description="prompt template, or a file of your own (my.jinja with {{ note }}, {{ question }})"
    )
    context: Context = Field("note", description="note: the record is in the prompt; closed_book: it is not")
    images: Images = Field(
        "use", description="images of records: use (needs a vision-language model), or ignore: text alone"
    )
    long_notes: LongNotes = Field(
        "refuse", description="a note that takes more than 7/8 of max_length in a prompt: refuse, or cut its end"
    )
    trainable: str = Field(
        "all",
        description="all, lora[:RANK[:ALPHA[:names]]], layers:7, layers:5-7, through:7, or pattern:REGEX",
    )
    quantize: Literal["none", "nf4"] = Field(
        "none",
        description="nf4: the decoder layers' weights in 4 bits while a LoRA adapter is trained on them "
        "(bitsandbytes); the saved model has the rounded weights with the adapter in them",
    )
    lora_dropout: float = Field(0.0, ge=0, lt=1, description="dropout of a LoRA adapter's input")
    trust_remote_code: bool = Field(False, description="run code that comes with a hub model")
    validation: str | None = Field(
        None,
        description="data of the validation loss of each evaluated epoch, which training must not see: "
        "level=node of records (part=validation), or a fold of questions (holdout)",
    )
    select: Literal["last", "best"] = Field(
        "last", description="the epoch whose model is the run's; best: with the least validation loss"
    )
    stop_early: int = Field(
        0, ge=0, description="stop after this many epochs without a lower validation loss; 0: never"
    )
    watch: dict[str, Any] = Field(
        default_factory=dict,
        description="further measurements after each evaluated epoch (docs/benchmarks.md): --watch.part test, "
        "watch.prefix_tokens=50, ...",
    )
    seed: int = Field(0, description="seed of order, dropout and the tiny model's weights")
    tiny_width: int = Field(
        192, ge=16, le=8192, multiple_of=8, description="tiny model: width of the hidden states"
    )
    tiny_layers: int = Field(4, ge=1, le=512, description="tiny model: decoder layers")
    tiny_vocabulary: int = Field(
        2048, ge=300, le=1_000_000, description="tiny model: tokens in the vocabulary at most"
    )
    tiny_tokenizer: Literal["shared", "common", "own"] = Field(
        "shared",
        description="training texts of the tiny model's tokenizer. shared: all texts of the benchmark, even "
        "unseen ones, whose words are then single tokens; common: words of at least two subjects, so that no token "
        "belongs to one subject; own: a retrained model's without its forget set, so that measures counted in "
        "tokens are not comparable",
    )
    tiny_pixels: int = Field(
        64, ge=8, le=4096, description="tiny-vision: width and height to which images are scaled"
    )
    tiny_patch: int = Field(
        16, ge=2, le=4096, description="tiny-vision: width in pixels of the image patch behind one image token"
    )

    @model_validator(mode="after")
    def _quantized_weights_stay(self) -> TrainSettings:
        if self.quantize != "none":
            if self.trainable.partition(":")[0] != "lora":
                raise ValueError(
                    f"quantize={self.quantize}: weights in 4 bits are not trained. Set --trainable lora:16:64, or "
                    "leave --quantize out"
                )
            if self.sharding != "none":
                raise ValueError(f"quantize={self.quantize} cannot be combined with sharding={self.sharding}")
        return self

    @model_validator(mode="after")
    def _note_in_template(self) -> TrainSettings:
        if isinstance(self.template, PromptFile) and self.context == "note":
            self.template.check(["question", "note"])
        return self


class UnlearnSettings(EpochFields):
    """Make a trained model forget one split's forget set."""

    method: str = Field(description="a name from `medunlearn list methods`, or module:Class")
    split: str = Field(description="split of the benchmark, or an ad-hoc request level=node,node")
    arguments: dict[str, Any] = Field(default_factory=dict, description="the method's own settings")
    trainable: str = Field("default", description="default: the method's own choice; else as in train")
    train_on: Unlearned = Field(
        "both",
        description="items of the forget and retain sets: records, questions, both; direct: both, and plain "
        "questions about single facts, for methods whose retain term compares with the target",
    )
    relatives: float = Field(
        0.0,
        ge=0,
        lt=1,
        description="least share of the retain set's sequences that is about subjects who share an identifier with "
        "the forget set (kin, twins); repeated as often as that takes, for methods as above",
    )
    chunks: int = Field(
        1, ge=1, description="parts of the forget set that are forgotten one after the other, each for all epochs"
    )
    retain_ratio: int = Field(
        1, ge=1, description="sequences of the retain set in a step for each of the forget set; at most a pass's"
    )
    template: Template | None = Field(None, description="prompt template or file; left out: the target model's")
    context: Context | None = Field(None, description="context mode; left out: the target model's")
    long_notes: LongNotes | None = Field(None, description="as in train; left out: the target model's")
    select: Literal["last", "best"] = Field(
        "last", description="the epoch whose model is the run's; best: of utility and forgetting together"
    )
    stop_early: int = Field(
        0, ge=0, description="stop after this many epochs without a better one by the rule of select=best; 0: never"
    )
    stop: Literal["none", "ranks"] = Field(
        "none",
        description="ranks: measure after each epoch (or as --evaluate-every says) and end once the forgotten "
        "patients' facts rank like a stranger's and utility is not below --stop-floor, where it may recover by the "
        "retain set first; a method without a retain term ends at that floor. The run's model is the best epoch by "
        "that rule",
    )
    stop_floor: float = Field(
        0.95,
        gt=0,
        le=1,
        description="least probability of a token of retained questions, as a share of the target's, for --stop",
    )
    other_texts: bool = Field(
        False, description="also unlearn texts that the target was not trained on; the report says so"
    )
    keep_gb: float = Field(
        4.0, ge=0, description="GB of disk cache for values that do not change between epochs; 0: none"
    )
    seed: int = Field(0, description="seed of order and dropout")

    @model_validator(mode="before")
    @classmethod
    def _stop_after_each_epoch(cls, values: Any) -> Any:
        """A rule that ends a run is asked after each epoch, unless the settings say otherwise."""
        if isinstance(values, Mapping) and values.get("stop", "none") != "none":
            return {"evaluate_every": 1, **values}
        return values
