"""FLOPs of work on a batch, by the batch's shape.

Notation: a batch of T positions with N scored tokens, and Q + S pairs of positions that attention multiplies, S of
which the last layer leaves out (:class:`Shape`); what work on it takes is

    FLOPs(T, Q, S, N) = linear T + quadratic Q + shared S + head N

A multiplication with an addition counts as two. For a plain decoder of which nothing is trained, ``linear`` is
twice the entries of all weight matrices in the layers that are run at every position, ``quadratic`` is 4 x heads x
head width in each layer (the masked half of the attention is counted too), ``shared`` the same without the last
layer, and ``head`` is 2 x width x vocabulary and the last layer's MLP. Training adds what gradients take from the
first trained parameter on. FLOPs are those of matrix products and attention, as ``torch.utils.flop_counter`` counts
them, attention on CPUs too; element-wise work and the optimizer are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from medunlearn.models.batches import ROUNDING, rounded_up
from medunlearn.models.feeding import laid_out
from medunlearn.models.packing import groups_for_branches, reads_shared, rows_for_masks
from medunlearn.models.sequences import TokenSequence, tokens_once
from medunlearn.pipeline.estimate.hollow import Hollow

PROBES = ((2 * ROUNDING, 4), (4 * ROUNDING, 4), (4 * ROUNDING, 12), (6 * ROUNDING, 4))
"""Length and scored tokens of the sequences from which costs are found; the last is for a second side."""
FAMILY = len(PROBES)
"""The number of one more probe: two sequences that go on from shared text."""

Prepare = Callable[[Mapping[str, Sequence[TokenSequence]]], Callable[[], None]]
"""Sequences by side -> work on them; only the work is counted, not what is done to prepare it."""


@dataclass(frozen=True, slots=True)
class Shape:
    """A batch as the engine lays it out.

    Attributes:
        positions: T, what matrices are multiplied with, padding included.
        pairs: Q, queries times the keys that each is multiplied with in every layer, seen or masked.
        shared_pairs: S, those of shared text, which the last layer of a pass leaves out.
        scored: N.
        tokens: tokens without padding, those that sequences share counted once where they are run once.
    """

    positions: int
    pairs: int
    shared_pairs: int
    scored: int
    tokens: int

    @property
    def sides(self) -> tuple[int, int, int, int]:
        """T, Q, S, N."""
        return self.positions, self.pairs, self.shared_pairs, self.scored


def batch_shape(model: Any, sequences: Sequence[TokenSequence]) -> Shape:
    """The shape of the batch that ``feeding.make_batch`` makes for a model, without making it."""
    scored, how = sum(sequence.scored for sequence in sequences), laid_out(model, sequences)
    if how == "branches":
        groups = groups_for_branches(sequences)
        positions = sum(group.shared + group.own for group in groups)
        shared = sum(group.shared**2 for group in groups)
        pairs = sum(
            len(group.lengths) * max(group.lengths) * (group.shared + max(group.lengths)) for group in groups
        )
        if reads_shared(sequences):
            pairs, shared = pairs + shared, 0
        return Shape(positions, pairs, shared, scored, tokens_once(sequences))
    if how == "masks":
        rows, length = rows_for_masks(sequences)
        return Shape(rows * length, rows * length**2, 0, scored, tokens_once(sequences))
    rows, length = len(sequences), rounded_up(max(len(sequence.ids) for sequence in sequences))
    return Shape(rows * length, rows * length**2, 0, scored, sum(len(sequence.ids) for sequence in sequences))


@dataclass(frozen=True, slots=True)
class PassCost:
    """FLOPs by the shape of what is worked on; see the notation above."""

    linear: float = 0.0
    quadratic: float = 0.0
    shared: float = 0.0
    head: float = 0.0

    def flops(self, shape: Shape) -> float:
        numbers = (self.linear, self.quadratic, self.shared, self.head)
        return sum(number * side for number, side in zip(numbers, shape.sides, strict=True))

    def decoding(self, cached: int, new: int) -> float:
        """FLOPs of decoding ``new`` tokens of one answer behind ``cached`` ones, whose keys and values are kept."""
        seen = sum(range(cached + 1, cached + new + 1))
        return new * (self.linear + self.head) + self.quadratic * seen


def costs(hollow: Hollow, prepare: Prepare, sides: Sequence[str]) -> dict[str, PassCost]:
    """What work on sequences of several sides takes by the shape of each side's batch.

    Costs add up over the sides, so that four rehearsals a side tell the four numbers of each. Where a model takes
    no branches, nothing is left out in its last layer, and that number stays 0.

    Args:
        hollow: the model that works.
        prepare: is given one sequence a side; the side's name is its key.
    """
    tries = [[0] * len(sides)]
    tries += [_but(tries[0], place, probe) for place in range(len(sides)) for probe in (1, 2, FAMILY)]
    tries += [_but(tries[0], place, 3) for place in range(1, len(sides))]
    taken, shapes = [], []
    for chosen in tries:
        given = {side: _probe(side, number) for side, number in zip(sides, chosen, strict=True)}
        with hollow.open():
            work = prepare(given)
        taken.append(float(hollow.rehearse(work).flops))
        found = [batch_shape(hollow.model, sequences) for sequences in given.values()]
        shapes.append([part for shape in found for part in shape.sides])
        hollow.model.zero_grad(set_to_none=True)
    table = np.array(shapes, dtype=float)
    scale = np.maximum(table.max(axis=0), 1)
    solved = (np.linalg.lstsq(table / scale, np.array(taken))[0] / scale).reshape(-1, 4)
    return {side: PassCost(*map(float, row)) for side, row in zip(sides, solved, strict=True)}


def _but(numbers: Sequence[int], place: int, number: int) -> list[int]:
    return [*numbers[:place], number, *numbers[place + 1 :]]


def _probe(side: str, number: int) -> list[TokenSequence]:
    if number == FAMILY:
        length = 3 * ROUNDING
        return [
            TokenSequence(f"{side}{place}", (0,) * length, 2 * ROUNDING, length - scored)
            for place, scored in enumerate((4, 4))
        ]
    length, scored = PROBES[number]
    return [TokenSequence(side, (0,) * length, 0, length - scored)]
