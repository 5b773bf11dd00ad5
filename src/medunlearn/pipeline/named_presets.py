"""Presets: the settings of a paper or of a size of model under a name, for `train` and `unlearn`.

A preset is defaults and nothing more: every key that is given beside ``preset=NAME`` wins over it. What it stands
for is written into the run's record key by key, so that a run needs no preset to be understood or repeated.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from medunlearn.config import (
    TINY,
    TINY_METHODS,
    TINY_UNLEARN,
    TINY_VISION,
    TINY_VISION_METHODS,
    TINY_VISION_UNLEARN,
)
from medunlearn.errors import UnknownNameError
from medunlearn.papers.lume.build import LUME_UNLEARN

Values = Mapping[str, Any]


@dataclass(frozen=True)
class Preset:
    """Defaults for a model of some size.

    Attributes:
        about: one sentence: for what, and what it rests on.
        train: settings of `train`.
        unlearn: settings of `unlearn`.
        methods: method -> its own settings of `unlearn`; ``arguments`` are the method's hyperparameters.
        processes: for how many devices the batch is cut; fewer or more change no number.
    """

    about: str
    train: Values
    unlearn: Values
    methods: Mapping[str, Values] = field(default_factory=dict)
    processes: int = 1

    def for_method(self, method: str) -> dict[str, Any]:
        """Settings of `unlearn` for one method."""
        return {**self.unlearn, **self.methods.get(method, {})}


# AMNESIA, Table 6: the same in pretraining and fine-tuning but for the epochs. 64 is 2 sequences a device, 4 times
# accumulated, on 8 devices. A note may take more than 2,048 tokens (4,216 in Table 1): prompts leave its end out.
TABLE_6: Values = {
    "lr": 2e-5,
    "schedule": "cosine",
    "warmup_ratio": 0.03,
    "weight_decay": 0.0,
    "batch_size": 64,
    "max_length": 2048,
    "long_notes": "cut",
    "train_on": "both",
}
# AMNESIA, Appendix D: notes are packed to rows of the longest sequence; questions stand in its clinical template.
AMNESIA_TRAIN: Values = {
    **TABLE_6,
    "pretrain_epochs": 1,
    "epochs": 3,
    "pack_records": True,
    "template": "clinical",
    "context": "note",
}
# AMNESIA gives three epochs (Appendix D) and layer 7 (Section 4.2) for unlearning; the rest is as in fine-tuning.
AMNESIA_UNLEARN: Values = {**TABLE_6, "epochs": 3, "template": "clinical", "context": "note"}
AMNESIA_METHODS: Mapping[str, Values] = {
    "graddiff": {"trainable": "layers:7"},
    "kl_min": {"trainable": "layers:7"},
    "simnpo": {"trainable": "layers:7"},
    # What RMU trains follows from the layer that it steers (methods/rmu.py).
    "rmu": {"arguments": {"layer": 7}},
}

EIGHT_DEVICES: Values = {
    "micro_batch_size": 2,
    "precision": "bf16",
    "gradient_checkpointing": True,
    "sharding": "fsdp2",
}
ONE_DEVICE: Values = {"micro_batch_size": 2, "precision": "bf16", "gradient_checkpointing": True}
SMALL_DEVICE: Values = {"micro_batch_size": 8, "precision": "bf16"}

# Memorization in Large Language Models in Medicine, Sections 3.3 and 4.3. The model was quantized to 4 bits there
# and is not here; schedule, warm-up, template, number of probes and what the loss counts are not said there.
DIAGNOSIS_TRAIN: Values = {
    "pretrain_epochs": 0,
    "epochs": 10,
    "trainable": "lora:64",
    "lora_dropout": 0.05,
    "lr": 1e-6,
    "weight_decay": 0.1,
    "batch_size": 16,
    "schedule": "constant",
    "warmup_ratio": 0.0,
    "template": "chat",
    "context": "note",
    "long_notes": "cut",
    "evaluate_every": 1,
    "validation": "part=validation",
    "select": "best",
    "stop_early": 2,
    "watch": {"part": "test", "prefix_tokens": 50, "new_tokens": 500},
}

DIAGNOSIS_TINY: Values = {
    "trainable": "all",
    "lora_dropout": 0.0,
    "lr": 4e-3,
    "weight_decay": 0.0,
    "batch_size": 8,
    "micro_batch_size": 8,
    "max_length": 1024,
    "template": "plain",
    "stop_early": 0,
    "watch": {"part": "test", "prefix_tokens": 50, "new_tokens": 100},
    "tiny_width": 96,
    "tiny_layers": 2,
}


def _amnesia(about: str, machine: Values, processes: int = 1) -> Preset:
    """AMNESIA's recipe, cut for a machine; only settings that change no number differ."""
    return Preset(
        about, {**AMNESIA_TRAIN, **machine}, {**AMNESIA_UNLEARN, **machine}, AMNESIA_METHODS, processes=processes
    )


# LUME's Section 3 gives epochs, rate and batch of unlearning; how the models were fine-tuned it does not tell.
LUME_TRAIN: Values = {
    "lr": 1e-5,
    "batch_size": 32,
    "epochs": 10,
    "train_on": "both",
    "template": "plain",
    "context": "closed_book",
}
LUME_PAPER: Values = {key: value for key, value in LUME_UNLEARN.items() if key != "methods"}

