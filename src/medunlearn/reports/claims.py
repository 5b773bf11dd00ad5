"""A paper's claims on the user's numbers: evidence, cases, and findings with a verdict.

A case is decided only by intervals: it holds if the interval of each number is on the claimed side of its
threshold, does not hold if one is on the other side, and is open otherwise. Numbers with fewer than five subjects,
or a single training seed, decide nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from medunlearn.reports.blocks import Cell, Statement, Table, Text, blocks
from medunlearn.reports.formatting import ABSENT, interval, signed
from medunlearn.statistics.intervals import MIN_SUBJECTS, holm

Verdict = Literal["holds", "does not hold", "open", "not measurable"]
HOLDS: Verdict = "holds"
FAILS: Verdict = "does not hold"
OPEN: Verdict = "open"
NOT_MEASURABLE: Verdict = "not measurable"
VERDICTS: tuple[Verdict, ...] = (HOLDS, FAILS, OPEN, NOT_MEASURABLE)

LEAST_SEEDS = 2
"""A number of fewer training seeds settles nothing: another training run may come out differently."""

ALPHA = 0.05
"""Chance of a false finding: of each comparison, or with Holm's correction of even one."""

LEAST_SETTLED = 0.5
"""Share of the cases that must be for a claim before it holds as a whole."""

_TONES: Mapping[Verdict, Literal["good", "bad", "open"]] = {HOLDS: "good", FAILS: "bad"}


@dataclass(frozen=True, slots=True)
class Evidence:
    """A number minus its threshold, with its 95% interval over subjects.

    Attributes:
        name: the comparison in words.
        value, low, high: None without a measurement or interval, with a ``reason``.
        n_subjects: number of subjects; None if known to be sufficient.
        n_seeds: number of training seeds; None if nothing was trained.
        p: two-sided p-value of "the number is its threshold"; None if it is not known.
        least_subjects: smallest number of subjects for a decision.
    """

    name: str
    value: float | None
    low: float | None = None
    high: float | None = None
    n_subjects: int | None = None
    reason: str = ""
    n_seeds: int | None = None
    p: float | None = None
    least_subjects: int = MIN_SUBJECTS

    @classmethod
    def of(cls, name: str, number: Any, minus: float = 0.0, *, reason: str | None = None) -> Evidence:
        """Evidence from a contrast or reading, minus a constant threshold."""
        value, low, high = (
            None if edge is None else edge - minus for edge in (number.value, number.low, number.high)
        )
        why = str(getattr(number, "reason", "")) if reason is None else reason
        return cls(
            name,
            value,
            low,
            high,
            number.n_subjects,
            why or ("unscored" if value is None else ""),
            len(getattr(number, "by_seed", ())) or None,
            getattr(number, "p", None) if minus == 0.0 else None,
        )

    @property
    def too_little(self) -> str:
        """Reason why its interval decides nothing: few subjects, or one training seed; "" if it may decide."""
        if self.n_subjects is not None and self.n_subjects < self.least_subjects:
            return f"{self.n_subjects} subjects: fewer than {self.least_subjects} settle nothing"
        if self.n_seeds is not None and self.n_seeds < LEAST_SEEDS:
            return "one training seed settles nothing"
        return ""

    @property
    def measured(self) -> bool:
        """True if it has an interval over at least five subjects."""
        few = self.n_subjects is not None and self.n_subjects < MIN_SUBJECTS
        return None not in (self.value, self.low, self.high) and not few

    @property
    def above(self) -> bool | None:
        """True if the interval is above 0, False if it is below; None if it contains 0 or decides nothing."""
        if self.low is None or self.high is None or self.too_little or self.low <= 0.0 <= self.high:
            return None
        return self.low > 0.0

    @property
    def below(self) -> bool | None:
        """True if the interval is below 0."""
        return None if self.above is None else not self.above

    def __str__(self) -> str:
        if self.value is None:
            return f"{self.name} {ABSENT} ({self.reason or 'not measured'})"
        more = self.reason or self.too_little
        text = f"{self.name} {signed(self.value)} {interval(self.low, self.high)}".strip()
        return f"{text} ({more})" if more else text


@dataclass(frozen=True, slots=True)
class Case:
    """One comparison that decides a claim, labelled by its origin: ``{"run": "NPO"}``."""

    labels: Mapping[str, str]
    verdict: Verdict
    says: str
    evidence: tuple[Evidence, ...] = ()


@dataclass(frozen=True, slots=True)
class Finding:
    """A claim with its cases, each decided by its rule.

    Attributes:
        name: short identifier.
        context: context mode, if a report has several.
        published: verdict of the paper's own numbers.
        needs: what a run needs for a case.
        of_collapse: the claim is about collapsing models, so a broken model may decide it.
    """

    name: str
    claim: str
    rule: str
    cases: tuple[Case, ...]
    context: str = ""
    published: str = ""
    needs: str = ""
    of_collapse: bool = False

    @property
    def counts(self) -> dict[Verdict, int]:
        """Verdict -> number of cases."""
        return _counts(self.cases)

    @property
    def verdict(self) -> Verdict:
        """``does not hold`` with one case against it; ``holds`` with at least half of the cases for it."""
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
    """Holds if every sign is True, does not hold if one is False, else open; not measurable without signs."""
    sign_list = list(signs)
    if not sign_list:
        return NOT_MEASURABLE
    if any(sign is False for sign in sign_list):
        return FAILS
    return HOLDS if all(sign_list) else OPEN


