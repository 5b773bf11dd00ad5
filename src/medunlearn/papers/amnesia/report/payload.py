"""A sweep's report as data: strict JSON for other programs, with every number."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import pandas as pd

from medunlearn.papers.amnesia.report.cases import Finding
from medunlearn.papers.amnesia.report.content import SweepContent
from medunlearn.papers.amnesia.report.findings import findings
from medunlearn.papers.amnesia.report.published import setting, statements, table_2
from medunlearn.reports.payload import plain

FORMAT = 1


def payload(content: SweepContent) -> dict[str, Any]:
    """Everything that the report shows, and every row behind it; tables are column -> values."""
    found = {
        "format": FORMAT,
        "title": content.title,
        "benchmark": content.benchmark,
        "contexts": content.contexts,
        "methods": content.methods,
        "seeds": content.seeds,
        "replicates": content.replicates,
        "caveats": content.caveats,
        "missing": [{"name": name, "reason": reason} for name, reason in content.missing],
        "splits": [asdict(step) for step in content.steps],
        "findings": [_finding(one) for one in findings(content)],
        "metrics": {name: {"title": title, "meaning": text} for name, (title, text) in content.metrics.items()},
        "numbers": _columns(content.numbers),
        "contrasts": _columns(content.contrasts),
        "search": None if content.search is None else _columns(content.search),
        "published": {
            "setting": setting(),
            "table_2": [
                {"scope": scope, "method": method, "percent": percent, **asdict(row)}
                for (scope, method, percent), row in table_2().items()
            ],
            "figures": [asdict(one) for figure in (2, 3, 4) for one in statements(figure)],
        },
    }
    strict: dict[str, Any] = plain(found)
    return strict


def _columns(table: pd.DataFrame) -> dict[str, list[Any]]:
    """Column -> values, as pandas and Polars take it: a third of the size of one mapping a row."""
    return {str(name): table[name].tolist() for name in table.columns}


def _finding(found: Finding) -> dict[str, Any]:
    return {
        "name": found.name,
        "claim": found.claim,
        "rule": found.rule,
        "context": found.context,
        "verdict": found.verdict,
        "counts": found.counts,
        "cases": [asdict(case) for case in found.cases],
    }
