"""Recommendations, each attached to what was found: none without an observation of one's own behind it.

Source of the advice: Memorization in Large Language Models in Medicine, Figure 8 and Section 5.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

import yaml

from medunlearn.papers.memorization.report.cases import Finding
from medunlearn.papers.memorization.report.content import EXACT, AuditContent
from medunlearn.reports.readings import number
from medunlearn.reports.verdicts import HOLDS
from medunlearn.reports.words import count


@dataclass(frozen=True, slots=True)
class Recommendation:
    """Advice with the observation that calls for it.

    Attributes:
        group: harmful, uninformative, beneficial or general.
        observed: what was found, in numbers.
    """

    name: str
    group: str
    observed: str
    advice: str


def recommendations(content: AuditContent, found: Sequence[Finding]) -> tuple[Recommendation, ...]:
    """What is to be recommended of these audits, harm first."""
    by_name = {one.name: one for one in found}
    chosen = []
    for entry in _entries():
        observed = _OBSERVED[entry["when"]](content, by_name)
        if observed:
            advice = " ".join(str(entry["advice"]).split())
            chosen.append(Recommendation(str(entry["name"]), str(entry["group"]), observed, advice))
    return tuple(chosen)


@cache
def _entries() -> tuple[Mapping[str, Any], ...]:
    text = (
        files("medunlearn.papers.memorization.report").joinpath("recommendations.yaml").read_text(encoding="utf-8")
    )
    return tuple(yaml.safe_load(text))


Observe = Callable[[AuditContent, Mapping[str, Finding]], str]


def _patients(content: AuditContent, found: Mapping[str, Finding]) -> str:
    leaked = sum(int(row["n"]) for row in content.rows("identifiers"))
    spans = _spans(content, "kind", "patient_information")
    parts = [f"{leaked:,} times an identifier or a sensitive detail" if leaked else "", spans]
    return "; ".join(part for part in parts if part)


def _artifacts(content: AuditContent, found: Mapping[str, Finding]) -> str:
    rises = found["option regeneration"]
    options = f"removed answer options: {_short(rises)}" if rises.counts[HOLDS] else ""
    return "; ".join(part for part in (_spans(content, "kind", "dataset_artifact"), options) if part)


def _memorized(content: AuditContent, found: Mapping[str, Finding]) -> str:
    values = [
        (number(row["value"]) or 0.0, row)
        for row in content.rows("ratios")
        if row["measure"] == EXACT[0] and number(row["value"])
    ]
    if not values:
        return ""
    value, row = max(values, key=lambda one: one[0])
    return (
        f"up to {100 * value:.1f}% of probes with a run of 30 ({row['model']} on {row['corpus']}, prefix "
        f"{row['prefix_tokens']}, {row['decoding']})"
    )


def _spans(content: AuditContent, column: str, name: str) -> str:
    """How many spans each way put into a kind or group; empty where none."""
    parts = []
    for way in dict.fromkeys(str(row["by"]) for row in content.rows("kinds")):
        rows = [row for row in content.rows("kinds") if row["by"] == way]
        here = sum(int(row["n"]) for row in rows if row[column] == name)
        if here:
            parts.append(f"{here:,} of {count(sum(int(row['n']) for row in rows), 'memorized span')} by {way}")
    return ", ".join(parts)


def _short(found: Finding) -> str:
    """The finding's claim and in how many cases it holds."""
    return f"{found.claim.rstrip('.')}: in {found.counts[HOLDS]} of {count(len(found.cases), 'case')}"


def _of_spans(column: str, name: str) -> Observe:
    return lambda content, found: _spans(content, column, name)


def _of_finding(name: str) -> Observe:
    def observe(content: AuditContent, found: Mapping[str, Finding]) -> str:
        return _short(found[name]) if found[name].counts[HOLDS] else ""

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