def settle(evidence: Sequence[Evidence], side: Literal["above", "below"] = "above") -> Verdict:
    """Decide by evidence that must all be on one side of 0; not measurable if no interval can decide it."""
    if not any(number.measured for number in evidence):
        return NOT_MEASURABLE
    return decide(getattr(number, side) for number in evidence)


def without_broken(findings: Iterable[Finding], broken: Callable[[Case, str], str]) -> tuple[Finding, ...]:
    """The findings with all decided cases open that involve a broken model, since empty answers are not forgetting.

    Args:
        broken: case and context -> why a model in it is broken, or "".
    """

    def opened(case: Case, context: str) -> Case:
        reason = broken(case, context) if case.verdict in (HOLDS, FAILS) else ""
        return replace(case, verdict=OPEN, says=f"a broken model decides nothing: {reason}") if reason else case

    return tuple(
        finding
        if finding.of_collapse
        else replace(finding, cases=tuple(opened(case, finding.context) for case in finding.cases))
        for finding in findings
    )


def cases_table(finding: Finding) -> Table:
    """One row per case: its labels, verdict, explanation, and numbers."""
    names = list(dict.fromkeys(name for case in finding.cases for name in case.labels))
    columns = (*(name.capitalize() for name in names), "Case", "What the numbers show", "Numbers")
    rows = (
        (*(case.labels.get(n, "") for n in names), case.verdict, case.says, "; ".join(map(str, case.evidence)))
        for case in finding.cases
    )
    return Table(tuple(map(Cell, columns)), tuple(tuple(map(Cell, row)) for row in rows))


def statements(findings: Sequence[Finding]) -> tuple[Statement | Text, ...]:
    """A block per finding with verdict and claim, its cases and rule folded; then the comparisons."""
    correction = comparisons(findings)
    return (*map(_statement, findings), *([Text(correction, "aside")] if correction else []))


def _statement(finding: Finding) -> Statement:
    inside = blocks(
        cases_table(finding) if finding.cases else None,
        Text(f"Rule: {finding.rule}", "aside"),
        Text(f"In the paper: {finding.published}", "aside") if finding.published else None,
    )
    badge, tone = finding.verdict if finding.cases else "no case", _TONES.get(finding.verdict, "open")
    return Statement(badge, tone, finding.claim, finding.summary, inside, finding.context)


def corrected(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """The findings with Holm's correction over all comparisons; cases that lose significance become open.

    A decided case stays decided as long as all of its numbers do; numbers without a p-value are unchanged.
    """
    tested = [evidence for evidence in _evidence(findings) if evidence.p is not None]
    p_values = holm([evidence.p for evidence in tested if evidence.p is not None])
    failing = {id(evidence) for evidence, p in zip(tested, p_values, strict=True) if p >= ALPHA}
    return tuple(
        replace(finding, cases=tuple(_correct_case(case, failing) for case in finding.cases))
        for finding in findings
    )


def _correct_case(case: Case, failing: Collection[int]) -> Case:
    unsettled = any(evidence.above is not None and id(evidence) in failing for evidence in case.evidence)
    return replace(case, verdict=OPEN) if unsettled and case.verdict in (HOLDS, FAILS) else case


def _evidence(findings: Iterable[Finding]) -> list[Evidence]:
    """Every distinct number with an interval."""
    every = (evidence for finding in findings for case in finding.cases for evidence in case.evidence)
    return list({id(evidence): evidence for evidence in every if evidence.measured}.values())


def comparisons(findings: Sequence[Finding]) -> str:
    """Number of comparisons in the findings, and the verdicts changed by Holm's correction."""
    evidence = _evidence(findings)
    if not evidence:
        return ""
    without = sum(number.p is None for number in evidence)
    apart = f" ({without:,} have no p-value and stay as they are)" if without else ""
    changed = [
        f"“{before.claim}” is then {after.verdict}"
        for before, after in zip(findings, corrected(findings), strict=True)
        if before.verdict != after.verdict
    ]
    effect = "; ".join(changed) or "no verdict changes"
    return (
        f"{len(evidence):,} comparisons were made, each at 95%: about {len(evidence) * ALPHA:.0f} would leave 0 "
        f"out by chance alone. With Holm's correction for them{apart} {effect}."
    )


def verdicts(findings: Iterable[Finding]) -> list[dict[str, Any]]:
    """Name and verdict of each finding."""
    return [{"finding": finding.name, "verdict": finding.verdict} for finding in findings]


def _counts(cases: Sequence[Case]) -> dict[Verdict, int]:
    by_verdict = Counter(case.verdict for case in cases)
    return {verdict: by_verdict[verdict] for verdict in VERDICTS}


def findings_data(findings: Sequence[Finding]) -> list[dict[str, Any]]:
    """Findings for ``report.json``: a case's labels next to its verdict."""
    holm_verdicts = [finding.verdict for finding in corrected(findings)]
    return [
        {
            **{name: getattr(finding, name) for name in ("name", "claim", "rule")},
            **{name: text for name in ("context", "published") if (text := getattr(finding, name))},
            "verdict": finding.verdict,
            "verdict_holm": verdict,
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
        for finding, verdict in zip(findings, holm_verdicts, strict=True)
    ]
