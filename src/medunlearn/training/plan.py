"""Which sequences each optimizer step sees: a pure function of the step's number and a seed.

So resuming needs no state but the number of the last step, and two runs with one seed see the same batches.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from medunlearn.errors import InputError
from medunlearn.models.sequences import TokenSequence, families
from medunlearn.seeds import generator


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


def micro_batches(step: Mapping[str, Sequence[TokenSequence]], size: int) -> list[dict[str, list[TokenSequence]]]:
    """A step cut into pieces of at most ``size`` sequences a side.

    Sequences that share text stay together and those of like length follow each other, which saves work; the
    terms of the pieces add up to the step's, so this changes no number (see methods.protocol).
    """
    ordered = {side: _by_length(sequences) for side, sequences in step.items()}
    count = max(len(sequences) for sequences in ordered.values())
    return [
        {side: sequences[start : start + size] for side, sequences in ordered.items()}
        for start in range(0, count, size)
    ]


def _by_length(sequences: Sequence[TokenSequence]) -> list[TokenSequence]:
    found = [[sequences[place] for place in family] for family in families(sequences)]
    found.sort(key=lambda family: max(len(sequence.ids) for sequence in family))
    return [sequence for family in found for sequence in family]
