"""Rotations: a fixed number of subjects is looked at each time, and what that can and cannot find."""

from __future__ import annotations

import math


def chance_to_find(everybody: int, drawn: int, marked: int, *, rounds: int = 1, power: float = 1.0) -> float:
    """Chance that some rounds find one of the marked subjects, whoever of them these are.

    The hypergeometric distribution of the marked among those drawn; nobody is drawn twice before all were.

    Args:
        everybody: number of subjects.
        drawn: number of them in a round.
        marked: number of those who could be found.
        power: chance that a marked one who is drawn is found.

    Returns:
        0-1; higher = found more surely.
    """
    total = min(everybody, drawn * rounds)
    missed = 0.0
    for hits in range(max(0, total - (everybody - marked)), min(marked, total) + 1):
        ways = math.comb(marked, hits) * math.comb(everybody - marked, total - hits)
        missed += ways / math.comb(everybody, total) * (1.0 - power) ** hits
    return 1.0 - missed


def rounds_until_all(everybody: int, drawn: int) -> int:
    """Number of rounds in which each subject is drawn at least once."""
    return math.ceil(everybody / drawn)


def rounds_until_found(everybody: int, drawn: int, marked: int, chance: float) -> int:
    """Number of rounds after which one of the marked is drawn with at least this chance."""
    rounds = range(1, rounds_until_all(everybody, drawn) + 1)
    return next(number for number in rounds if chance_to_find(everybody, drawn, marked, rounds=number) >= chance)
