"""A finding and its cases: what is claimed, how it is decided, and by which numbers."""

from __future__ import annotations

from dataclasses import dataclass

from medunlearn.papers.amnesia.report.content import Contrast
from medunlearn.reports.verdicts import Ruled, Verdict
from medunlearn.reports.words import ABSENT, interval, signed


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
class Finding(Ruled):
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
    def no_case(self) -> str:
        return "The sweep has no case for it."
