"""Bytes that a process holds at its peak, by part, as autograd and the engine keep them.

Gradients and activations share their peak: at the end of the forward pass there are all activations and the earlier
micro-batches' gradients, at the end of the backward pass all gradients.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, NamedTuple

from medunlearn.models.shape import Shape

if TYPE_CHECKING:
    from medunlearn.study.cost.formulas import Load

Precision = Literal["fp32", "bf16"]
BYTES = {"fp32": 4, "bf16": 2}
PIECE = 3 * (1 << 22) * 4
"""Bytes of logits and their derivatives that the head makes at a time (:mod:`medunlearn.models.head`)."""
ACTIVATIONS = {"relu": 1, "gelu_new": 5, "gelu_fast": 5}
"""Tensors of the MLP's width that an activation function without a gate saves; 2 for all others."""
LIBRARIES, ADAPTERS, KERNELS = 442 * 2**20, 55 * 2**20, 75 * 2**20
"""Bytes of Python, torch and transformers; of PEFT; of bf16 products compiled for a CPU."""
RETAINED = {(4, False): 1.1, (4, True): 2.0, (2, False): 1.5, (2, True): 1.5}
"""Bytes of the products' type, with adapters or not -> bytes that the C library retains per saved byte after some
steps, since batches of other lengths do not fit into the gaps. Measured like the libraries, on Linux
(benchmarks_perf/cost_formulas.py); a small model's vary by a third."""


@dataclass(frozen=True)
class Memory:
    """Peak bytes of tensors on a device, by part, per process.

    Activations include all tensors of a pass; the cache is that of keys and values of answers decoded together. A
    CPU's allocator also retains freed memory, where further libraries are counted too.
    """

    weights: float = 0
    gradients: float = 0
    moments: float = 0
    reference: float = 0
    activations: float = 0
    cache: float = 0
    retained: float = 0

    @property
    def total(self) -> float:
        """Bytes of all tensors."""
        return float(sum(vars(self).values())) - self.retained

    @property
    def process(self) -> float:
        """Resident bytes of a process on a CPU."""
        return LIBRARIES + self.total + self.retained


class TrainedPart(NamedTuple):
    """Trained parameters: those of ``layers`` layers from ``first`` on, or an adapter of a ``rank``."""

    parameters: int
    first: int
    layers: int
    head: bool = False
    rank: int = 0


def trained_part(shape: Shape, trainable: str) -> TrainedPart:
    """The part of a model that a setting of ``trainable`` trains; a pattern counts as all."""
    form, value, *_ = f"{trainable}:".split(":")
    if form == "lora":
        rank = int(value) if value.isdigit() else 16
        return TrainedPart(shape.layers * rank * adapter_width(shape), 0, 0, rank=rank)
    if form == "layers":
        spans = [[int(end) for end in part.split("-")] for part in value.split(",")]
        # The run refuses layers that the model has not.
        layers = [layer for layer in range(shape.layers) if any(span[0] <= layer <= span[-1] for span in spans)]
        return TrainedPart(len(layers) * shape.layer_parameters, min(layers, default=0), len(layers))
    if form == "through":
        below = int(value) + 1
        return TrainedPart(below * shape.layer_parameters + shape.embedding, 0, below, shape.tied)
    return TrainedPart(shape.parameters, 0, shape.layers, head=True)


def adapter_width(shape: Shape) -> int:
    """Inputs and outputs of all products of a layer: parameters of its adapters of rank 1."""
    attention = 2 * shape.attention + 2 * shape.keys + (2 if shape.fused else 4) * shape.hidden
    return attention + (3 if shape.gated else 2) * (shape.hidden + shape.ffn)


def transient_bytes(shape: Shape, load: Load, size: int) -> float:
    """Bytes of the tensors of the layer in work, and of the head's inputs and piece of logits.

    Attention has queries, outputs, and keys and values before and after they are repeated for the query heads. It
    takes families one after the other, and gives each branch keys and values of the shared text.
    """
    mlp = (3 if shape.gated else 2) * shape.ffn * load.tokens
    attention = (4 * shape.attention + 2 * shape.keys) * load.tokens + 2 * shape.attention * load.branched
    layer = (2 * shape.hidden * load.tokens + max(mlp, attention)) * size
    return layer + load.read * shape.hidden * 4 + min(PIECE, 3 * 4 * load.read * shape.vocabulary)


def saved_bytes(
    shape: Shape, batch: Load, part: TrainedPart, weights: Precision, precision: Precision, *, checkpointing: bool
) -> float:
    """Bytes at the end of a forward pass: of saved tensors, the head's gradient, autocast's copies of weights."""
    size = 2 if "bf16" in (weights, precision) else 4
    top, layer = shape.layers - part.first, _layer_bytes(shape, batch, part, size)
    saved = transient_bytes(shape, batch, 4) + (4 * shape.embedding if part.head else 0)
    if size < BYTES[weights]:
        saved += size * (shape.layers * (shape.attention_matrices + shape.mlp_matrices) + shape.embedding)
    if checkpointing:
        return saved + top * BYTES[weights] * shape.hidden * batch.tokens + layer
    # The last MLP runs where its output is read.
    unread = _mlp_tensors(shape) * shape.ffn * size * max(batch.tokens - batch.read, 0)
    return saved + top * layer - unread


def retained_bytes(saved: float, size: int, *, adapters: bool = False) -> float:
    """Bytes beside tensors and the usual libraries on a CPU.

    Args:
        saved: bytes of a pass.
        size: bytes of the products' type.
    """
    return RETAINED[size, adapters] * saved + ADAPTERS * adapters + KERNELS * (size == 2)


def _layer_bytes(shape: Shape, batch: Load, part: TrainedPart, size: int) -> float:
    """Bytes that autograd saves of a layer.

    The sums behind attention and MLP, and RMS norms of trained weight, are fp32. The inputs of products have the
    products' type; autocast makes a copy for each product. Attention saves queries, keys and values of all query
    heads, its output, and that as the next input; rotary positions leave the fused product behind.
    """
    inputs = 2 if size == 4 else (1 if shape.fused else 3) + (2 if shape.gated else 1)
    norms = 8 + (0 if shape.layer_norm or part.rank else 8) + inputs * size + (2 * size if shape.dropout else 0)
    attention = 5 + (2 if shape.fused and not shape.attention_dropout else 0)
    mlp = _mlp_tensors(shape) * shape.experts_used
    adapters = 4 * part.rank * (7 if shape.gated else 4)
    token = norms * shape.hidden + size * (attention * shape.attention + mlp * shape.ffn) + adapters
    # Branches of shared text have its keys and values each.
    shared = 2 * shape.attention * size * (batch.whole - batch.tokens)
    # Dropout of attention weights needs them, in fp32 beside their type.
    scores = (8 if size == 4 else 12) * shape.heads * batch.pairs if shape.attention_dropout else 0
    return token * batch.tokens + shared + scores


def _mlp_tensors(shape: Shape) -> int:
    return 4 if shape.gated else ACTIVATIONS.get(shape.activation, 2)


def per_rank(memory: Memory, shape: Shape, processes: int, size: int) -> Memory:
    """Memory of one of several processes that divide the layers; embedding, head and a gathered layer are whole.

    Args:
        size: bytes of a gathered parameter.
    """
    layers = shape.layers * shape.layer_parameters / shape.parameters
    share = 1 - layers + layers / processes
    shares = {name: getattr(memory, name) * share for name in ("gradients", "moments", "reference")}
    return replace(memory, weights=memory.weights * share + 2 * shape.layer_parameters * size, **shares)
