"""Recommendations triggered by audits, declared in ``recommendations.yaml``, and searches that no audit made.

Source: Memorization in Large Language Models in Medicine, Section 5 and Figure 8.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from medunlearn.data.origins import is_marked
from medunlearn.papers.memorization.report.claims import is_trained, memorizes
from medunlearn.papers.memorization.report.content import PRIMARY, AuditContent, Row, prefix_words
from medunlearn.papers.paper_files import paper_yaml
from medunlearn.reports.claims import HOLDS, Finding
from medunlearn.reports.formatting import count
from medunlearn.reports.readings import number


@dataclass(frozen=True, slots=True)
class Recommendation:
    """A recommendation with the numbers that triggered it; on harm, noise, benefit, or general."""

    name: str
    group: str
    observed: str
    advice: str


def recommendations(content: AuditContent, findings: Sequence[Finding]) -> tuple[Recommendation, ...]:
    """Recommendations triggered by the audits, harm first."""
    by_name = {finding.name: finding for finding in findings}
    advised = []
    for entry in paper_yaml("memorization", "recommendations"):
        observed = "; ".join(_observations(content, by_name, entry["when"]))
        if observed:
            advised.append(Recommendation(entry["name"], entry["group"], observed, entry["advice"]))
    return tuple(advised)


def missing_searches(content: AuditContent) -> list[str]:
    """Searches that no audit made, in words, so that their absence is not read as a clean result."""
    looked = paper_yaml("memorization", "report")["unsearched"]
    lacking = [text for stage, text in looked.items() if not content.searches.get(stage)]
    unnamed = [
        model.label for model in content.models if not model.baselines and model.label not in content.baselines
    ]
    return [*lacking, *([f"a baseline of {', '.join(unnamed)}"] if unnamed else [])]


def largest_bound(content: AuditContent) -> str:
    """The largest memorization ratio and the upper end of its interval, in words; empty without one.

    Broken models repeat nothing, so they are not counted.
    """
    rows = [
        row
        for row in content.rows("ratios", measure=PRIMARY)
        if number(row["value"]) is not None and row["model"] not in content.problems
    ]
    if not rows:
        return ""
    row = max(rows, key=lambda row: (number(row["high"]) or 0.0, row["value"]))
    high, place = number(row["high"]), _ratio_place(row)
    bound = "no interval" if high is None else f"at most {100 * high:.1f}% (95%)"
    subjects = count(row["n_subjects"], "subject")
    return f"{100 * row['value']:.1f}% of probes with a run of 30, {bound}, {subjects} ({place})"


def _observations(content: AuditContent, findings: Mapping[str, Finding], when: Mapping[str, Any]) -> Iterator[str]:
    if when.get("leaks"):
        yield from _leaks(content)
    for column in ("kind", "group"):
        if column in when and (spans := _spans(content, column, when[column])):
            yield spans
    if when.get("ratio"):
        yield from _largest_ratio(content)
    if "finding" in when and (finding := findings[when["finding"]]).verdict == HOLDS:
        claim = f"{finding.claim.rstrip('.')}: in {finding.counts[HOLDS]} of {count(len(finding.cases), 'case')}"
        yield f"{when['prefix']}: {claim}" if "prefix" in when else claim


def _leaks(content: AuditContent) -> Iterator[str]:
    """Identifiers and sensitive details, for each model with more than every searched baseline."""
    for screen in content.screens:
        label, giveaway = screen.extraction.label, screen.giveaway
        if giveaway is None or not giveaway.identifiers or screen.extraction.problems:
            continue
        searched = (baseline for baseline in giveaway.baselines if baseline.searched and not baseline.problems)
        others = {baseline.label: baseline.identifiers for baseline in searched}
        if giveaway.identifiers > max(others.values(), default=0):
            whose = count(giveaway.subjects.hits, giveaway.noun)
            yield f"{label}: {count(giveaway.identifiers, 'distinct identifier')} of {whose} ({_beside(others)})"
    yield from _sensitive(content)


def _sensitive(content: AuditContent) -> Iterator[str]:
    """Sensitive details; a detail counts once per response, so several prompts of a record count it repeatedly."""
    searched = content.searches.get("identifiers", ())
    counts = {
        label: sum(row["n"] for row in content.rows("identifiers", model=label, table="table_10"))
        for label in searched
    }
    for model in content.models:
        n = counts.get(model.label, 0)
        others = {label: counts[label] for label in model.baselines if label in counts}
        if n and is_trained(content, model.label) and n > max(others.values(), default=0):
            yield f"{model.label}: {count(n, 'sensitive detail')} over all responses ({_beside(others)})"


def _beside(others: Mapping[str, int]) -> str:
    if not others:
        return "no baseline was searched, so some may be chance"
    return f"baselines: {', '.join(f'{label}: {number:,}' for label, number in others.items())}"


def _memorizes(content: AuditContent, row: Row) -> bool:
    """True if a row's model repeats more of the corpus than its baselines, or has no baselines."""
    return is_trained(content, row["model"]) and memorizes(content, row["model"], row["corpus"], None) is not False


def _largest_ratio(content: AuditContent) -> Iterator[str]:
    rows = [
        row for row in content.rows("ratios", measure=PRIMARY) if number(row["value"]) and _memorizes(content, row)
    ]
    if rows:
        row = max(rows, key=lambda row: float(row["value"]))
        yield f"up to {100 * row['value']:.1f}% of probes with a run of 30 ({_ratio_place(row)})"


def _ratio_place(row: Row) -> str:
    return f"{row['model']} on {row['corpus']}, {prefix_words(row['prefix_tokens'])}, {row['decoding']}"


def _spans(content: AuditContent, column: str, name: str) -> str:
    """Number of spans by kind or group and sorter, for memorizing models; empty without any."""
    parts = []
    for way in dict.fromkeys(row["by"] for row in content.rows("kinds") if not is_marked(row["by"])):
        rows = [row for row in content.rows("kinds", by=way) if _memorizes(content, row)]
        if here := sum(row["n"] for row in rows if row[column] == name):
            parts.append(f"{here:,} of {count(sum(row['n'] for row in rows), 'memorized span')} by {way}")
    return ", ".join(parts)
