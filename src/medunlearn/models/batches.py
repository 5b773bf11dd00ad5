"""Batches: sequences laid out in rows, and the positions whose outputs are used.

Only these positions are computed fully; see :mod:`medunlearn.models.decoder`. Notation in this file: S sequences in
R rows of T tokens, N positions that are read: by default those that predict a scored token. In a padded batch each
sequence has a row; :mod:`medunlearn.models.packing` fills rows better.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import unset_fake_temporarily

from medunlearn.models.branches import Layout
from medunlearn.models.sequences import Positions, TokenSequence

ROUNDING = 16


@dataclass(frozen=True, slots=True)
class TokenSpan:
    """Columns ``start`` to ``stop`` of a row with the tokens called ``name``: a sequence's own part or a shared
    part.
    """

    row: int
    start: int
    stop: int
    name: str


@dataclass(frozen=True)
class Batch:
    """Sequences laid out in rows.

    Attributes:
        sequences: S.
        rows: row of each sequence, S.
        columns: columns of each sequence's tokens, S tensors on the CPU. Sequences may share columns.
        input_ids: [R, T].
        attention_mask: [R, T], 1 for real tokens, from the sequences' lengths; or [R, 1, T, T], True if the
            query (third axis) sees the key. Ignored with a layout.
        position_ids: [R, T]; None if positions count from the left of a row. [3, R, T] with several axes
            (:mod:`medunlearn.models.vision.positions`).
        sequence: [N], the sequence that each position belongs to.
        row, column: [N], the positions, sequence by sequence.
        targets: [N], the scored tokens that they predict; empty if other positions are read.
        spans: positions of the sequences' parts.
        layout: groups of the single row, for attention by branches.
    """

    sequences: tuple[TokenSequence, ...]
    rows: tuple[int, ...]
    columns: tuple[Tensor, ...]
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
        return len(self.sequences)

    def at(self, positions: Positions) -> Batch:
        """The same batch, read at other positions."""
        # A rehearsal on fake tensors has real batches, since their shapes depend on their contents.
        with unset_fake_temporarily():
            sequence, row, column = places_read(self.sequences, self.rows, self.columns, positions)
            device, layout = self.row.device, self.layout
            batch = replace(
                self,
                sequence=sequence.to(device),
                row=row.to(device),
                column=column.to(device),
                targets=self.targets[:0],
                layout=layout.reading_shared() if layout is not None and positions == "all" else layout,
            )
            _ = batch.distinct, batch.repeats
            return batch

    @cached_property
    def distinct(self) -> tuple[Tensor, Tensor]:
        """Rows and columns of the positions that are read, without duplicates.

        Sequences may share one: two branches may be predicted from their last shared token.
        """
        length = self.input_ids.shape[1]
        places = torch.unique(self.row * length + self.column)
        return places // length, places % length

    @cached_property
    def repeats(self) -> tuple[Tensor, Tensor] | None:
        """For positions read by several sequences: an index in [0, N) per distinct position, [M], and each
        position's index in [0, M), [N].
        """
        places = self.row * self.input_ids.shape[1] + self.column
        distinct, place = torch.unique(places, return_inverse=True)
        if len(distinct) == len(places):
            return None
        indices = torch.arange(len(places), device=places.device)
        first = torch.full_like(distinct, len(places)).scatter_reduce(0, place, indices, "amin")
        return first, place


def collate(sequences: Sequence[TokenSequence], pad: int, device: torch.device) -> Batch:
    """Pad sequences into one batch; ``pad`` fills the right, and may be any token."""
    longest = rounded_up(max(len(sequence.ids) for sequence in sequences))
    ids = torch.full((len(sequences), longest), pad, dtype=torch.long)
    mask = torch.zeros_like(ids)
    for place, sequence in enumerate(sequences):
        ids[place, : len(sequence.ids)] = torch.tensor(sequence.ids)
        mask[place, : len(sequence.ids)] = 1
    spans = [span for row, sequence in enumerate(sequences) for span in whole(sequence, row, 0)]
    columns = [torch.arange(len(sequence.ids)) for sequence in sequences]
    return assembled(sequences, range(len(sequences)), columns, spans, device, input_ids=ids, attention_mask=mask)


def assembled(
    sequences: Sequence[TokenSequence],
    rows: Sequence[int],
    columns: Sequence[Tensor],
    spans: Sequence[TokenSpan],
    device: torch.device,
    *,
    input_ids: Tensor,
    attention_mask: Tensor,
    position_ids: Tensor | None = None,
    layout: Layout | None = None,
) -> Batch:
    """Build a batch on a device, read at the positions that predict scored tokens; arguments as in
    :class:`Batch`.
    """
    sequence_of, row, column = places_read(sequences, rows, columns, "predicting")
    targets = [token for sequence in sequences for token in sequence.ids[sequence.scored_from :]]
    return Batch(
        sequences=tuple(sequences),
        rows=tuple(rows),
        columns=tuple(columns),
        input_ids=input_ids.to(device),
        attention_mask=attention_mask.to(device),
        position_ids=None if position_ids is None else position_ids.to(device),
        sequence=sequence_of.to(device),
        row=row.to(device),
        column=column.to(device),
        targets=torch.tensor(targets).to(device),
        spans=tuple(spans),
        layout=layout,
    )


def places_read(
    sequences: Sequence[TokenSequence], rows: Sequence[int], columns: Sequence[Tensor], positions: Positions
) -> tuple[Tensor, Tensor, Tensor]:
    """Sequence, row and column of each position that is read, [N] each, sequence by sequence."""
    read = [sequence.read(positions) for sequence in sequences]
    counts = torch.tensor([len(indices) for indices in read])
    column = torch.cat(
        [places[indices.start : indices.stop] for places, indices in zip(columns, read, strict=True)]
    )
    return (
        torch.arange(len(sequences)).repeat_interleave(counts),
        torch.tensor(rows).repeat_interleave(counts),
        column,
    )


def whole(sequence: TokenSequence, row: int, start: int) -> list[TokenSpan]:
    """The spans of a sequence that shares nothing."""
    middle, stop = start + sequence.shared, start + len(sequence.ids)
    shared = [TokenSpan(row, start, middle, sequence.shared_name)] if sequence.shared else []
    return [*shared, TokenSpan(row, middle, stop, sequence.key)]


def rounded_up(length: int) -> int:
    """Round up to a multiple of ROUNDING: kernels are cached per shape, so few shapes save memory."""
    return -(-length // ROUNDING) * ROUNDING
