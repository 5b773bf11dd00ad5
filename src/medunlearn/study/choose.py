"""The best of several trials, by one rule for learning rates, tuned settings, tries of a request, and epochs.

A trial without a number is never chosen; one with a broken model only if every trial with a number broke its model;
of equal ones the first in order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

T = TypeVar("T")


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


def choose(trials: Sequence[T], worth: Callable[[T], Worth]) -> T | None:
    """The best trial; None if none has a number."""
    rated = [(worth(trial), trial) for trial in trials]
    scored = [(own, trial) for own, trial in rated if own.value is not None]
    healthy = [(own, trial) for own, trial in scored if not own.broken] or scored
    return min(healthy, key=lambda pair: (pair[0].value, pair[0].place), default=(None, None))[1]
