"""Closed formulas for FLOPs, peak memory and disk of forward passes, training and decoding.

A multiply-add is two FLOPs; only matrix products and attention count.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

from medunlearn.study.cost.shape import Shape

Precision = Literal["fp32", "bf16"]
BYTES = {"fp32": 4, "bf16": 2}


@dataclass(frozen=True)
class Load:
    """Tokens that pass through a model.

    Attributes:
        sequences: number of sequences.
        tokens: without padding; text that sequences share counts once per micro-batch.
        pairs: query-key pairs of attention: the sum of squared lengths, and with shared text of
            ``own * (shared + own)`` per branch and ``shared ** 2`` once.
        read: positions at which logits are computed.
        longest: tokens of the longest sequence.
        shared: leading tokens of the longest sequence that ``family`` sequences share.
    """

    sequences: float = 0
    tokens: float = 0
    pairs: float = 0
    read: float = 0
    longest: float = 0
    shared: float = 0
    family: float = 1

    @staticmethod
    def of(lengths: list[int], read: float | None = None) -> Load:
        """Load of separate sequences; all positions are read by default."""
        tokens, pairs = sum(lengths), sum(length**2 for length in lengths)
        return Load(len(lengths), tokens, pairs, tokens if read is None else read, max(lengths, default=0))

    def __add__(self, other: Load) -> Load:
        long = max(self, other, key=lambda load: load.longest)
        sums = {
            name: getattr(self, name) + getattr(other, name) for name in ("sequences", "tokens", "pairs", "read")
        }
        return replace(long, **sums)

    def times(self, number: float) -> Load:
        sums = {name: getattr(self, name) * number for name in ("sequences", "tokens", "pairs", "read")}
        return replace(self, **sums)

    def batch(self, size: int) -> Load:
        """The largest batch of at most ``size`` sequences, which are as long as the longest."""
        count = min(size, self.sequences)
        own, families = self.longest - self.shared, -(-count // self.family)
        tokens = min(self.tokens, families * self.shared + count * own)
        pairs = families * self.shared**2 + count * own * self.longest
        read = min(tokens, count * self.read / max(self.sequences, 1))
        return replace(self, sequences=count, tokens=tokens, pairs=pairs, read=read)


@dataclass(frozen=True)
class Memory:
    """Peak bytes of tensors on a device, by part, per process.

    Activations include all tensors of a pass; the cache is that of keys and values of answers decoded together.
    """

    weights: float = 0
    gradients: float = 0
    moments: float = 0
    reference: float = 0
    activations: float = 0
    cache: float = 0

    @property
    def total(self) -> float:
        return sum(vars(self).values())


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
    steps: int = 0

    def __add__(self, other: Cost) -> Cost:
        names = ("flops", "disk", "tokens", "generated", "steps")
        sums = {name: getattr(self, name) + getattr(other, name) for name in names}
        return Cost(memory=max(self.memory, other.memory, key=lambda memory: memory.total), **sums)

    def times(self, number: float) -> Cost:
        """The cost of so many such stages, one after the other."""
        sums = {name: getattr(self, name) * number for name in ("flops", "disk", "tokens", "generated")}
        return replace(self, steps=round(self.steps * number), **sums)


def forward(shape: Shape, load: Load, batch: Load, *, weights: Precision = "fp32") -> Cost:
    """Cost of passes without gradients that read likelihoods, such as an evaluation's.

    Args:
        load: everything that is passed.
        batch: the largest batch, :meth:`Load.batch`.
    """
    flops = _pass(shape, load, shape.layers) + 2 * shape.embedding * load.read
    return Cost(flops, Memory(weights=shape.parameters * BYTES[weights]), 0, load.tokens)


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
    terms: int = 1,
    offload: bool = False,
    sharded: bool = False,
    processes: int = 1,
) -> Cost:
    """Cost of training or unlearning.

    Args:
        load: everything that is passed in all steps and on all sides.
        batch: the largest micro-batch, summed over its sides.
        passes: micro-batches per step and process.
        trainable: as in the settings of `train`.
        reference: outputs of the model before training: none, cached before the first step (whose pass is
            not counted here), or a pass of the reference in each step.
        terms: gradients that a method weighs against each other.
        offload: moments in the host's memory.
        sharded: decoder layers divided among ``processes``.
    """
    count = shape.parameters
    return Cost(
        3 * forward(shape, load, batch).flops, Memory(count * 4, count * 4, count * 8), 0, load.tokens, 0, steps
    )


def decoding(shape: Shape, prompts: Load, batch: Load, new_tokens: float, *, weights: Precision = "fp32") -> Cost:
    """Cost of decoding at most ``new_tokens`` tokens per prompt.

    Args:
        prompts: prompts with shared prefixes once per batch.
        batch: the largest batch of prompts, :meth:`Load.batch`.
    """
    length = prompts.longest + new_tokens / 2
    flops = (
        prompts.sequences * new_tokens * (2 * (shape.text_parameters) + 4 * shape.layers * shape.attention * length)
    )
    return forward(shape, replace(prompts, read=prompts.sequences), batch) + Cost(
        flops, generated=prompts.sequences * new_tokens
    )


def _pass(shape: Shape, load: Load, layers: int) -> float:
    """FLOPs of a forward pass through some layers, the last of which runs its MLP at the positions read."""
    mlp = 2 * shape.experts_used * shape.mlp_matrices
    attention = 2 * shape.attention_matrices * load.tokens + 4 * shape.attention * load.pairs
    return layers * attention + mlp * ((layers - 1) * load.tokens + min(load.read, load.tokens))
