"""Recommendations, each with the observation that calls for it; none without one.

Source of the advice: Memorization in Large Language Models in Medicine, Figure 8 and Section 5.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from medunlearn.papers.memorization.declared import declared
from medunlearn.papers.memorization.report.content import PRIMARY, AuditContent
from medunlearn.reports.claims import HOLDS, Finding
from medunlearn.reports.readings import number
from medunlearn.reports.words import count


@dataclass(frozen=True, slots=True)
class Recommendation:
    """Advice with the observation in numbers that calls for it; of harm, noise, benefit, or general."""

    name: str
    group: str
    observed: str
    advice: str


def recommendations(content: AuditContent, findings: Sequence[Finding]) -> tuple[Recommendation, ...]:
    """Advice that the audits call for, harm first."""
    by_name = {finding.name: finding for finding in findings}
    advised = []
    for entry in declared("recommendations"):
        observed = "; ".join(_observations(content, by_name, entry["when"]))
        if observed:
            advised.append(Recommendation(entry["name"], entry["group"], observed, entry["advice"]))
    return tuple(advised)


def _observations(content: AuditContent, findings: Mapping[str, Finding], when: Mapping[str, Any]) -> Iterator[str]:
    if when.get("leaks") and (leaked := sum(row["n"] for row in content.rows("identifiers"))):
        yield f"{leaked:,} times an identifier or a sensitive detail"
    for column in ("kind", "group"):
        if column in when and (spans := _spans(content, column, when[column])):
            yield spans
    if when.get("ratio"):
        yield from _largest_ratio(content)
    if "finding" in when and (finding := findings[when["finding"]]).counts[HOLDS]:
        claim = f"{finding.claim.rstrip('.')}: in {finding.counts[HOLDS]} of {count(len(finding.cases), 'case')}"
        yield f"{when['prefix']}: {claim}" if "prefix" in when else claim


def _largest_ratio(content: AuditContent) -> Iterator[str]:
    rows = [row for row in content.rows("ratios", measure=PRIMARY) if number(row["value"])]
    if rows:
        row = max(rows, key=lambda row: float(row["value"]))
        place = "{model} on {corpus}, prefix {prefix_tokens}, {decoding}".format_map(row)
        yield f"up to {100 * row['value']:.1f}% of probes with a run of 30 ({place})"


def _spans(content: AuditContent, column: str, name: str) -> str:
    """Number of spans by kind or group and way of sorting; empty without any."""
    parts = []
    for way in dict.fromkeys(row["by"] for row in content.rows("kinds")):
        rows = content.rows("kinds", by=way)
        if here := sum(row["n"] for row in rows if row[column] == name):
            parts.append(f"{here:,} of {count(sum(row['n'] for row in rows), 'memorized span')} by {way}")
    return ", ".join(parts)
