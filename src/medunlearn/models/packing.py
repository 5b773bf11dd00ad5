"""Packed batches: text that questions share stands once, and rows are filled with several sequences.

All questions on one record begin with the same tokens in ``note`` context. Such a family is laid out as the
shared tokens followed by one branch a question; a branch sees the shared tokens and itself, and its positions go
on from the shared part as if it stood alone. Families and single sequences then fill rows as long as the longest
of them, so that little of a batch is padding. Loss and gradient are those of separate sequences.

Not every model can be fed like this: its attention must take a mask of our own, and a sliding window must not
cut a sequence. :func:`packs` tries it once on a few tokens and compares; a model that cannot gets padded batches.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from medunlearn.models.batches import Batch, collate, rounded_up, scored_logits
from medunlearn.models.sequences import TokenSequence, families

SHARED = -1


@dataclass(frozen=True)
class _Family:
    """Sequences that begin with the same ``shared`` tokens; ``members`` are places in the batch."""

    shared: int
    members: tuple[int, ...]
    length: int


def make_batch(model: Any, sequences: Sequence[TokenSequence], pad: int, device: torch.device) -> Batch:
    """The cheaper batch that the model can take: packed where that saves tokens, padded otherwise."""
    found = _families(sequences)
    rows = _rows(found)
    longest = max(len(sequence.ids) for sequence in sequences)
    saves = len(rows) * max(family.length for family in found) < len(sequences) * longest
    if saves and longest <= window(model) and packs(model):
        return pack(sequences, pad, device)
    return collate(sequences, pad, device)


def pack(sequences: Sequence[TokenSequence], pad: int, device: torch.device) -> Batch:
    """Sequences to one packed batch, whatever it saves."""
    found = _families(sequences)
    rows = _rows(found)
    length = rounded_up(max(family.length for family in found))
    ids = torch.full((len(rows), length), pad, dtype=torch.long)
    positions = torch.zeros_like(ids)
    # A token sees earlier tokens of its family that are shared or of its own branch. Padding is of no family.
    family_of = torch.full_like(ids, SHARED - 1)
    branch_of = torch.full_like(ids, SHARED)
    row_of, column_of = [0] * len(sequences), [torch.empty(0)] * len(sequences)
    for row, chosen in enumerate(rows):
        start = 0
        for family in chosen:
            for where, branch, place in _spans(family, sequences, start):
                sequence = sequences[place]
                first = 0 if branch == SHARED else family.shared
                count = where.stop - where.start
                ids[row, where] = torch.tensor(sequence.ids[first : first + count])
                positions[row, where] = torch.arange(first, first + count)
                family_of[row, where], branch_of[row, where] = family.members[0], branch
                if branch != SHARED:
                    row_of[place] = row
                    column_of[place] = _predicting(sequence, family.shared, start, where.start)
            start += family.length
    counts = torch.tensor([sequence.scored for sequence in sequences])
    targets = [token for sequence in sequences for token in sequence.ids[sequence.scored_from :]]
    return Batch(
        keys=tuple(sequence.key for sequence in sequences),
        input_ids=ids.to(device),
        attention_mask=_mask(family_of, branch_of).to(device),
        position_ids=positions.to(device),
        sequence=torch.arange(len(sequences)).repeat_interleave(counts).to(device),
        row=torch.tensor(row_of).repeat_interleave(counts).to(device),
        column=torch.cat(column_of).to(device),
        targets=torch.tensor(targets).to(device),
    )


def _families(sequences: Sequence[TokenSequence]) -> list[_Family]:
    found = []
    for places in families(sequences):
        shared = sequences[places[0]].shared
        length = shared + sum(len(sequences[place].ids) - shared for place in places)
        found.append(_Family(shared, tuple(places), length))
    return found


def _rows(found: Sequence[_Family]) -> list[list[_Family]]:
    """First fit, longest first, into rows as long as the longest family."""
    capacity = max(family.length for family in found)
    rows: list[list[_Family]] = []
    left: list[int] = []
    for family in sorted(found, key=lambda family: -family.length):
        row = next((row for row, room in enumerate(left) if room >= family.length), None)
        if row is None:
            rows.append([family])
            left.append(capacity - family.length)
        else:
            rows[row].append(family)
            left[row] -= family.length
    return rows


def _spans(family: _Family, sequences: Sequence[TokenSequence], start: int) -> list[tuple[slice, int, int]]:
    """Where a family's parts stand in its row: (columns, branch, place of a sequence that holds the tokens)."""
    spans = [(slice(start, start + family.shared), SHARED, family.members[0])] if family.shared else []
    start += family.shared
    for branch, place in enumerate(family.members):
        stop = start + len(sequences[place].ids) - family.shared
        spans.append((slice(start, stop), branch, place))
        start = stop
    return spans


def _predicting(sequence: TokenSequence, shared: int, family_start: int, branch_start: int) -> Tensor:
    """Columns of the positions that predict a sequence's scored tokens; the first may be the last shared one."""
    places = torch.arange(sequence.scored_from - 1, len(sequence.ids) - 1)
    return torch.where(places < shared, family_start + places, branch_start + places - shared)


def _mask(family: Tensor, branch: Tensor) -> Tensor:
    """[rows, 1, L, L], True where the query (third axis) sees the key. Every token sees itself, padding too."""
    same_family = family[:, :, None] == family[:, None, :]
    visible = (branch[:, None, :] == SHARED) | (branch[:, :, None] == branch[:, None, :])
    length = family.shape[1]
    earlier = torch.ones(length, length, dtype=torch.bool).tril()
    padding = family[:, :, None] == SHARED - 1
    seen = same_family & visible & earlier & ~padding
    return (seen | torch.eye(length, dtype=torch.bool))[:, None]


def window(model: Any) -> float:
    """The shortest sliding window of a model's attention in tokens; infinite without one."""
    config = model.config.get_text_config()
    size = getattr(config, "sliding_window", None)
    kinds = getattr(config, "layer_types", None)
    slides = size is not None and (kinds is None or any("sliding" in str(kind) for kind in kinds))
    return float(size) if slides and size is not None else float("inf")


_PACKS: WeakKeyDictionary[nn.Module, bool] = WeakKeyDictionary()


def packs(model: Any) -> bool:
    """Whether packed and padded batches give this model's logits alike; tried once a model, on a few tokens."""
    if model not in _PACKS:
        _PACKS[model] = _tried(model)
    return _PACKS[model]


@torch.no_grad()
def _tried(model: Any) -> bool:
    device = next(model.parameters()).device
    vocabulary = model.config.get_text_config().vocab_size
    few = [
        TokenSequence(
            str(place), tuple((7 * place + 3 * step * step + step) % vocabulary for step in range(length)), 0, 1
        )
        for place, length in enumerate((9, 4))
    ]
    head = few[0].ids[:6]
    few += [TokenSequence(f"b{token}", (*head, token, token + 1, token + 2), 6, 7) for token in (1, 4)]
    training = model.training
    model.eval()
    try:
        with torch.autocast(device.type, enabled=False):
            together = scored_logits(model, pack(few, 0, device))
            apart = scored_logits(model, collate(few, 0, device))
    except (RuntimeError, TypeError, ValueError, IndexError):
        return False
    finally:
        model.train(training)
    tolerance = 1e-4 if next(model.parameters()).dtype == torch.float32 else 5e-2
    return bool((together - apart).abs().max() <= tolerance * apart.abs().max())
