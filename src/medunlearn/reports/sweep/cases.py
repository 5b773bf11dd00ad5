"""A finding and its cases: what is claimed, how it is decided, and by which numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from medunlearn.reports.sweep.content import Contrast
from medunlearn.reports.words import ABSENT, interval, signed

Verdict = Literal["holds", "does not hold", "not measurable at this scale"]
HOLDS: Verdict = "holds"
FAILS: Verdict = "does not hold"
OPEN: Verdict = "not measurable at this scale"

FEWEST_SUBJECTS = 5
"""A difference with fewer subjects in one of its parts settles nothing: their bootstrap has few distinct draws."""

LEAST_SETTLED = 0.5
"""Share of the cases that must be settled before a finding holds as a whole."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """A difference that a case is decided by, in words."""

    name: str
    contrast: Contrast

    def __str__(self) -> str:
        found = self.contrast
        if found.value is None:
            return f"{self.name} {ABSENT} ({found.reason})"
        more = f" ({found.reason})" if found.reason else ""
        return f"{self.name} {signed(found.value)} {interval(found.low, found.high)}".strip() + more


@dataclass(frozen=True, slots=True)
class Case:
    """One method on one split.

    Attributes:
        says: what the numbers show, in a few words.
    """

    context: str
    split: str
    method: str
    verdict: Verdict
    says: str
    evidence: tuple[Evidence, ...]


@dataclass(frozen=True, slots=True)
class Finding:
    """A claim of the paper, and what this sweep says about it.

    Attributes:
        name: short, for programs.
        claim: in words.
        rule: how a case is decided.
        context: the mode in which the models were asked.
    """

    name: str
    claim: str
    rule: str
    context: str
    cases: tuple[Case, ...]

    @property
    def counts(self) -> dict[Verdict, int]:
        found: dict[Verdict, int] = {HOLDS: 0, FAILS: 0, OPEN: 0}
        for case in self.cases:
            found[case.verdict] += 1
        return found

    @property
    def verdict(self) -> Verdict:
        """Does not hold with one case against it; holds where at least half of the cases are for it."""
        counts = self.counts
        if counts[FAILS]:
            return FAILS
        if counts[HOLDS] and counts[HOLDS] >= LEAST_SETTLED * len(self.cases):
            return HOLDS
        return OPEN

    @property
    def summary(self) -> str:
        """``holds in 12 of 20 cases, does not hold in 2, not settled in 6``."""
        if not self.cases:
            return "The sweep has no case for it."
        counts, total = self.counts, len(self.cases)
        noun = "case" if total == 1 else "cases"
        return (
            f"Holds in {counts[HOLDS]} of {total} {noun}, does not hold in {counts[FAILS]}, open in {counts[OPEN]}."
        )
