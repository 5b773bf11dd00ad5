"""Findings on a page and on the terminal: only those with a case that could be measured."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from medunlearn.reports.blocks import Block, Table, Text
from medunlearn.reports.claims import NOT_MEASURABLE, Finding, statements, verdicts
from medunlearn.reports.view import ResultView, plain_table


def measured(findings: Sequence[Finding]) -> list[Finding]:
    """The findings with a case that could be measured."""
    return [finding for finding in findings if any(case.verdict != NOT_MEASURABLE for case in finding.cases)]


def findings_blocks(findings: Sequence[Finding], about: str = "") -> Iterator[Block]:
    """A statement for each finding with a measured case, and the names of the others; nothing without findings."""
    decided = measured(findings)
    if decided:
        if about:
            yield Text(about)
        yield from statements(decided)
    if rest := unmeasured(findings):
        yield Text(rest, "aside")


def unmeasured(findings: Sequence[Finding]) -> str:
    """Names of the findings without a measured case, in a sentence; empty if every finding has one."""
    decided = {id(finding) for finding in measured(findings)}
    rest = list(dict.fromkeys(finding.name for finding in findings if id(finding) not in decided))
    return f"Without a case that could be measured here: {', '.join(rest)}." if rest else ""


def findings_table(findings: Sequence[Finding]) -> Table | None:
    """Verdict, claim and counts of cases of each finding with a measured case; None without any."""
    rows = [
        (finding.verdict, finding.claim + (f" ({finding.context})" if finding.context else ""), finding.summary)
        for finding in measured(findings)
    ]
    return plain_table(("Verdict", "Finding", "Cases"), rows) if rows else None


def findings_view(findings: Sequence[Finding], broken: Sequence[str]) -> ResultView:
    """The findings with their cases, as on the page, for the terminal.

    Args:
        broken: warnings about broken models.
    """
    data = {"findings": verdicts(findings)} if findings else {}
    of_broken = {"broken": list(broken)} if broken else {}
    return ResultView({**data, **of_broken}, findings_blocks(findings), broken)
