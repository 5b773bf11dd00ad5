"""Two-axis positions: in some families a picture token's position is its row and column, not its place in the
sequence.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

import torch
from torch import Tensor

from medunlearn.models.batches import Batch
from medunlearn.models.sequences import TokenSequence
from medunlearn.models.vision.pictures import FIRST, PLACES, Pictures
from medunlearn.models.vision.seeing import sight_of


def axes_of(model: Any) -> Pictures | None:
    """The pictures of a model with several position axes; None for one with plain positions."""
    sight = sight_of(model)
    return sight.pictures if sight is not None and sight.pictures.family.axes else None


def axes(ids: Sequence[int], pictures: Pictures) -> Tensor:
    """Time, row and column of each token, [3, T].

    Text advances along all three axes. An image of h x w tokens starts at the next position, at a single time; the
    text after it continues after its longer side.

    Source: Wang et al. 2024, Qwen2-VL, arXiv 2409.12191, Section 2.1 (M-RoPE).
    """
    parts, now = [torch.zeros(3, 0, dtype=torch.long)], 0
    for number, run in groupby(ids, lambda token: (token - FIRST) // PLACES if token >= FIRST else None):
        count = len(list(run))
        grid = None if number is None else pictures.grid(number)
        if grid is None:
            parts.append((now + torch.arange(count)).expand(3, -1))
            now += count
            continue
        places = torch.arange(count)
        parts.append(now + torch.stack([torch.zeros_like(places), places // grid[1], places % grid[1]]))
        now += max(grid)
    return torch.cat(parts, dim=1)


def with_axes(batch: Batch, sequences: Sequence[TokenSequence], pictures: Pictures) -> Batch:
    """A batch of these sequences with positions [3, R, T] instead of [R, T]."""
    shared = {sequence.shared_name: sequence for sequence in sequences if sequence.shared}
    by_key = {sequence.key: sequence for sequence in sequences}
    positions = torch.zeros(3, *batch.input_ids.shape, dtype=torch.long)
    for span in batch.spans:
        if span.name in shared:
            sequence = shared[span.name]
            places = axes(sequence.ids[: sequence.shared], pictures)
        else:
            # Images stand in what is shared: behind it positions count on.
            head = by_key[span.name].ids[: by_key[span.name].shared]
            before = int(axes((*head, 0), pictures)[0, -1])
            places = (before + torch.arange(span.stop - span.start)).expand(3, -1)
        positions[:, span.row, span.start : span.stop] = places
    return replace(batch, position_ids=positions.to(batch.input_ids.device))


def last_axes(rows: Sequence[Sequence[int]], last: int, pictures: Pictures) -> Tensor:
    """Positions of the last tokens of left-padded rows, [3, R, last]; 0 for missing tokens."""
    positions = torch.zeros(3, len(rows), last, dtype=torch.long)
    for place, row in enumerate(rows):
        tail = axes(row, pictures)[:, -last:]
        positions[:, place, last - tail.shape[1] :] = tail
    return positions
