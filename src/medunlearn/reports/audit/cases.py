"""A finding of the paper and its cases in one's own audits."""

from __future__ import annotations

from dataclasses import dataclass

from medunlearn.reports.sweep.cases import FAILS, HOLDS, LEAST_SETTLED, OPEN, Evidence, Verdict


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
class Finding:
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
        """``Holds in 12 of 20 cases, does not hold in 2, open in 6.``"""
        if not self.cases:
            return f"No case: {self.needs}."
        counts, total = self.counts, len(self.cases)
        noun = "case" if total == 1 else "cases"
        return (
            f"Holds in {counts[HOLDS]} of {total} {noun}, does not hold in {counts[FAILS]}, open in {counts[OPEN]}."
        )


def decided(sign: bool | None) -> Verdict:
    """Holds where a sign is for it, does not hold where it is against it."""
    return OPEN if sign is None else HOLDS if sign else FAILS
