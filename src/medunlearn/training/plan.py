"""Which sequences each optimizer step sees: a pure function of the step's number and a seed.

So resuming needs no state but the number of the last step, and two runs with one seed see the same batches.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import TypeVar

from medunlearn.errors import InputError
from medunlearn.models.sequences import TokenSequence, families, families_by_length
from medunlearn.seeds import generator

T = TypeVar("T")


@dataclass
class Plan:
    """The order of a run.

    Attributes:
        sides: name -> its sequences, e.g. ``{"forget": [...], "retain": [...]}``. The first one leads: an epoch
            is one pass over it. From each other side a step draws as many sequences as the leading side has in
            that step, in a shuffled order that starts anew when it is used up. Sequences that share text (the
            questions on one record, in ``note`` context) follow each other, so that the text is computed once.
        batch_size: sequences a side in one optimizer step; the last step of an epoch may have fewer.
        epochs: passes over the leading side.
        seed: of the orders.
    """

    sides: Mapping[str, Sequence[TokenSequence]]
    batch_size: int
    epochs: int
    seed: int
    _orders: dict[tuple[str, int], list[int]] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        for side, sequences in self.sides.items():
            if not sequences:
                raise InputError(f"There is nothing to train on: the {side} set has no sequences.")
        self._families = {side: families(sequences) for side, sequences in self.sides.items()}
        self.lead = next(iter(self.sides))
        self.steps_an_epoch = -(-len(self.sides[self.lead]) // self.batch_size)

    @property
    def steps(self) -> int:
        return self.steps_an_epoch * self.epochs

    def epoch(self, step: int) -> float:
        """How many epochs are done once ``step`` steps are."""
        return step / self.steps_an_epoch

    def drawn(self, side: str) -> tuple[list[TokenSequence], int]:
        """The sequences of a side that the run draws at all, and how many it draws: more, if some come again."""
        sequences, draws = self.sides[side], self.epochs * len(self.sides[self.lead])
        if draws >= len(sequences):
            return list(sequences), draws
        return [sequences[place] for place in self._order(side, 0)[:draws]], draws

    def step(self, number: int) -> dict[str, list[TokenSequence]]:
        """The sequences of step ``number`` (0 is the first), by side."""
        epoch, place = divmod(number, self.steps_an_epoch)
        total = len(self.sides[self.lead])
        first = place * self.batch_size
        count = min(self.batch_size, total - first)
        start = epoch * total + first
        return {side: self._draw(side, start, count) for side in self.sides}

    def _draw(self, side: str, start: int, count: int) -> list[TokenSequence]:
        sequences = self.sides[side]
        drawn = []
        for place in range(start, start + count):
            lap, index = divmod(place, len(sequences))
            drawn.append(sequences[self._order(side, lap)[index]])
        return drawn

    def _order(self, side: str, lap: int) -> list[int]:
        if (side, lap) not in self._orders:
            self._orders = {key: order for key, order in self._orders.items() if key[0] != side}
            families = self._families[side]
            order = generator("order", side, lap, self.seed).permutation(len(families))
            self._orders[side, lap] = [place for family in order for place in families[family]]
        return self._orders[side, lap]


def micro_batches(
    step: Mapping[str, Sequence[TokenSequence]], size: int, processes: int = 1
) -> list[dict[str, list[TokenSequence]]]:
    """A step cut into pieces of at most ``size`` sequences a side, as many for each of several processes.

    Sequences that share text stay together where ``size`` leaves a choice, and those of like length follow each
    other, which saves work; the terms of the pieces add up to the step's, so this changes no number (see
    methods.protocol). A step of fewer sequences than processes has fewer pieces.
    """
    most = max(len(sequences) for sequences in step.values())
    pieces = -(-most // size)
    pieces = min(most, -(-pieces // processes) * processes)
    cut = {side: _cut(_by_length(sequences), size, pieces) for side, sequences in step.items()}
    return [{side: parts[place] for side, parts in cut.items()} for place in range(pieces)]


def share(pieces: Sequence[T], rank: int, world: int) -> list[tuple[int, T]]:
    """The pieces of process ``rank`` of ``world``, with their places.

    Pieces grow in length, so they are dealt to and fro: 0, 1, 2, 2, 1, 0, 0, ...
    """
    turn = (rank, 2 * world - 1 - rank)
    return [(place, piece) for place, piece in enumerate(pieces) if place % (2 * world) in turn]


def _cut(found: list[list[TokenSequence]], size: int, pieces: int) -> list[list[TokenSequence]]:
    """Families to pieces of like size, cut between two families where a piece may end there."""
    sequences = [sequence for family in found for sequence in family]
    ends = list(accumulate(len(family) for family in found))
    parts, start = list[list[TokenSequence]](), 0
    for left in range(pieces, 0, -1):
        rest = len(sequences) - start
        least, most = max(min(rest, 1), rest - (left - 1) * size), min(size, max(rest - (left - 1), min(rest, 1)))
        even = start + -(-rest // left)
        allowed = [end for end in ends if start + least <= end <= start + most]
        stop = min(allowed, key=lambda end: abs(end - even), default=even)
        parts.append(sequences[start:stop])
        start = stop
    return parts


def _by_length(sequences: Sequence[TokenSequence]) -> list[list[TokenSequence]]:
    return [[sequences[place] for place in family] for family in families_by_length(sequences)]
