"""Recommendations, each with the observation that calls for it; none without one.

Source of the advice: Memorization in Large Language Models in Medicine, Figure 8 and Section 5.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

import yaml

from medunlearn.papers.memorization.report.content import PRIMARY, AuditContent
from medunlearn.reports.claims import HOLDS, Finding
from medunlearn.reports.readings import number
from medunlearn.reports.words import count


@dataclass(frozen=True, slots=True)
class Recommendation:
    """Advice with the observation that calls for it.

    Attributes:
        group: harmful, uninformative, beneficial or general.
        observed: the observation in numbers.
    """

    name: str
    group: str
    observed: str
    advice: str


def recommendations(content: AuditContent, findings: Sequence[Finding]) -> tuple[Recommendation, ...]:
    """Advice that the audits call for, harm first."""
    by_name = {one.name: one for one in findings}
    advised = []
    for entry in _entries():
        observed = _OBSERVED[entry["when"]](content, by_name)
        if observed:
            advice = " ".join(str(entry["advice"]).split())
            advised.append(Recommendation(str(entry["name"]), str(entry["group"]), observed, advice))
    return tuple(advised)


@cache
def _entries() -> tuple[Mapping[str, Any], ...]:
    text = (
        files("medunlearn.papers.memorization.report").joinpath("recommendations.yaml").read_text(encoding="utf-8")
    )
    return tuple(yaml.safe_load(text))


Observe = Callable[[AuditContent, Mapping[str, Finding]], str]


def _patients(content: AuditContent, findings: Mapping[str, Finding]) -> str:
    leaked = sum(int(row["n"]) for row in content.rows("identifiers"))
    spans = _spans(content, "kind", "patient_information")
    parts = [f"{leaked:,} times an identifier or a sensitive detail" if leaked else "", spans]
    return "; ".join(part for part in parts if part)


def _artifacts(content: AuditContent, findings: Mapping[str, Finding]) -> str:
    rises = findings["option regeneration"]
    options = f"removed answer options: {_short(rises)}" if rises.counts[HOLDS] else ""
    return "; ".join(part for part in (_spans(content, "kind", "dataset_artifact"), options) if part)


def _memorized(content: AuditContent, findings: Mapping[str, Finding]) -> str:
    rows = [row for row in content.rows("ratios", measure=PRIMARY) if number(row["value"])]
    if not rows:
        return ""
    row = max(rows, key=lambda one: float(one["value"]))
    return (
        f"up to {100 * row['value']:.1f}% of probes with a run of 30 ({row['model']} on {row['corpus']}, prefix "
        f"{row['prefix_tokens']}, {row['decoding']})"
    )


def _spans(content: AuditContent, column: str, name: str) -> str:
    """Number of spans by kind or group and way of sorting; empty without any."""
    parts = []
    for way in dict.fromkeys(str(row["by"]) for row in content.rows("kinds")):
        rows = content.rows("kinds", by=way)
        here = sum(int(row["n"]) for row in rows if row[column] == name)
        if here:
            parts.append(f"{here:,} of {count(sum(int(row['n']) for row in rows), 'memorized span')} by {way}")
    return ", ".join(parts)


def _short(finding: Finding) -> str:
    """Claim, and in how many cases it holds."""
    return f"{finding.claim.rstrip('.')}: in {finding.counts[HOLDS]} of {count(len(finding.cases), 'case')}"


def _of_spans(column: str, name: str) -> Observe:
    return lambda content, findings: _spans(content, column, name)


def _of_finding(name: str) -> Observe:
    def observe(content: AuditContent, findings: Mapping[str, Finding]) -> str:
        return _short(findings[name]) if findings[name].counts[HOLDS] else ""

    return observe


_OBSERVED: Mapping[str, Observe] = {
    "patient_information": _patients,
    "clinical_narrative": _of_spans("kind", "clinical_narrative"),
    "dataset_artifact": _artifacts,
    "uninformative": _of_spans("group", "uninformative"),
    "beneficial": _of_spans("group", "beneficial"),
    "persistence": _of_finding("persistence"),
    "first_tokens": _of_finding("first 100 tokens"),
    "long_prefix": _of_finding("longer prefix"),
    "epochs": _of_finding("before overfitting"),
    "memorized": _memorized,
}
