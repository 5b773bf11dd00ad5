"""Closed formulas for FLOPs, peak memory and disk of forward passes, training and decoding.

A multiply-add is two FLOPs; only matrix products and attention count.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

from medunlearn.models.shape import Shape, Tower
from medunlearn.study.cost.memory import (
    BYTES,
    Memory,
    Precision,
    TrainedPart,
    adapter_width,
    per_rank,
    retained_bytes,
    saved_bytes,
    trained_part,
    transient_bytes,
)

_COUNTED = ("flops", "disk", "tokens", "generated", "steps")


@dataclass(frozen=True)
class Load:
    """Tokens that pass through a model.

    Attributes:
        tokens: without padding; text that sequences share counts once per micro-batch.
        pairs: query-key pairs of attention: the sum of squared lengths, and with shared text of
            ``own * (shared + own)`` per branch and ``shared ** 2`` once.
        read: positions at which logits, or the output of the last layer that is run, are computed.
        whole: tokens with shared text counted in every sequence.
        branched: of these, those of the largest family with shared text.
    """

    sequences: float = 0
    tokens: float = 0
    pairs: float = 0
    read: float = 0
    whole: float = 0
    branched: float = 0

    @staticmethod
    def of(lengths: Sequence[int], read: float | None = None) -> Load:
        """Load of separate sequences; all positions are read by default."""
        tokens, pairs = sum(lengths), sum(length**2 for length in lengths)
        return Load(len(lengths), tokens, pairs, tokens if read is None else read, tokens)

    def __add__(self, other: Load) -> Load:
        sums = Load(*map(operator.add, vars(self).values(), vars(other).values()))
        return replace(sums, branched=max(self.branched, other.branched))

    def times(self, number: float) -> Load:
        return replace(Load(*(number * value for value in vars(self).values())), branched=self.branched)


@dataclass(frozen=True)
class Cost:
    """Cost of a stage, summed over its processes; memory is the peak of one.

    Attributes:
        tokens: number of tokens passed through the model.
        generated: most tokens to decode.
        disk: bytes of results.
    """

    flops: float = 0
    memory: Memory = field(default_factory=Memory)
    disk: float = 0
    tokens: float = 0
    generated: float = 0
    steps: float = 0

    def __add__(self, other: Cost) -> Cost:
        sums = {name: getattr(self, name) + getattr(other, name) for name in _COUNTED}
        return Cost(memory=max(self.memory, other.memory, key=lambda memory: memory.total), **sums)

    def times(self, number: float) -> Cost:
        """The cost of so many such stages, one after the other."""
        return replace(self, **{name: getattr(self, name) * number for name in _COUNTED})

    @property
    def scratch(self) -> float:
        """Bytes of a training's checkpoints: two, each with what is trained and the optimizer's moments."""
        return 2 * (self.memory.gradients + self.memory.moments)

    def facts(self) -> dict[str, Any]:
        """The cost as JSON, without its disk; no memory if there is nothing to do."""
        facts = asdict(self) | {"memory": asdict(self.memory) if self.memory.total else None}
        return {name: value for name, value in facts.items() if name != "disk"}


def forward(
    shape: Shape, load: Load, batch: Load, *, weights: Precision = "fp32", depth: int | None = None
) -> Cost:
    """Cost of passes without gradients that read likelihoods, such as an evaluation's.

    Args:
        load: everything that is passed.
        batch: the largest batch.
        depth: layers that are run; None: all.
    """
    layers, size = depth or shape.layers, BYTES[weights]
    transient = transient_bytes(shape, batch, size)
    memory = Memory(shape.parameters * size, activations=transient, retained=retained_bytes(transient, size))
    flops = _products(shape, load, layers) + _scores(shape, load, layers) + _head(shape, load)
    return Cost(flops, memory, tokens=load.tokens)


def training(
    shape: Shape,
    load: Load,
    batch: Load,
    *,
    steps: int = 1,
    passes: int = 1,
    trainable: str = "all",
    optimizer: str = "adamw",
    weights: Precision = "fp32",
    precision: Precision = "fp32",
    checkpointing: bool = False,
    reference: Literal["none", "cached", "pass"] = "none",
    reference_load: Load | None = None,
    terms: int = 1,
    offload: bool = False,
    sharded: bool = False,
    processes: int = 1,
    depth: int | None = None,
) -> Cost:
    """Cost of training or unlearning.

    Args:
        load: everything that is passed in all steps and on all sides.
        batch: the largest micro-batch, summed over its sides.
        passes: micro-batches per step and process.
        trainable: as in the settings of `train`; a pattern counts as all.
        reference: outputs of the model before training and of frozen layers: none, cached before the first step, or
            computed in each step.
        reference_load: what passes for that.
        terms: number of gradients that a method weighs against each other.
        offload: moments in a GPU's host.
        sharded: decoder layers divided among ``processes``.
        depth: layers that are run, without the head; None: all, and the head.
    """
    run = shape if depth is None else replace(shape, layers=min(depth, shape.layers), vocabulary=0)
    part, run_part = trained_part(shape, trainable), trained_part(run, trainable)
    flops = _training_flops(run, load, run_part, checkpointing=checkpointing, cached=reference == "cached")
    if reference_load is not None:
        flops += forward(run, reference_load, reference_load).flops
    size = 4 if part.rank else BYTES[weights]
    trained, head = part.parameters * size, shape.embedding * size if part.head else 0
    activations = saved = saved_bytes(run, batch, run_part, weights, precision, checkpointing=checkpointing)
    if passes == 1:
        # Gradients take the place of activations, layer by layer; that of a tied embedding is there twice.
        activations = max(activations - trained * terms, head if depth is None else 0)
    memory = Memory(
        weights=shape.parameters * BYTES[weights] + (trained if part.rank else 0),
        gradients=trained * terms,
        moments=0 if offload else part.parameters * {"sgd": 0, "adamw": 2 * size}.get(optimizer, 2),
        reference={"none": 0, "cached": head, "pass": 0 if part.rank else trained}[reference],
        activations=activations,
        retained=retained_bytes(saved, min(BYTES[weights], BYTES[precision]), adapters=part.rank > 0),
    )
    if sharded:
        memory = per_rank(memory, shape, processes, BYTES["bf16" if precision == "bf16" else weights])
    return Cost(flops, memory, min(trained, shape.parameters * BYTES[weights]), load.tokens, steps=steps)


def decoding(shape: Shape, prompts: Load, batch: Load, new_tokens: float, *, weights: Precision = "fp32") -> Cost:
    """Cost of decoding at most ``new_tokens`` tokens per prompt.

    Args:
        prompts: prompts with shared prefixes once per batch.
        batch: the largest batch of prompts.
    """
    generated = prompts.sequences * new_tokens
    length = prompts.whole / max(prompts.sequences, 1) + new_tokens / 2
    token = forward(shape, Load(1, 1, length, 1), Load()).flops
    prompts, batch = (replace(load, read=load.sequences) for load in (prompts, batch))
    prompting = forward(shape, prompts, batch, weights=weights)
    # Of each token keys and values.
    cache = 2 * BYTES[weights] * shape.layers * shape.keys * (batch.tokens + batch.sequences * new_tokens)
    memory = replace(prompting.memory, cache=cache)
    return Cost(prompting.flops + generated * token, memory, tokens=prompts.tokens, generated=generated)


def image_flops(tower: Tower, tokens: float) -> float:
    """FLOPs of the tower for an image of so many picture tokens: two per weight and patch, and attention."""
    patches = tokens * tower.patches
    return 2.0 * tower.parameters * patches + 4.0 * tower.layers * tower.hidden * patches**2


def _products(shape: Shape, load: Load, layers: float, *, whole: bool = False) -> float:
    """FLOPs of the products with weights in some layers; the last MLP runs where logits are read, or ``whole``."""
    mlp = shape.experts_used * shape.mlp_matrices
    unread = 0 if whole else mlp * max(load.tokens - load.read, 0)
    return 2 * (layers * (shape.attention_matrices + mlp) * load.tokens - unread)


def _scores(shape: Shape, load: Load, layers: float) -> float:
    return 4 * layers * shape.attention * load.pairs


def _head(shape: Shape, load: Load) -> float:
    return 2 * shape.embedding * load.read


def _training_flops(shape: Shape, load: Load, part: TrainedPart, *, checkpointing: bool, cached: bool) -> float:
    """FLOPs of passes with gradients: products have one by the input and one by the weight.

    Fused attention computes its scores again in the backward pass, and so does a trained head its logits.
    """
    top = shape.layers - part.first
    products, scores = _products(shape, load, top, whole=checkpointing), _scores(shape, load, top)
    flops = products * (2 + part.layers / top) + scores * (3 if shape.attention_dropout else 3.5)
    flops += _head(shape, load) * (4 if part.head else 2)
    flops += 6 * part.rank * adapter_width(shape) * shape.layers * load.tokens
    if checkpointing:
        # Without dropout behind it, the last product of a layer is not needed again.
        last = 0 if shape.dropout else 2 * top * shape.hidden * shape.ffn * load.tokens
        flops += products - last + scores
    if part.first and not cached:
        flops += _products(shape, load, part.first, whole=True) + _scores(shape, load, part.first)
    return flops
