"""A finding of the paper and its cases in one's own audits."""

from __future__ import annotations

from dataclasses import dataclass

from medunlearn.papers.amnesia.report.cases import Evidence
from medunlearn.reports.verdicts import Ruled, Verdict


@dataclass(frozen=True, slots=True)
class Case:
    """One model at one place.

    Attributes:
        model: its label, and that of whom it is held against.
        where: corpus, prefix length, prompt.
        says: what the numbers show, in a few words.
    """

    model: str
    where: str
    verdict: Verdict
    says: str
    evidence: tuple[Evidence, ...]


@dataclass(frozen=True, slots=True)
class Finding(Ruled):
    """A claim, and what these audits say of it.

    Attributes:
        name: short, for programs.
        claim: in words.
        rule: how a case is decided.
        published: what the paper's own numbers say of it, where they do not agree with its words.
        needs: what an audit must have for there to be a case.
    """

    name: str
    claim: str
    rule: str
    published: str
    needs: str
    cases: tuple[Case, ...]

    @property
    def no_case(self) -> str:
        return f"No case: {self.needs}."
