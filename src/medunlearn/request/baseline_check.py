"""Check of a baseline: values of patients whom a model never saw must lie anywhere among made-up ones.

A patient is compared with unseen ones. If these are invented, and the model finds their values unlikely from the
start, everybody real stands out beside them, and a perfect deletion looks like a residual; if it finds them too
likely, a residual does not show. Both are seen from the unseen patients' own ranks: their mean is .5 if true values
and alternatives are exchangeable.

For *real* unseen notes the same numbers are computed, but a fault refuses nothing by itself: real values may be
more usual than alternatives, and then so are those of the request's patient. Like is compared with like, validly.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from medunlearn.request.standings import Standings
from medunlearn.statistics.others import LEAST_OTHERS

TOLERANCES: Mapping[str, tuple[float, float]] = {"identifiers": (0.08, 0.2), "values": (0.08, 0.12)}
"""Kind of facts -> distances below and above .5 that are never a fault, however many patients show them.

The kinds are tested apart, since one may be believable and the other not. Above, true values may be more usual than
alternatives: a date of discharge follows from that of admission, and alternatives lie outside of all notes' dates.
The request's patient has that advantage, too.
"""
PLACES = ("questions", "answers", "notes")
UNIFORM = 0.5
ALPHA = 0.01
"""Chance that a baseline of uniform ranks is refused; over all kinds."""


@dataclass(frozen=True, slots=True)
class BaselineRanks:
    """Mean rank of unseen patients' facts of one kind, with a t-test against .5; patients are the units.

    Attributes:
        kind: of facts (:data:`TOLERANCES`).
        mean: mean over patients of the mean over their facts: share of made-up values that are less likely, 0-1.
        spread: standard deviation among patients.
        patients: number of patients with such facts, >= 3.
        p: two-sided p-value of Student's t-test, in which facts of one patient may depend on each other.
    """

    kind: str
    mean: float
    spread: float
    patients: int
    p: float

    @property
    def is_uniform(self) -> bool:
        """True unless the mean is off by more than the tolerance and by more than chance explains."""
        below, above = TOLERANCES[self.kind]
        return -below <= self.mean - UNIFORM <= above or self.p >= ALPHA / len(TOLERANCES)


def baseline_fault(standings: Standings, unseen: Collection[str], *, invented: bool = True) -> str | None:
    """The reason why unseen patients are no baseline for a model, in plain words; None if there is none.

    None also where fewer than three patients have ranks: such a baseline has no comparison anyway.

    Args:
        standings: of the model before, or of the model after.
        unseen: patients whom the model never saw.
        invented: whether they are invented; of real ones a fault is to be reported, and refuses nothing.
    """
    who = "invented patients" if invented else "unseen patients"
    faults = [
        f"{who}' {ranks.kind} rank at {ranks.mean:.2f} instead of {UNIFORM:.2f} on average ({ranks.patients} "
        f"patients, p = {ranks.p:.2g})"
        for ranks in baseline_ranks(standings, unseen)
        if not ranks.is_uniform
    ]
    if not faults:
        return None
    reason = "they are not believable to this model" if invented else "true values are not like made-up ones here"
    return f"{' and '.join(faults)}: {reason}"


def baseline_ranks(standings: Standings, unseen: Collection[str]) -> Iterator[BaselineRanks]:
    """The test of each kind of facts that at least three unseen patients have ranks of."""
    from scipy.special import stdtr

    for kind in TOLERANCES:
        means = patient_means(standings, unseen, kind)
        n = len(means)
        if n < LEAST_OTHERS:
            continue
        mean = math.fsum(means) / n
        spread = math.sqrt(math.fsum((own - mean) ** 2 for own in means) / (n - 1))
        distance = abs(mean - UNIFORM)
        t = distance / spread * math.sqrt(n) if spread else math.inf if distance else 0.0
        p = 2 * float(stdtr(n - 1, -t))
        yield BaselineRanks(kind, mean, spread, n, p)


def patient_means(standings: Standings, patients: Collection[str], kind: str) -> list[float]:
    """Mean rank over each patient's facts of a kind, in answers and in notes, for patients with such facts."""
    ways = [way for place in PLACES if (way := f"{kind} {place}") in standings.values]
    means = []
    for patient in sorted(patients):
        own = [way for way in ways if patient in standings.values[way]]
        if probes := sum(standings.probes[way][patient] for way in own):
            total = math.fsum(standings.probes[way][patient] * standings.values[way][patient] for way in own)
            means.append(total / probes)
    return means
