"""Which rows go on from which head, and how their queries stand side by side before it."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


class Families:
    """Rows by the head that they go on from, so that one matrix product serves all rows of a head.

    Attributes:
        owner: the head of each row.
        count: F, how many heads there are.
        most: B, the most rows that one head has.
    """

    def __init__(self, owner: Sequence[int], device: torch.device) -> None:
        """
        Args:
            owner: the head of each row, from 0; each head has a row.
        """
        self.owner = tuple(owner)
        members = [[row for row, head in enumerate(owner) if head == one] for one in range(max(owner) + 1)]
        self.count, self.most = len(members), max(map(len, members))
        # A smaller family is filled up with one of its rows; what comes of the filling is not read.
        places = [row for rows in members for row in rows + rows[:1] * (self.most - len(rows))]
        self._in_order = places == list(range(len(owner)))
        slots = [head * self.most + members[head].index(row) for row, head in enumerate(owner)]
        self._places, self._slots = torch.tensor(places, device=device), torch.tensor(slots, device=device)

    def fold(self, rows: Tensor) -> Tensor:
        """[R, heads, N, width] to [F, heads, B * N, width]: the rows of a family one behind the other."""
        placed = rows if self._in_order else rows[self._places]
        return placed.reshape(self.count, self.most, *placed.shape[1:]).transpose(1, 2).flatten(2, 3)

    def unfold(self, families: Tensor) -> Tensor:
        """The way back, [F, heads, B * N, width] to [R, heads, N, width]."""
        count, heads, queries, width = families.shape
        rows = families.reshape(count, heads, self.most, queries // self.most, width).transpose(1, 2).flatten(0, 1)
        return rows if self._in_order else rows[self._slots]
