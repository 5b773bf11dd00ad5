"""A finding and its cases: what is claimed, how it is decided, and by which numbers."""

from __future__ import annotations

from dataclasses import dataclass

from medunlearn.papers.amnesia.report.cases import Evidence
from medunlearn.reports.verdicts import Ruled, Verdict


@dataclass(frozen=True, slots=True)
class Case:
    """One method and measure, on one split or on two that are compared.

    Attributes:
        measure: its title.
        says: what the numbers show, in a few words.
    """

    split: str
    method: str
    measure: str
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
    """

    name: str
    claim: str
    rule: str
    cases: tuple[Case, ...]

    @property
    def no_case(self) -> str:
        return "The sweep has no case for it."


def negated(sign: bool | None) -> bool | None:
    return None if sign is None else not sign
