"""An audit report as data: strict JSON for other programs, with every number."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import pandas as pd

from medunlearn.papers.memorization.report.cases import Finding
from medunlearn.papers.memorization.report.content import AuditContent
from medunlearn.papers.memorization.report.findings import findings
from medunlearn.papers.memorization.report.published import published
from medunlearn.papers.memorization.report.recommendations import recommendations
from medunlearn.reports.payload import plain

FORMAT = 1
_TABLES = (
    *("ratios", "differences", "trends", "duplication", "positions", "persistence", "kinds", "agreement"),
    *("identifiers", "options", "option_differences", "epochs"),
)


def payload(content: AuditContent) -> dict[str, Any]:
    """Everything that the report shows; tables are column -> values. Spans only where ``show_text``."""
    found = findings(content)
    shown = {
        "format": FORMAT,
        "title": content.title,
        "models": [asdict(model) for model in content.models],
        "clinical": content.clinical,
        "datasets": content.datasets,
        "replicates": content.replicates,
        "caveats": content.caveats,
        "missing": [{"name": name, "how": how} for name, how in content.missing],
        "measures": {name: {"title": title, "meaning": text} for name, (title, text) in content.measures.items()},
        "findings": [_finding(one) for one in found],
        "recommendations": [asdict(one) for one in recommendations(content, found)],
        **{name: _columns(getattr(content, name)) for name in _TABLES},
        "show_text": content.show_text,
        "examples": [asdict(one) for one in content.shown_examples()],
        "published": published(),
    }
    strict: dict[str, Any] = plain(shown)
    return strict


def _columns(table: pd.DataFrame) -> dict[str, list[Any]]:
    return {str(name): table[name].tolist() for name in table.columns}


def _finding(found: Finding) -> dict[str, Any]:
    return {
        "name": found.name,
        "claim": found.claim,
        "rule": found.rule,
        "published": found.published,
        "verdict": found.verdict,
        "counts": found.counts,
        "cases": [asdict(case) for case in found.cases],
    }
