"""Closed formulas for FLOPs, peak memory and disk of forward passes, training and decoding.

A multiply-add is two FLOPs; only matrix products and attention count.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple

from medunlearn.study.cost.shape import Shape, Tower

Precision = Literal["fp32", "bf16"]
BYTES = {"fp32": 4, "bf16": 2}
LIBRARIES = 450 * 2**20
ALLOCATOR = 1.5
PIECE = 1 << 22
"""Logits that the head makes at a time (:mod:`medunlearn.models.head`)."""
ACTIVATIONS = {"relu": 1, "gelu_new": 5, "gelu_fast": 5}
"""Tensors of the MLP's width that an activation function without a gate saves; 2 for all others."""


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

    @property
    def process(self) -> float:
        """Resident bytes of a process on a CPU: libraries, and what the C library's allocator keeps of freed memory."""
        return LIBRARIES + self.total + (ALLOCATOR - 1) * self.activations


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
    flops = _products(shape, load, shape.layers) + _scores(shape, load, shape.layers) + _head(shape, load)
    memory = Memory(shape.parameters * BYTES[weights], activations=_transient(shape, batch, BYTES[weights]))
    return Cost(flops, memory, 0, load.tokens)


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
) -> Cost:
    """Cost of training or unlearning.

    Args:
        load: everything that is passed in all steps and on all sides.
        batch: the largest micro-batch, summed over its sides.
        passes: micro-batches per step and process.
        trainable: as in the settings of `train`; a pattern counts as all.
        reference: outputs of the model before training, and of frozen layers: none, cached before the first step, or
            computed in each step.
        reference_load: what the reference passes for that.
        terms: gradients that a method weighs against each other.
        offload: moments in a GPU's host.
        sharded: decoder layers divided among ``processes``.
    """
    part = trained_part(shape, trainable)
    flops = _training_flops(shape, load, part, checkpointing, reference == "cached")
    if reference_load is not None:
        flops += forward(shape, reference_load, reference_load).flops
    size = 4 if part.rank else BYTES[weights]
    gradients = part.parameters * size
    head_copy = shape.embedding * size if part.head else 0
    activations = _saved(shape, batch, part, weights, precision, checkpointing)
    if passes == 1:
        # Gradients take the place of activations, layer by layer.
        activations = max(activations - gradients * terms, head_copy)
    share = {"none": 0, "cached": head_copy, "pass": 0 if part.rank else gradients}
    memory = Memory(
        weights=shape.parameters * BYTES[weights] + (gradients if part.rank else 0),
        gradients=gradients * terms,
        moments=0 if offload else moments(part.parameters, size, optimizer),
        reference=share[reference],
        activations=activations,
    )
    disk = min(part.parameters * size, shape.parameters * BYTES[weights])
    if sharded:
        memory = _per_rank(memory, shape, processes, BYTES["bf16" if precision == "bf16" else weights])
    return Cost(flops, memory, disk, load.tokens, 0, steps)


def decoding(shape: Shape, prompts: Load, batch: Load, new_tokens: float, *, weights: Precision = "fp32") -> Cost:
    """Cost of decoding at most ``new_tokens`` tokens per prompt.

    Args:
        prompts: prompts with shared prefixes once per batch.
        batch: the largest batch of prompts, :meth:`Load.batch`.
    """
    one = Load(1, 1, prompts.longest + new_tokens / 2, 1)
    step = forward(shape, one, one, weights=weights)
    generated = prompts.sequences * new_tokens
    kept = (batch.tokens + batch.sequences * new_tokens) * cache_bytes(shape, weights)
    prompting = forward(shape, replace(prompts, read=prompts.sequences), batch, weights=weights)
    memory = replace(prompting.memory, cache=kept)
    return Cost(prompting.flops + generated * step.flops, memory, 0, prompts.tokens, generated)


def seeing(tower: Tower, tokens: float, images: float = 1) -> float:
    """FLOPs of the tower for images of so many picture tokens each."""
    patches = tokens * tower.patches
    return images * (2.0 * tower.parameters * patches + 4.0 * tower.layers * tower.hidden * patches**2)


def cache_bytes(shape: Shape, weights: Precision) -> int:
    """Bytes of one token's keys and values."""
    return 2 * BYTES[weights] * shape.layers * shape.kv_heads * shape.head_dim


def moments(parameters: float, size: int, optimizer: str) -> float:
    """Bytes of the optimizer's moments."""
    return parameters * {"sgd": 0, "adamw": 2 * size}.get(optimizer, 2)


class TrainedPart(NamedTuple):
    """Trained parameters: in the layers from ``first`` on, ``layers`` of them, in an adapter of a ``rank``."""

    parameters: int
    first: int
    layers: int
    head: bool
    rank: int = 0


def trained_part(shape: Shape, trainable: str) -> TrainedPart:
    """The part of a model that a setting of ``trainable`` trains."""
    form, _, value = trainable.partition(":")
    if form == "lora":
        rank = int(value.partition(":")[0] or 16) if value[:1].isdigit() or not value else 16
        return TrainedPart(shape.layers * rank * _adapted(shape), 0, 0, False, rank)
    if form == "layers":
        ends = [[int(end) for end in part.split("-")] for part in value.split(",")]
        chosen = {layer for part in ends for layer in range(part[0], part[-1] + 1)}
        return TrainedPart(len(chosen) * shape.layer_parameters, min(chosen), len(chosen), False)
    if form == "through":
        layers = int(value) + 1
        return TrainedPart(layers * shape.layer_parameters + shape.embedding, 0, layers, shape.tied)
    return TrainedPart(shape.parameters, 0, shape.layers, True)


