"""Remaining work of a stage, and its memory by part."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from medunlearn.models.decoder import decoder_layers
from medunlearn.training.optimizers import QUANTIZED

UNQUANTIZED = 4096
"""Smaller tensors keep 32-bit moments where the others have 8 bits (bitsandbytes)."""


@dataclass(frozen=True)
class Memory:
    """Peak bytes of a stage on its device, per process.

    The reference is a copy of the model before unlearning, activations include all tensors of a pass, and the cache
    is that of keys and values of answers decoded together.
    """

    weights: int = 0
    gradients: int = 0
    moments: int = 0
    reference: int = 0
    activations: int = 0
    cache: int = 0

    @property
    def total(self) -> int:
        return sum(vars(self).values())


@dataclass(frozen=True)
class Work:
    """Remaining work of a stage, summed over its processes.

    Attributes:
        tokens: number of tokens run through the model in training or scoring, without padding; shared text counts
            once per micro-batch.
        generated: most tokens to decode.
        memory: None if nothing is left to do.
        kept: bytes on disk of cached states, deleted at the end of the stage.
    """

    tokens: int = 0
    generated: int = 0
    flops: float = 0.0
    memory: Memory | None = None
    steps: int = 0
    kept: int = 0

    def __add__(self, other: Work) -> Work:
        memories = [work.memory for work in (self, other) if work.memory is not None]
        return Work(
            self.tokens + other.tokens,
            self.generated + other.generated,
            self.flops + other.flops,
            max(memories, key=lambda memory: memory.total, default=None),
            self.steps + other.steps,
            max(self.kept, other.kept),
        )

    def times(self, share: float) -> Work:
        """The work times a number, with the memory of one device."""
        counts = {name: round(getattr(self, name) * share) for name in ("tokens", "generated", "steps", "kept")}
        return replace(self, flops=self.flops * share, **counts)


def nbytes(model: Any, *, trained: bool = False) -> int:
    """Bytes of a model's parameters, or of its trained ones; tied ones once."""
    return sum(tensor.nbytes for tensor in model.parameters() if tensor.requires_grad or not trained)


def moments(model: Any, optimizer: str) -> int:
    """Bytes of the optimizer's moments; AdamW also has a counter per tensor."""
    tensors = [tensor for tensor in model.parameters() if tensor.requires_grad]
    if optimizer == "sgd":
        return 0
    if optimizer in QUANTIZED:
        return sum(2 * tensor.numel() * (1 if tensor.numel() >= UNQUANTIZED else 4) for tensor in tensors)
    return sum(2 * tensor.nbytes + 4 for tensor in tensors)


def cache_bytes(model: Any) -> int:
    """Bytes of one token's keys and values."""
    config = model.config.get_text_config()
    heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    width = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    return 2 * int(next(model.parameters()).element_size() * config.num_hidden_layers * heads * width)


def per_rank_memory(memory: Memory, model: Any, processes: int, *, halved: bool) -> Memory:
    """Memory per FSDP rank, computed from that of one process with the whole model.

    Weights, gradients, moments and reference of the decoder layers are sharded. Embedding, head and last norm are
    whole on every rank, and so is the one gathered layer of a pass, with its gradient.

    Args:
        halved: whether layers are gathered in bfloat16.
    """
    layers, trained = list(decoder_layers(model)), nbytes(model, trained=True)
    share = sum(map(nbytes, layers)) / nbytes(model)
    trained_share = sum(nbytes(layer, trained=True) for layer in layers) / max(trained, 1)
    gathered = max(nbytes(layer) + nbytes(layer, trained=True) for layer in layers)
    if halved and nbytes(model) == 4 * sum(tensor.numel() for tensor in model.parameters()):
        gathered //= 2

    def per_rank(size: int, sharded: float) -> int:
        return round(size * (1 - sharded + sharded / processes))

    return replace(
        memory,
        weights=per_rank(memory.weights, share) + gathered,
        gradients=per_rank(memory.gradients, trained_share),
        moments=per_rank(memory.moments, trained_share),
        # Where all reference outputs are cached, only the head was copied, which is whole.
        reference=per_rank(memory.reference, trained_share if memory.reference == trained else 0),
    )
