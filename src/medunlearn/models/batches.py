"""Batches: sequences laid out in rows, and the positions that predict a scored token.

Only these positions are ever looked at; see :mod:`medunlearn.models.decoder`. In the notation of this file: S
sequences in R rows of T tokens, N scored tokens in all. In a padded batch each sequence has a row;
:mod:`medunlearn.models.packing` fills rows better.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from medunlearn.models.branches import Layout
from medunlearn.models.sequences import TokenSequence

ROUNDING = 16


@dataclass(frozen=True, slots=True)
class TokenSpan:
    """Columns ``start`` to ``stop`` of a row: what is called ``name``, a sequence's own part or a shared part."""

    row: int
    start: int
    stop: int
    name: str


@dataclass(frozen=True)
class Batch:
    """Sequences laid out in rows.

    Attributes:
        keys: key of each sequence, S.
        input_ids: [R, T].
        attention_mask: [R, T], 1 for real tokens, from the sequences' lengths; or [R, 1, T, T], True where the
            query (third axis) sees the key. With a layout it says nothing.
        position_ids: [R, T]; None where positions count from the left of a row. [3, R, T] where they have axes
            (:mod:`medunlearn.models.vision.positions`).
        sequence: [N], the sequence that each scored token belongs to.
        row, column: [N], the position that predicts each scored token.
        targets: [N], the scored tokens, sequence by sequence.
        spans: where the parts of the sequences stand.
        layout: the groups of the only row, for attention by branches.
    """

    keys: tuple[str, ...]
    input_ids: Tensor
    attention_mask: Tensor
    position_ids: Tensor | None
    sequence: Tensor
    row: Tensor
    column: Tensor
    targets: Tensor
    spans: tuple[TokenSpan, ...]
    layout: Layout | None = None

    @property
    def size(self) -> int:
        return len(self.keys)

    @cached_property
    def predicting(self) -> tuple[Tensor, Tensor]:
        """Rows and columns of the positions that predict scored tokens, each position once.

        Two branches may be predicted from one position: their last shared token.
        """
        length = self.input_ids.shape[1]
        places = torch.unique(self.row * length + self.column)
        return places // length, places % length


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
        spans=tuple(span for row, sequence in enumerate(sequences) for span in whole(sequence, row, 0)),
    )


def whole(sequence: TokenSequence, row: int, start: int) -> list[TokenSpan]:
    """The spans of a sequence that stands alone."""
    middle, stop = start + sequence.shared, start + len(sequence.ids)
    shared = [TokenSpan(row, start, middle, sequence.shared_name)] if sequence.shared else []
    return [*shared, TokenSpan(row, middle, stop, sequence.key)]


def rounded_up(length: int) -> int:
    """To a multiple of ROUNDING: kernels are prepared and kept for each new shape, so few shapes save memory."""
    return -(-length // ROUNDING) * ROUNDING