# What memorizes 30 released documents on two cores. One rate for all methods, as in the paper, and so not the best
# of each: benchmarks_perf/lume_rates.py looks for those.
LUME_TINY_TRAIN: Values = {
    **TINY,
    "tiny_width": 128,
    "tiny_layers": 3,
    "epochs": 30,
    "train_on": "both",
}
LUME_TINY_UNLEARN: Values = {
    **TINY_UNLEARN,
    "lr": 3e-4,
    "epochs": 10,
    "train_on": "both",
    "evaluate_every": 1,
}

# The published finetune.py of MedForget (the paper gives no settings but NPO's beta): LoRA of rank and alpha 16 on
# the language model's linear maps, 2 sequences in a pass, 4 passes a step, linear decay without warm-up. Neither
# has settings of unlearning; its rate and epochs here are those of fine-tuning.
MEDFORGET_LOOP: Values = {
    **ONE_DEVICE,
    "weights": "bf16",
    "trainable": "lora:16:16",
    "epochs": 3,
    "lr": 1e-4,
    "batch_size": 8,
    "schedule": "linear",
    "warmup_ratio": 0.0,
    "clip": 1.0,
    "max_length": 2048,
    "train_on": "questions",
    "template": "chat",
    "context": "closed_book",
}

PRESETS: Mapping[str, Preset] = {
    "amnesia-8b": _amnesia(
        "AMNESIA's recipe (Table 6, Appendix D, Section 4.2) for LLaMA-3-8B on 8 devices under torchrun; not run "
        "here at that size.",
        EIGHT_DEVICES,
        processes=8,
    ),
    "amnesia-1b": _amnesia(
        "AMNESIA's recipe for a model of about a billion parameters on one device; the paper has none of that "
        "size, so nothing is tuned.",
        ONE_DEVICE,
    ),
    "amnesia-100m": _amnesia(
        "AMNESIA's recipe for a model of about a hundred million parameters on one small device; nothing is tuned.",
        SMALL_DEVICE,
    ),
    "lume-7b": Preset(
        "LUME's Section 3 for OLMo-7B-0724-Instruct-hf: GA, GD, KL, NPO and NGDiff, 10 epochs, rate 1e-5, batch "
        "32; not run here at that size.",
        {**LUME_TRAIN, **EIGHT_DEVICES},
        {**LUME_PAPER, **EIGHT_DEVICES},
        processes=8,
    ),
    "lume-1b": Preset(
        "The same for OLMo-1B-0724-hf on one device; the paper releases that model and shows no numbers of it.",
        {**LUME_TRAIN, **ONE_DEVICE},
        {**LUME_PAPER, **ONE_DEVICE},
    ),
    "lume-tiny": Preset(
        "LUME's experiment with a tiny model on 30 of the released documents; one rate for all methods, which was "
        "not searched (benchmarks_perf/lume_rates.py would).",
        LUME_TINY_TRAIN,
        LUME_TINY_UNLEARN,
    ),
    "lingshu-7b": Preset(
        "MedForget on Lingshu-7B: LoRA as in the authors' finetune.py, NPO with the paper's beta; unlearning at "
        "the rate of fine-tuning, since neither says one; not run here at that size.",
        {**MEDFORGET_LOOP, "pretrain_epochs": 0, "lora_dropout": 0.05},
        MEDFORGET_LOOP,
        {"npo": {"arguments": {"beta": 0.9}}},
    ),
    "diagnosis": Preset(
        "Fine-tuning on diagnoses (Memorization in Large Language Models in Medicine, Section 3.3): LoRA on a "
        "model of 8 billion parameters, early stopping, and after each epoch what Figure 7 shows; not run here at "
        "that size.",
        {**DIAGNOSIS_TRAIN, **ONE_DEVICE, "weights": "bf16"},
        {},
    ),
    "diagnosis-tiny": Preset(
        "The same for the tiny model on an invented hospital, at a rate at which it learns in ten epochs.",
        {**DIAGNOSIS_TRAIN, **DIAGNOSIS_TINY},
        TINY_UNLEARN,
        TINY_METHODS,
    ),
    "tiny": Preset(
        "What memorizes an invented hospital of 100 patients on two cores (benchmarks_perf/tiny_memorizes.py, "
        "tiny_rates.py); taken for model=tiny without being named.",
        TINY,
        TINY_UNLEARN,
        TINY_METHODS,
    ),
    "tiny-vision": Preset(
        "What memorizes an invented hospital of 8 patients with 32 drawn X-rays on two cores; NPO's beta is "
        "MedForget's (Appendix A.1); taken for model=tiny-vision without being named.",
        TINY_VISION,
        TINY_VISION_UNLEARN,
        TINY_VISION_METHODS,
    ),
}


def preset(name: str) -> Preset:
    """A preset by its name.

    Raises:
        UnknownNameError: says the nearest right name.
    """
    if name not in PRESETS:
        raise UnknownNameError("preset", name, PRESETS)
    return PRESETS[name]
