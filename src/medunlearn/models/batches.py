"""Padded batches, and the two passes over them: logits at scored positions, hidden states at a layer.

Only the positions that predict a scored token are ever looked at. In the notation of this file: B sequences
of at most T tokens, N scored tokens in all, V vocabulary, W width of the hidden states.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from medunlearn.errors import InputError
from medunlearn.models.sequences import TokenSequence

ROUNDING = 16


@dataclass(frozen=True)
class Batch:
    """Sequences padded on the right.

    Attributes:
        keys: key of each sequence, B.
        input_ids: [B, T].
        attention_mask: [B, T], 1 for real tokens; from the sequences' lengths.
        row, column: [N], the position that predicts each scored token.
        targets: [N], the scored tokens, sequence by sequence.
    """

    keys: tuple[str, ...]
    input_ids: Tensor
    attention_mask: Tensor
    row: Tensor
    column: Tensor
    targets: Tensor

    @property
    def size(self) -> int:
        return len(self.keys)


def collate(sequences: Sequence[TokenSequence], pad: int, device: torch.device) -> Batch:
    """Sequences to one batch; ``pad`` fills the right, and nothing depends on which token it is."""
    longest = _rounded_up(max(len(sequence.ids) for sequence in sequences))
    ids = torch.full((len(sequences), longest), pad, dtype=torch.long)
    mask = torch.zeros_like(ids)
    for place, sequence in enumerate(sequences):
        ids[place, : len(sequence.ids)] = torch.tensor(sequence.ids)
        mask[place, : len(sequence.ids)] = 1
    counts = torch.tensor([sequence.scored for sequence in sequences])
    row = torch.arange(len(sequences)).repeat_interleave(counts)
    column = torch.cat([torch.arange(sequence.scored_from - 1, len(sequence.ids) - 1) for sequence in sequences])
    return Batch(
        keys=tuple(sequence.key for sequence in sequences),
        input_ids=ids.to(device),
        attention_mask=mask.to(device),
        row=row.to(device),
        column=column.to(device),
        targets=ids[row, column + 1].to(device),
    )


def _rounded_up(length: int) -> int:
    """To a multiple of ROUNDING: kernels are prepared and kept for each new shape, so few shapes save memory."""
    return -(-length // ROUNDING) * ROUNDING


def scored_logits(model: Any, batch: Batch) -> Tensor:
    """Logits at the positions that predict a scored token, [N, V], in fp32.

    The head is not run on the columns before the first such position, which in note-grounded prompts are
    most of the sequence.
    """
    first = int(batch.column.min()) // ROUNDING * ROUNDING
    kept = batch.input_ids.shape[1] - first
    logits = model(
        input_ids=batch.input_ids,
        attention_mask=batch.attention_mask,
        use_cache=False,
        logits_to_keep=kept,
    ).logits
    picked: Tensor = logits[batch.row, batch.column - first].float()
    return picked


def scored_hidden(model: Any, batch: Batch, layer: int) -> Tensor:
    """Output of decoder layer ``layer`` (0 is the first) at the same positions, [N, W], in fp32.

    The pass ends behind that layer: the layers above it are not run, forward or backward.

    Raises:
        InputError: the model has no such layer.
    """
    layers = decoder_layers(model)
    if not 0 <= layer < len(layers):
        raise InputError(f"There is no layer {layer}: this model has the layers 0 to {len(layers) - 1}.")
    with _stop_behind(layers, layer) as caught, suppress(_LayerReached):
        model(input_ids=batch.input_ids, attention_mask=batch.attention_mask, use_cache=False)
    picked: Tensor = caught[0][batch.row, batch.column].float()
    return picked


class _LayerReached(Exception):  # noqa: N818  (no error: it ends a pass early)
    pass


@contextmanager
def _stop_behind(layers: nn.ModuleList, layer: int) -> Iterator[list[Tensor]]:
    caught: list[Tensor] = []

    def stop(module: nn.Module, inputs: Any, output: Any) -> None:
        caught.append(output[0] if isinstance(output, tuple) else output)
        raise _LayerReached

    handle = layers[layer].register_forward_hook(stop)
    try:
        yield caught
    finally:
        handle.remove()


def decoder_layers(model: Any) -> nn.ModuleList:
    """The decoder's layers, whatever the family calls them.

    Raises:
        InputError: the model has no list of as many layers as its configuration says.
    """
    depth = model.config.get_text_config().num_hidden_layers
    for module in model.modules():
        if isinstance(module, nn.ModuleList) and len(module) == depth:
            return module
    raise InputError(f"Cannot find the {depth} decoder layers of a {type(model).__name__}.")
