"""Packed batches: text shared by questions is stored once, and rows are filled with several sequences.

All questions on one record begin with the same tokens in ``note`` context. Such a family is laid out as the
shared tokens followed by one branch per question; a branch sees the shared tokens and itself, and its positions
continue those of the shared part, as in a separate sequence. Loss and gradient are those of separate sequences.

With attention by :mod:`medunlearn.models.branches`, everything is in one row without padding. With a mask, families
fill rows as long as the longest of them, since a mask costs the square of a row's length.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from medunlearn.models.batches import Batch, TokenSpan, assembled, rounded_up, whole
from medunlearn.models.branches import BranchGroup, Layout
from medunlearn.models.sequences import TokenSequence, families

SHARED = -1
UNEVEN = 1.25
"""Single sequences are batched for attention while the longest is at most so much longer than the shortest."""


@dataclass(frozen=True)
class _Family:
    """Sequences that begin with the same ``shared`` tokens; ``members`` are their indices in the batch."""

    shared: int
    members: tuple[int, ...]
    length: int


@dataclass(frozen=True)
class _Part:
    """Columns of a row with a family's shared tokens (``branch`` is SHARED) or one of its branches."""

    row: int
    columns: slice
    family: _Family
    branch: int

    @property
    def place(self) -> int:
        """Index of a sequence with these tokens: for shared ones, any of the family."""
        return self.family.members[max(0, self.branch)]


def saves_tokens(sequences: Sequence[TokenSequence]) -> bool:
    """True if rows packed with a mask have fewer tokens than padded ones."""
    kin = _families(sequences)
    longest = max(len(sequence.ids) for sequence in sequences)
    return len(_rows(kin)) * max(family.length for family in kin) < len(sequences) * longest


def pack(sequences: Sequence[TokenSequence], pad: int, device: torch.device) -> Batch:
    """Pack sequences into rows with an attention mask, even if that saves nothing."""
    kin = _families(sequences)
    rows = _rows(kin)
    shape = len(rows), rounded_up(max(family.length for family in kin))
    parts = list(_parts(rows, sequences))
    # A token sees earlier tokens of its family that are shared or of its own branch. Padding is of no family.
    family, branch = torch.full(shape, SHARED - 1), torch.full(shape, SHARED)
    for part in parts:
        family[part.row, part.columns], branch[part.row, part.columns] = part.family.members[0], part.branch
    return _batch(sequences, parts, shape, pad, device, _mask(family, branch), None)


def pack_for_branches(sequences: Sequence[TokenSequence], pad: int, device: torch.device) -> Batch:
    """Pack sequences into one row, with a layout for attention by branches."""
    kin = _in_one_row(sequences)
    length = rounded_up(sum(family.length for family in kin))
    parts, groups = list(_parts([kin], sequences)), _padded_groups(kin, sequences)
    unread = torch.ones(1, 1, 1, 1, dtype=torch.bool)
    layout = Layout(groups, device, reads_shared=reads_shared(sequences))
    return _batch(sequences, parts, (1, length), pad, device, unread, layout)


def reads_shared(sequences: Sequence[TokenSequence]) -> bool:
    """True if shared text predicts the first answer token of some question."""
    kin = _families(sequences)
    return any(sequences[place].scored_from <= family.shared for family in kin for place in family.members)