def _adapted(shape: Shape) -> int:
    """Inputs and outputs of all products of a layer."""
    keys = shape.kv_heads * shape.head_dim
    inputs = 2 * shape.hidden + shape.attention if shape.fused else 4 * shape.hidden
    attention = (
        shape.attention + 2 * keys + shape.attention + (2 * shape.hidden if shape.fused else 4 * shape.hidden)
    )
    return attention + (3 if shape.gated else 2) * (shape.hidden + shape.ffn)


def _products(shape: Shape, load: Load, layers: float, *, whole: bool = False) -> float:
    """FLOPs of the products with weights in some layers, the last of which runs its MLP where logits are read."""
    mlp = shape.experts_used * shape.mlp_matrices
    saved = 0 if whole else mlp * max(load.tokens - load.read, 0)
    return 2 * (layers * (shape.attention_matrices + mlp) * load.tokens - saved)


def _scores(shape: Shape, load: Load, layers: float) -> float:
    """FLOPs of attention between tokens."""
    return 4 * layers * shape.attention * load.pairs


def _head(shape: Shape, load: Load) -> float:
    return 2 * shape.embedding * load.read


def _training_flops(shape: Shape, load: Load, part: TrainedPart, checkpointing: bool, cached: bool) -> float:
    """FLOPs of passes with gradients: products have one by the input and one by the weight.

    Fused attention computes its scores again in the backward pass, and so does a trained head its logits.
    """
    top = shape.layers - part.first
    products = _products(shape, load, top, whole=checkpointing)
    scores = _scores(shape, load, top)
    flops = products * (2 + part.layers / top) + scores * (3 if shape.attention_dropout else 3.5)
    flops += _head(shape, load) * (4 if part.head else 2)
    flops += 3 * 2 * part.rank * _adapted(shape) * shape.layers * load.tokens
    if checkpointing:
        # Without dropout behind it, the last product of a layer is not needed again.
        last = 0 if shape.dropout else 2 * top * shape.hidden * shape.ffn * load.tokens
        flops += products - last + scores
    if part.first and not cached:
        flops += _products(shape, load, part.first, whole=True) + _scores(shape, load, part.first)
    return flops


def _transient(shape: Shape, load: Load, size: int) -> float:
    """Bytes of the tensors of the layer in work, and of a piece of the head."""
    layer = (2 * shape.hidden + (3 if shape.gated else 2) * shape.ffn) * load.tokens * size
    return layer + min(PIECE, load.read * shape.vocabulary) * 4 * 3 + load.read * shape.hidden * 4


def _saved(
    shape: Shape, batch: Load, part: TrainedPart, weights: Precision, precision: Precision, checkpointing: bool
) -> float:
    """Bytes that autograd saves for the backward pass, and the copies of weights that autocast makes."""
    half = precision == "bf16" or weights == "bf16"
    top = shape.layers - part.first
    layer = _saved_by_layer(shape, batch, part, half)
    copies = (
        2 * (shape.layers * (shape.attention_matrices + shape.mlp_matrices) + shape.embedding)
        if (half and weights == "fp32")
        else 0
    )
    head = 4 * shape.embedding if part.head else 0
    inputs = 4 * shape.hidden * batch.tokens
    if checkpointing:
        return top * inputs + layer + copies + head + _transient(shape, batch, 4)
    unread = max(batch.tokens - batch.read, 0) * (4 if shape.gated else 2) * shape.ffn * (2 if half else 4)
    return top * layer - unread + copies + head + _transient(shape, batch, 4)


def _saved_by_layer(shape: Shape, batch: Load, part: TrainedPart, half: bool) -> float:
    """Bytes that a layer saves: norms and sums in fp32, inputs of products in their type."""
    size = 2 if half else 4
    rms = 0 if shape.layer_norm else 2 * (0 if part.rank else 4)
    inputs = 2 * size if not half else 2 * ((1 if shape.fused else 3) + (2 if shape.gated else 1))
    norms = shape.hidden * (8 + rms + inputs)
    rotated = 2 if shape.fused and shape.activation != "gelu_new" else 0
    attention = shape.attention * size * (5 + rotated)
    mlp = shape.ffn * size * (4 if shape.gated else ACTIVATIONS.get(shape.activation, 2))
    adapters = part.rank * 4 * (7 if shape.gated else 4)
    shared = batch.sequences * batch.shared if batch.family > 1 else 0
    weights = 2 * shape.heads * 4 * batch.pairs if shape.attention_dropout else 0
    noise = 2 * shape.hidden * size if shape.dropout else 0
    return (
        (norms + attention + mlp + adapters + noise) * batch.tokens + 2 * shape.attention * size * shared + weights
    )


def _per_rank(memory: Memory, shape: Shape, processes: int, size: int) -> Memory:
    """Memory of one of several processes that divide the layers; embedding, head and a gathered layer are whole."""
    layers = shape.layers * shape.layer_parameters / shape.parameters
    kept = 1 - layers + layers / processes
    shares = {name: getattr(memory, name) * kept for name in ("gradients", "moments", "reference")}
    return replace(memory, weights=memory.weights * kept + 2 * shape.layer_parameters * size, **shares)
