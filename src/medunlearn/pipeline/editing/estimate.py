"""What an edit takes before it starts: passes over both sides, without gradients or an optimizer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from medunlearn.methods.editing import EditMethod
from medunlearn.models.decoder import decoder_layers
from medunlearn.models.feeding import decoder_of, make_batch
from medunlearn.models.mlps import chosen_layers, mlps
from medunlearn.models.sequences import TokenSequence, families_by_length
from medunlearn.pipeline.estimate.amounts import Memory, Work
from medunlearn.pipeline.estimate.cost import batch_shape, costs
from medunlearn.pipeline.estimate.hollow import Hollow, nbytes


def editing(
    hollow: Hollow, method: EditMethod, sequences: Sequence[TokenSequence], batch_size: int, *, counted: bool
) -> Work:
    """Tokens, FLOPs and memory of the passes; what a method keeps of them, sums a neuron, is small beside a batch.

    Args:
        counted: tokens and FLOPs are wanted, not memory alone.

    Raises:
        InputError: the model lacks what the method edits.
    """
    last = max(chosen_layers(method.layers, len(decoder_layers(hollow.model))))
    mlps(hollow.model, method.layers)
    order = [sequences[place] for places in families_by_length(sequences) for place in places]
    batches = [order[start : start + batch_size] for start in range(0, len(order), batch_size)]

    def run(chosen: Sequence[TokenSequence]) -> None:
        with torch.no_grad():
            decoder_of(hollow.model).trunk(make_batch(hollow.model, chosen, 0, hollow.device), last + 1)

    hollow.model.eval()
    largest = max(batches, key=lambda chosen: sum(len(sequence.ids) for sequence in chosen))
    taken = hollow.rehearse(lambda: run(largest))
    memory = Memory(weights=nbytes(hollow.model), activations=taken.peak_bytes)
    if not counted:
        return Work(memory=memory)
    cost = costs(hollow, lambda given: lambda: run(given["read"]), ["read"])["read"]
    shapes = [batch_shape(hollow.model, batch) for batch in batches]
    passes = method.passes(False)
    tokens, flops = sum(one.tokens for one in shapes), sum(cost.flops(one) for one in shapes)
    return Work(passes * tokens, 0, passes * flops, memory)


def edited_bytes(model: Any, method: EditMethod) -> int:
    """Bytes of the matrices that an edit writes to."""
    return sum(matrix.rows.nbytes for mlp in mlps(model, method.layers) for matrix in mlp.matrices)
