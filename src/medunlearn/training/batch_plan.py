"""Batch plan: the sequences of each optimizer step, a pure function of step number and seed.

So resuming needs only the number of the last step, and two runs with the same seed have the same batches.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate
from typing import NamedTuple, TypeVar

from medunlearn.errors import InputError
from medunlearn.models.memo import tokens_of
from medunlearn.models.sequences import TokenSequence, families, families_by_length, tokens_once
from medunlearn.seeds import generator

T = TypeVar("T")
RECOVERY = 2
"""Most epochs of a recovery for each epoch before it."""


class UtilityRecovery(NamedTuple):
    """End of a run whose other sides have suffered.

    The learning rate falls to 0 over :data:`RECOVERY` times as many epochs as went before.

    Attributes:
        start: the epoch after which it began.
        rests: whether the leading side and its partners rest in the next epoch. A step then has as many sequences
            as another one, of the other sides alone.
    """

    start: int
    rests: bool

    def end(self, epochs: int) -> int:
        """Its last epoch in a run of at most ``epochs``."""
        return min((1 + RECOVERY) * self.start, epochs)


@dataclass
class Plan:
    """The order of sequences in a run.

    Attributes:
        sides: name -> its sequences, e.g. ``{"forget": [...], "retain": [...]}``. The first one leads: an epoch is
            one pass over it. From each other side a step draws as many sequences as from the leading side, in a
            shuffled order that restarts when used up. Sequences with shared text (the questions on one record, in
            ``note`` context) are adjacent, so that the text is computed once.
        batch_size: sequences per side in one optimizer step, or rows; the last step of an epoch may have fewer.
        epochs: passes over the leading side.
        seed: seed of the orders.
        row: row length in tokens; if given, sequences are packed into rows, and a row counts as one sequence.
            Sequences in one row do not attend to each other.
        stop: number of steps after which the run ends, within its last epoch; None: at the end of that epoch.
        partners: further sides paired one to one with the leading side: name -> key of a leading sequence -> its
            partners, which alternate between epochs.
        chunks: parts of the leading side that are trained on one after the other, each for all epochs; 1: the whole
            side in every epoch.
        ratios: sequences of another side in a step for each of the leading side; 1 where a side is not named.
        recovery: number of completed epochs -> the recovery that the next epoch is part of, or None; None: a plan
            without any.
    """

    sides: Mapping[str, Sequence[TokenSequence]]
    batch_size: int
    epochs: int
    seed: int
    row: int | None = None
    stop: int | None = None
    partners: Mapping[str, Mapping[str, Sequence[TokenSequence]]] = field(default_factory=dict)
    chunks: int = 1
    ratios: Mapping[str, int] = field(default_factory=dict)
    recovery: Callable[[int], UtilityRecovery | None] | None = None
    _orders: dict[tuple[str, int], list[list[int]]] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        for side, sequences in self.sides.items():
            if not sequences:
                raise InputError(f"There is nothing to train on: the {side} set has no sequences.")
        # What follows each other in any order, and how many of them a side has to draw from.
        self._kin = {
            side: families(sequences) if self.row is None else rows(sequences, self.row)
            for side, sequences in self.sides.items()
        }
        self._counts = {
            side: len(sequences) if self.row is None else len(self._kin[side])
            for side, sequences in self.sides.items()
        }
        self.lead = next(iter(self.sides))
        self.steps_an_epoch = -(-self._counts[self.lead] // self.batch_size)

    @property
    def steps(self) -> int:
        return self.steps_an_epoch * self.epochs if self.stop is None else self.stop

    def ends_epoch(self, step: int) -> bool:
        """True if an epoch ends after ``step`` steps; the last one ends with the run."""
        return step % self.steps_an_epoch == 0 or step == self.steps

    def epoch(self, step: int) -> float:
        """Number of completed epochs after ``step`` steps."""
        return step / self.steps_an_epoch

    def rests(self, number: int) -> bool:
        """True if step ``number`` has no sequences of the leading side and its partners."""
        recovery = self._recovery(number)
        return recovery is not None and recovery.rests

    def rate_share(self, number: int) -> float:
        """Share of the learning rate that step ``number`` takes, 0-1; 1 outside of a recovery."""
        if (recovery := self._recovery(number)) is None:
            return 1.0
        start, end = (epoch * self.steps_an_epoch for epoch in (recovery.start, recovery.end(self.epochs)))
        return max(0.0, (end - number) / (end - start))

    def _recovery(self, number: int) -> UtilityRecovery | None:
        return None if self.recovery is None else self.recovery(number // self.steps_an_epoch)

    @property
    def _resting_share(self) -> int:
        """Sequences of a step whose leading side rests for each sequence of the same side in another step."""
        others = len(self.sides) - 1
        return (others + 1 + len(self.partners)) // max(1, others)

    def draws(self, side: str) -> tuple[list[TokenSequence], int]:
        """The distinct sequences of a side used in the run, and the number of draws, which may repeat sequences."""
        if side in self.partners:
            turns = [own[: self.epochs] for own in self.partners[side].values()]
            return [sequence for own in turns for sequence in own], self.epochs * len(turns)
        sequences, count = self.sides[side], self.epochs * self._counts[self.lead] * self.ratios.get(side, 1)
        count *= 1 if self.recovery is None else self._resting_share
        if count >= self._counts[side]:
            return _distinct(sequences), count
        return _distinct(sequences[place] for unit in self._order(side, 0)[:count] for place in unit), count

    def step(self, number: int) -> dict[str, list[TokenSequence]]:
        """The sequences of step ``number`` (0 is the first), by side."""
        epoch, place = divmod(number, self.steps_an_epoch)
        total = self._counts[self.lead]
        first = place * self.batch_size
        count = min(self.batch_size, total - first)
        start = epoch * total + first
        rests = self.rests(number)
        shares = {
            side: self.ratios.get(side, 1) * (self._resting_share if rests else 1)
            for side in self.sides
            if not (rests and side == self.lead)
        }
        batch = {side: self._draw(side, start * share, count * share) for side, share in shares.items()}
        if rests:
            return batch
        turns = [self._lap(self.lead, place)[0] for place in range(start, start + count)]
        for side, partners in self.partners.items():
            own = zip([partners[sequence.key] for sequence in batch[self.lead]], turns, strict=True)
            batch[side] = [each[turn % len(each)] for each, turn in own]
        return batch

    def _draw(self, side: str, start: int, count: int) -> list[TokenSequence]:
        sequences = self.sides[side]
        places = (self._lap(side, place) for place in range(start, start + count))
        return [sequences[member] for lap, order, index in places for member in order[index]]

    def _lap(self, side: str, place: int) -> tuple[int, list[list[int]], int]:
        """The lap over a side in which a place of its stream lies, that lap's order, and the place in it."""
        if self.chunks == 1 or side != self.lead:
            lap, index = divmod(place, self._counts[side])
            return lap, self._order(side, lap), index
        for number, chunk in enumerate(self._chunked):
            if place < self.epochs * len(chunk):
                lap, index = divmod(place, len(chunk))
                order = generator("chunk order", side, number, lap, self.seed).permutation(len(chunk)).tolist()
                return lap, [[chunk[own]] for own in order], index
            place -= self.epochs * len(chunk)
        raise IndexError(place)

    @cached_property
    def _chunked(self) -> list[list[int]]:
        """Indices of the leading side's sequences in each chunk; sequences with shared text are in one."""
        kin = self._kin[self.lead]
        order = generator("chunks", self.seed).permutation(len(kin)).tolist()
        return [
            [member for place in order[number :: self.chunks] for member in kin[place]]
            for number in range(min(self.chunks, len(kin)))
        ]

    def _order(self, side: str, lap: int) -> list[list[int]]:
        if (side, lap) not in self._orders:
            self._orders = {key: order for key, order in self._orders.items() if key[0] != side}
            kin = self._kin[side]
            order = generator("order", side, lap, self.seed).permutation(len(kin))
            if self.row is None:
                self._orders[side, lap] = [[place] for family in order for place in kin[family]]
            else:
                self._orders[side, lap] = [kin[row] for row in order]
        return self._orders[side, lap]


