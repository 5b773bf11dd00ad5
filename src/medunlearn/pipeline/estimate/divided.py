"""What one process holds of a model whose decoder layers are divided among several (``sharding=fsdp2``)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from medunlearn.models.decoder import decoder_layers
from medunlearn.pipeline.estimate.amounts import Memory
from medunlearn.pipeline.estimate.hollow import nbytes


def divided(memory: Memory, model: Any, processes: int, *, halved: bool) -> Memory:
    """The memory of one process, from that of one that holds the whole model.

    Weights, gradients, moments and reference of the decoder layers are divided; the embedding, the head and the
    last norm are whole everywhere, and so is the one layer that is put together for its pass, with its gradient.

    Args:
        halved: layers of fp32 weights are put together in bfloat16.
    """
    layers = list(decoder_layers(model))
    whole, trained = nbytes(model), nbytes(model, trained=True)
    inside = sum(nbytes(layer) for layer in layers)
    of_trained = sum(nbytes(layer, trained=True) for layer in layers) / max(trained, 1)
    largest = max(nbytes(layer) + nbytes(layer, trained=True) for layer in layers)
    if halved and whole == 4 * sum(tensor.numel() for tensor in model.parameters()):
        largest //= 2

    def share(size: int, part: float) -> int:
        return round(size * (1 - part + part / processes))

    return replace(
        memory,
        weights=share(memory.weights, inside / whole) + largest,
        gradients=share(memory.gradients, of_trained),
        moments=share(memory.moments, of_trained),
        # Where all that is asked is kept, only the head was copied.
        reference=share(memory.reference, of_trained) if memory.reference == trained else memory.reference,
    )