def _batch(
    sequences: Sequence[TokenSequence],
    parts: Sequence[_Part],
    shape: tuple[int, int],
    pad: int,
    device: torch.device,
    mask: Tensor,
    layout: Layout | None,
) -> Batch:
    ids, positions = torch.full(shape, pad), torch.zeros(shape, dtype=torch.long)
    rows, tokens_at = [0] * len(sequences), [torch.empty(0)] * len(sequences)
    spans: list[TokenSpan] = []
    family_start = 0
    for part in parts:
        sequence, columns, shared = sequences[part.place], part.columns, part.family.shared
        count = columns.stop - columns.start
        first = 0 if part.branch == SHARED else shared
        if part.branch == SHARED or (part.branch == 0 and not shared):
            family_start = columns.start
        ids[part.row, columns] = torch.tensor(sequence.ids[first : first + count])
        positions[part.row, columns] = torch.arange(first, first + count)
        if part.branch != SHARED:
            rows[part.place] = part.row
            shared_columns = torch.arange(family_start, family_start + shared)
            tokens_at[part.place] = torch.cat([shared_columns, torch.arange(columns.start, columns.stop)])
        if shared:
            name = sequence.shared_name if part.branch == SHARED else sequence.key
            spans.append(TokenSpan(part.row, columns.start, columns.stop, name))
        else:
            spans += whole(sequence, part.row, columns.start)
    tensors = {"input_ids": ids, "attention_mask": mask, "position_ids": positions}
    return assembled(sequences, rows, tokens_at, spans, device, **tensors, layout=layout)


def _families(sequences: Sequence[TokenSequence]) -> list[_Family]:
    kin = []
    for places in families(sequences):
        # What only one sequence begins with is shared with nobody.
        shared = sequences[places[0]].shared if len(places) > 1 else 0
        length = shared + sum(len(sequences[place].ids) - shared for place in places)
        kin.append(_Family(shared, tuple(places), length))
    return kin


def _in_one_row(sequences: Sequence[TokenSequence]) -> list[_Family]:
    return sorted(_families(sequences), key=lambda family: (not family.shared, family.length))


def _padded_groups(kin: Sequence[_Family], sequences: Sequence[TokenSequence]) -> list[BranchGroup]:
    length = sum(family.length for family in kin)
    padding = rounded_up(length) - length
    return _groups(kin, sequences) + ([BranchGroup(0, (padding,))] if padding else [])


def _rows(kin: Sequence[_Family]) -> list[list[_Family]]:
    """First-fit packing, longest first, into rows as long as the longest family."""
    capacity = max(family.length for family in kin)
    rows: list[list[_Family]] = []
    room_left: list[int] = []
    for family in sorted(kin, key=lambda family: -family.length):
        row = next((row for row, room in enumerate(room_left) if room >= family.length), None)
        if row is None:
            rows.append([family])
            room_left.append(capacity - family.length)
        else:
            rows[row].append(family)
            room_left[row] -= family.length
    return rows


def _parts(rows: Sequence[Sequence[_Family]], sequences: Sequence[TokenSequence]) -> Iterator[_Part]:
    """Each family's shared tokens, if any, then its branches, family by family."""
    for row, members in enumerate(rows):
        start = 0
        for family in members:
            if family.shared:
                yield _Part(row, slice(start, start + family.shared), family, SHARED)
                start += family.shared
            for branch, place in enumerate(family.members):
                stop = start + len(sequences[place].ids) - family.shared
                yield _Part(row, slice(start, stop), family, branch)
                start = stop


def _groups(kin: Sequence[_Family], sequences: Sequence[TokenSequence]) -> list[BranchGroup]:
    """The groups of a row: first families with shared tokens, then single sequences by length."""
    groups = []
    single: list[int] = []
    for family in kin:
        lengths = tuple(len(sequences[place].ids) - family.shared for place in family.members)
        if family.shared:
            groups.append(BranchGroup(family.shared, lengths))
            continue
        if single and lengths[0] > UNEVEN * single[0]:
            groups.append(BranchGroup(0, tuple(single)))
            single = []
        single += lengths
    return [*groups, BranchGroup(0, tuple(single))] if single else groups


def _mask(family: Tensor, branch: Tensor) -> Tensor:
    """[rows, 1, L, L], True if the query (third axis) sees the key. Every token sees itself, padding too."""
    same_family = family[:, :, None] == family[:, None, :]
    visible = (branch[:, None, :] == SHARED) | (branch[:, :, None] == branch[:, None, :])
    length = family.shape[1]
    earlier = torch.ones(length, length, dtype=torch.bool).tril()
    padding = family[:, :, None] == SHARED - 1
    allowed = same_family & visible & earlier & ~padding
    return (allowed | torch.eye(length, dtype=torch.bool))[:, None]