def _distinct(sequences: Iterable[TokenSequence]) -> list[TokenSequence]:
    return [*{sequence.key: sequence for sequence in sequences}.values()]


def rows(sequences: Sequence[TokenSequence], tokens: int) -> list[list[int]]:
    """Indices of sequences packed into rows of at most ``tokens``: best fit, longest first.

    A longer sequence has its own row.
    """
    filled: list[list[int]] = []
    room: list[tuple[int, int]] = []  # what is left in each row, and which row it is
    for place in sorted(range(len(sequences)), key=lambda place: -len(sequences[place].ids)):
        length = len(sequences[place].ids)
        best = bisect_left(room, (length, 0))
        space, row = room.pop(best) if best < len(room) else (max(tokens, length), len(filled))
        if row == len(filled):
            filled.append([])
        filled[row].append(place)
        insort(room, (space - length, row))
    return filled


def micro_batches(
    step: Mapping[str, Sequence[TokenSequence]],
    size: int,
    processes: int = 1,
    row: int | None = None,
    tokens: int | None = None,
    partners: Collection[str] = (),
) -> list[dict[str, list[TokenSequence]]]:
    """A step split into pieces of at most ``size`` sequences per side, equally many for each process.

    Sequences with shared text stay together if ``size`` permits, and sequences of similar length are adjacent,
    which saves work; the terms of the pieces sum to the step's, so this changes no number (see methods.protocol). A
    step of fewer sequences than processes has fewer pieces.

    Args:
        row: row length of the plan; ``size`` then counts rows.
        tokens: most tokens of a piece per side, with shared text counted once; a longer sequence forms its own
            piece.
        partners: sides whose sequences are split like those of the first side.
    """
    if partners:
        return _with_partners(step, partners, micro_batches(_without(step, partners), size, processes, row, tokens))
    if row is not None:
        return _by_tokens(step, min(size * row, tokens or size * row), processes)
    most = max(len(sequences) for sequences in step.values())
    if tokens is not None:
        within = {side: _pieces_within(_by_length(sequences), size, tokens) for side, sequences in step.items()}
        pieces = min(most, -(-max(map(len, within.values())) // processes) * processes)
        parted = {side: sorted(_split_pieces(parts, pieces), key=tokens_once) for side, parts in within.items()}
        return [{side: parts[place] for side, parts in parted.items()} for place in range(pieces)]
    pieces = -(-most // size)
    pieces = min(most, -(-pieces // processes) * processes)
    cut = {side: _split_families(_by_length(sequences), size, pieces) for side, sequences in step.items()}
    return [{side: parts[place] for side, parts in cut.items()} for place in range(pieces)]


def _without(
    step: Mapping[str, Sequence[TokenSequence]], partners: Collection[str]
) -> dict[str, Sequence[TokenSequence]]:
    return {side: sequences for side, sequences in step.items() if side not in partners}


def _with_partners(
    step: Mapping[str, Sequence[TokenSequence]],
    partners: Collection[str],
    pieces: list[dict[str, list[TokenSequence]]],
) -> list[dict[str, list[TokenSequence]]]:
    """The pieces with the partners of their leading sequences."""
    lead = next(iter(step))
    for side in partners:
        of = {own.key: partner for own, partner in zip(step[lead], step[side], strict=True)}
        for piece in pieces:
            piece[side] = [of[sequence.key] for sequence in piece[lead]]
    return pieces


def largest(
    step: Mapping[str, Sequence[TokenSequence]],
    processes: int = 1,
    row: int | None = None,
    tokens: int | None = None,
) -> int:
    """The size from which on pieces of a step do not get larger."""
    if row is not None:
        tokens_each = -(-max(map(tokens_of, step.values())) // processes)
        return -(-(tokens_each if tokens is None else min(tokens_each, tokens)) // row)
    if tokens is not None:
        cut = [_pieces_within(_by_length(sequences), len(sequences), tokens) for sequences in step.values()]
        return max(len(piece) for pieces in cut for piece in pieces)
    return -(-max(len(sequences) for sequences in step.values()) // processes)


def _by_tokens(
    step: Mapping[str, Sequence[TokenSequence]], most: int, processes: int
) -> list[dict[str, list[TokenSequence]]]:
    """Pieces of at most ``most`` tokens for a step of packed rows, which contains its rows in sequence."""
    ((side, sequences),) = step.items()
    pieces: list[list[TokenSequence]] = [[]]
    filled = 0
    for sequence in sequences:
        if pieces[-1] and filled + len(sequence.ids) > most:
            pieces.append([])
            filled = 0
        pieces[-1].append(sequence)
        filled += len(sequence.ids)
    count = min(len(sequences), -(-len(pieces) // processes) * processes)
    return [{side: piece} for piece in sorted(_split_pieces(pieces, count), key=tokens_of)]


def _split_pieces(pieces: list[list[TokenSequence]], count: int) -> list[list[TokenSequence]]:
    """Split into the wanted number of pieces by halving those with the most sequences."""
    pieces = list(pieces)
    while len(pieces) < count:
        most = max(range(len(pieces)), key=lambda place: len(pieces[place]))
        half = len(pieces[most]) // 2
        pieces[most : most + 1] = [pieces[most][:half], pieces[most][half:]]
    return pieces


def _pieces_within(kin: Sequence[Sequence[TokenSequence]], size: int, tokens: int) -> list[list[TokenSequence]]:
    """Families in pieces of at most ``size`` sequences and ``tokens``; a family that does not fit starts a new
    piece.
    """
    pieces: list[list[TokenSequence]] = [[]]
    filled = 0
    for family in kin:
        full = filled + tokens_once(family) > tokens or len(pieces[-1]) + len(family) > size
        for place, sequence in enumerate(family):
            more = len(sequence.ids) - (sequence.shared if place else 0)
            full = full if place == 0 else filled + more > tokens or len(pieces[-1]) == size
            if pieces[-1] and full:
                pieces.append([])
                filled, more = 0, len(sequence.ids)
            pieces[-1].append(sequence)
            filled += more
    return pieces


def share(pieces: Sequence[T], rank: int, world: int) -> list[tuple[int, T]]:
    """The pieces of process ``rank`` of ``world``, with their indices.

    Pieces are sorted by length, so they are dealt back and forth: 0, 1, 2, 2, 1, 0, 0, ...
    """
    turn = (rank, 2 * world - 1 - rank)
    return [(place, piece) for place, piece in enumerate(pieces) if place % (2 * world) in turn]


def _split_families(kin: list[list[TokenSequence]], size: int, pieces: int) -> list[list[TokenSequence]]:
    """Group families into pieces of similar size, split between families if possible."""
    sequences = [sequence for family in kin for sequence in family]
    ends = list(accumulate(len(family) for family in kin))
    parts, start = list[list[TokenSequence]](), 0
    for more in range(pieces, 0, -1):
        rest = len(sequences) - start
        least, most = (
            max(min(rest, 1), rest - (more - 1) * size),
            min(size, max(rest - (more - 1), min(rest, 1))),
        )
        even = start + -(-rest // more)
        allowed = [end for end in ends if start + least <= end <= start + most]
        stop = min(allowed, key=lambda end: abs(end - even), default=even)
        parts.append(sequences[start:stop])
        start = stop
    return parts


def _by_length(sequences: Sequence[TokenSequence]) -> list[list[TokenSequence]]:
    return [[sequences[place] for place in family] for family in families_by_length(sequences)]
