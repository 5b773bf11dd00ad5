"""The best of several trials, by one rule for learning rates, tuned settings, tries of a request, and epochs.

A trial without a number is never chosen; one with a broken model only if every trial with a number broke its model;
of equal ones the first in order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class Worth(NamedTuple):
    """Worth of a trial.

    Attributes:
        value: lower is better; None without a number.
        broken: whether its model is broken.
        place: order among equal ones, the smallest first.
    """

    value: float | None
    broken: bool = False
    place: float = 0.0


def choose(worths: Sequence[Worth]) -> int | None:
    """Index of the best trial; None if none has a number."""
    scored = [index for index, worth in enumerate(worths) if worth.value is not None]
    healthy = [index for index in scored if not worths[index].broken] or scored
    return min(healthy, key=lambda index: (worths[index].value, worths[index].place), default=None)
