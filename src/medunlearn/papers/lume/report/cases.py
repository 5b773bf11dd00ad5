"""A finding and its cases: what is claimed, how it is decided, and by which numbers."""

from __future__ import annotations

from dataclasses import dataclass

from medunlearn.reports.verdicts import FEWEST_SUBJECTS, Ruled, Verdict
from medunlearn.reports.words import ABSENT, interval, signed


@dataclass(frozen=True, slots=True)
class Evidence:
    """A number minus its threshold, with its interval.

    Attributes:
        name: what is compared with what, in words.
        value: None where it was not measured; ``reason`` then says why.
        low, high: 95% interval over documents; None where there is none.
        n_subjects: documents behind it.
    """

    name: str
    value: float | None
    low: float | None = None
    high: float | None = None
    n_subjects: int = 0
    reason: str = ""

    @property
    def above(self) -> bool | None:
        """True where the interval is above 0, False where it is below; None where it holds 0 or settles nothing."""
        if self.low is None or self.high is None or self.n_subjects < FEWEST_SUBJECTS:
            return None
        return None if self.low <= 0.0 <= self.high else self.low > 0.0

    @property
    def below(self) -> bool | None:
        """True where the interval is below 0."""
        return None if self.above is None else not self.above

    def __str__(self) -> str:
        if self.value is None:
            return f"{self.name} {ABSENT} ({self.reason or 'not measured'})"
        few = f" ({self.n_subjects} documents)" if self.n_subjects < FEWEST_SUBJECTS else ""
        return f"{self.name} {signed(self.value)} {interval(self.low, self.high)}".rstrip() + few


@dataclass(frozen=True, slots=True)
class Case:
    """One run, on one task where the finding is about tasks.

    Attributes:
        run: label of the run.
        task: the task, or empty.
        says: what the numbers show, in a few words.
    """

    run: str
    task: str
    verdict: Verdict
    says: str
    evidence: tuple[Evidence, ...]


@dataclass(frozen=True, slots=True)
class Finding(Ruled):
    """A claim of the paper, and what these runs say about it.

    Attributes:
        name: short, for programs.
        claim: in words.
        rule: how a case is decided.
    """

    name: str
    claim: str
    rule: str
    cases: tuple[Case, ...]

    @property
    def no_case(self) -> str:
        return "These runs have no case for it."
