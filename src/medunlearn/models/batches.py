"""Batches, and the two passes over them: logits at scored positions, hidden states at a layer.

Only the positions that predict a scored token are ever looked at: the head of the model is run on them alone.
In the notation of this file: S sequences in R rows of T tokens, N scored tokens in all, V vocabulary, W width of
the hidden states. In a padded batch each sequence has a row; :mod:`medunlearn.models.packing` fills rows better.
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
    """Sequences laid out in rows.

    Attributes:
        keys: key of each sequence, S.
        input_ids: [R, T].
        attention_mask: [R, T], 1 for real tokens, from the sequences' lengths; or [R, 1, T, T], True where the
            query (third axis) sees the key.
        position_ids: [R, T]; None where positions count from the left of a row.
        sequence: [N], the sequence that each scored token belongs to.
        row, column: [N], the position that predicts each scored token.
        targets: [N], the scored tokens, sequence by sequence.
    """

    keys: tuple[str, ...]
    input_ids: Tensor
    attention_mask: Tensor
    position_ids: Tensor | None
    sequence: Tensor
    row: Tensor
    column: Tensor
    targets: Tensor

    @property
    def size(self) -> int:
        return len(self.keys)


def collate(sequences: Sequence[TokenSequence], pad: int, device: torch.device) -> Batch:
    """Sequences to one batch; ``pad`` fills the right, and nothing depends on which token it is."""
    longest = rounded_up(max(len(sequence.ids) for sequence in sequences))
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
        position_ids=None,
        sequence=row.to(device),
        row=row.to(device),
        column=column.to(device),
        targets=ids[row, column + 1].to(device),
    )


def rounded_up(length: int) -> int:
    """To a multiple of ROUNDING: kernels are prepared and kept for each new shape, so few shapes save memory."""
    return -(-length // ROUNDING) * ROUNDING


def scored_logits(model: Any, batch: Batch) -> Tensor:
    """Logits at the positions that predict a scored token, [N, V], in fp32.

    The hidden states of these positions are picked out in front of the head, so that it is run on nothing else,
    and whatever the family does behind it (a cap, a scale) is done as ever.
    """

    def pick(head: nn.Module, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        return (inputs[0][batch.row, batch.column][None], *inputs[1:])

    handle = model.get_output_embeddings().register_forward_pre_hook(pick)
    try:
        logits: Tensor = _run(model, batch).logits
    finally:
        handle.remove()
    return logits[0].float()


def _run(model: Any, batch: Batch) -> Any:
    positions = {} if batch.position_ids is None else {"position_ids": batch.position_ids}
    mask = batch.attention_mask
    if mask.dim() == 4 and getattr(model.config, "_attn_implementation", None) == "eager":
        # Plain attention adds its mask to the weights instead of choosing by it (Gemma 2 uses it).
        mask = torch.zeros(mask.shape, device=mask.device).masked_fill(~mask, torch.finfo(torch.float32).min)
    return model(input_ids=batch.input_ids, attention_mask=mask, use_cache=False, **positions)


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
        _run(model, batch)
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
