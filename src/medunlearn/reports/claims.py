"""A paper's claims on one's own numbers: evidence, cases, and findings with a verdict.

A case is settled only by intervals: it holds where each of its numbers has an interval on the side of its threshold
that the claim says, does not hold where one is settled on the other side, and is open otherwise. A number of fewer
than five subjects settles nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from medunlearn.reports.blocks import Cell, Statement, Table, Text, blocks
from medunlearn.reports.formatting import ABSENT, interval, signed

Verdict = Literal["holds", "does not hold", "open", "not measurable"]
HOLDS: Verdict = "holds"
FAILS: Verdict = "does not hold"
OPEN: Verdict = "open"
NOT_MEASURABLE: Verdict = "not measurable"
VERDICTS: tuple[Verdict, ...] = (HOLDS, FAILS, OPEN, NOT_MEASURABLE)

FEWEST_SUBJECTS = 5
"""A number of fewer subjects settles nothing: their bootstrap has few distinct draws."""

LEAST_SETTLED = 0.5
"""Share of the cases that must be for a claim before it holds as a whole."""

_TONES: Mapping[Verdict, Literal["good", "bad", "open"]] = {HOLDS: "good", FAILS: "bad"}


@dataclass(frozen=True, slots=True)
class Evidence:
    """A number minus its threshold, with its 95% interval over subjects.

    Attributes:
        name: the comparison in words.
        value, low, high: None where it was not measured, or has no interval; ``reason`` then says why.
        n_subjects: None where they were counted already and enough.
    """

    name: str
    value: float | None
    low: float | None = None
    high: float | None = None
    n_subjects: int | None = None
    reason: str = ""

    @classmethod
    def of(cls, name: str, number: Any, minus: float = 0.0, *, reason: str | None = None) -> Evidence:
        """A contrast or reading, minus a constant threshold."""
        value, low, high = (
            None if edge is None else edge - minus for edge in (number.value, number.low, number.high)
        )
        why = str(getattr(number, "reason", "")) if reason is None else reason
        return cls(name, value, low, high, number.n_subjects, why or ("unscored" if value is None else ""))

    @property
    def _few(self) -> bool:
        return self.n_subjects is not None and self.n_subjects < FEWEST_SUBJECTS

    @property
    def measured(self) -> bool:
        """Whether its interval can settle anything."""
        return None not in (self.value, self.low, self.high) and not self._few

    @property
    def above(self) -> bool | None:
        """True where the interval is above 0, False where it is below; None where it holds 0 or settles nothing."""
        if self.low is None or self.high is None or not self.measured or self.low <= 0.0 <= self.high:
            return None
        return self.low > 0.0

    @property
    def below(self) -> bool | None:
        """True where the interval is below 0."""
        return None if self.above is None else not self.above

    def __str__(self) -> str:
        if self.value is None:
            return f"{self.name} {ABSENT} ({self.reason or 'not measured'})"
        more = self.reason or (f"{self.n_subjects} subjects" if self._few else "")
        shown = f"{self.name} {signed(self.value)} {interval(self.low, self.high)}".strip()
        return f"{shown} ({more})" if more else shown


@dataclass(frozen=True, slots=True)
class Case:
    """One comparison that a claim is decided by, labelled by where it is from: ``{"run": "NPO"}``."""

    labels: Mapping[str, str]
    verdict: Verdict
    says: str
    evidence: tuple[Evidence, ...] = ()


@dataclass(frozen=True, slots=True)
class Finding:
    """A claim with its cases, decided each by its rule.

    Attributes:
        name: short, for programs.
        context: the mode in which the models were asked, where a report has several.
        published: what the paper's own numbers say of it.
        needs: what a run must have for there to be a case.
    """

    name: str
    claim: str
    rule: str
    cases: tuple[Case, ...]
    context: str = ""
    published: str = ""
    needs: str = ""

    @property
    def counts(self) -> dict[Verdict, int]:
        """Verdict -> number of cases."""
        return _counts(self.cases)

    @property
    def verdict(self) -> Verdict:
        """Does not hold with one case against it; holds where at least half of the cases are for it."""
        counts = self.counts
        if counts[FAILS]:
            return FAILS
        if counts[HOLDS] and counts[HOLDS] >= LEAST_SETTLED * len(self.cases):
            return HOLDS
        return OPEN if counts[HOLDS] or counts[OPEN] else NOT_MEASURABLE

    @property
    def summary(self) -> str:
        """``Holds in 12 of 20 cases, does not hold in 2, open in 6.``"""
        if not self.cases:
            return f"No case: {self.needs}." if self.needs else "There is no case for it."
        counts, noun = self.counts, "case" if len(self.cases) == 1 else "cases"
        missing = f", not measurable in {counts[NOT_MEASURABLE]}" if counts[NOT_MEASURABLE] else ""
        return (
            f"Holds in {counts[HOLDS]} of {len(self.cases)} {noun}, does not hold in {counts[FAILS]}, open in "
            f"{counts[OPEN]}{missing}."
        )


def decide(signs: Iterable[bool | None]) -> Verdict:
    """Holds where every sign is True, does not where one is False, is open otherwise; not measurable of no sign."""
    known = list(signs)
    if not known:
        return NOT_MEASURABLE
    if any(sign is False for sign in known):
        return FAILS
    return HOLDS if all(known) else OPEN


def settle(evidence: Sequence[Evidence], side: Literal["above", "below"] = "above") -> Verdict:
    """Decide by evidence that must all lie on one side of 0; not measurable where no interval can settle it."""
    if not any(one.measured for one in evidence):
        return NOT_MEASURABLE
    return decide(getattr(one, side) for one in evidence)


def cases_table(finding: Finding) -> Table:
    """One row a case: its labels, verdict, what it says, and its numbers."""
    names = list(dict.fromkeys(name for case in finding.cases for name in case.labels))
    columns = (*(name.capitalize() for name in names), "Case", "What the numbers show", "Numbers")
    rows = (
        (*(case.labels.get(n, "") for n in names), case.verdict, case.says, "; ".join(map(str, case.evidence)))
        for case in finding.cases
    )
    return Table(tuple(map(Cell, columns)), tuple(tuple(map(Cell, row)) for row in rows))


def statements(findings: Iterable[Finding]) -> tuple[Statement, ...]:
    """A block a finding: verdict and claim, and folded behind them its cases and its rule."""
    return tuple(map(_statement, findings))


def _statement(finding: Finding) -> Statement:
    inside = blocks(
        cases_table(finding) if finding.cases else None,
        Text(f"Rule: {finding.rule}", "aside"),
        Text(f"In the paper: {finding.published}", "aside") if finding.published else None,
    )
    badge, tone = finding.verdict if finding.cases else "no case", _TONES.get(finding.verdict, "open")
    return Statement(badge, tone, finding.claim, finding.summary, inside, finding.context)


def findings_text(findings: Iterable[Finding], by: str = "") -> str:
    """Findings for a terminal: verdict and counts, then every case, or counts by the label ``by``."""
    lines: list[str] = []
    for one in findings:
        context = f" ({one.context})" if one.context else ""
        lines += [f"{one.verdict.upper()}: {one.claim}{context}", f"  {one.summary}"]
        lines += [f"  {line}" for line in (_counts_by(one, by) if by else map(_case_text, one.cases))]
        lines += [f"  Rule: {one.rule}", ""]
    return "\n".join(lines).rstrip() + "\n" if lines else ""


def _case_text(case: Case) -> str:
    where = ", ".join(text for text in case.labels.values() if text)
    return f"{where}: {case.verdict}; {case.says}; " + "; ".join(map(str, case.evidence))


def _counts_by(finding: Finding, label: str) -> Iterator[str]:
    """``NPO: 3 for, 0 against, 1 open`` of every value of a label."""
    for value in dict.fromkeys(case.labels.get(label, "") for case in finding.cases):
        counts = _counts([case for case in finding.cases if case.labels.get(label, "") == value])
        missing = counts[OPEN] + counts[NOT_MEASURABLE]
        yield f"{value}: {counts[HOLDS]} for, {counts[FAILS]} against, {missing} open"


def _counts(cases: Sequence[Case]) -> dict[Verdict, int]:
    counted = Counter(case.verdict for case in cases)
    return {verdict: counted[verdict] for verdict in VERDICTS}


def findings_data(findings: Iterable[Finding]) -> list[dict[str, Any]]:
    """Findings for ``report.json``: a case's labels stand beside its verdict."""
    return [
        {
            **{name: getattr(finding, name) for name in ("name", "claim", "rule")},
            **{name: text for name in ("context", "published") if (text := getattr(finding, name))},
            "verdict": finding.verdict,
            "counts": finding.counts,
            "cases": [
                {
                    **case.labels,
                    "verdict": case.verdict,
                    "says": case.says,
                    "evidence": list(map(asdict, case.evidence)),
                }
                for case in finding.cases
            ],
        }
        for finding in findings
    ]
