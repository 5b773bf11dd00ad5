"""The report as data: strict JSON for other programs, with every number."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import pandas as pd

from medunlearn.papers.medforget.report.content import LevelContent
from medunlearn.papers.medforget.report.findings import findings
from medunlearn.papers.medforget.report.published import contradictions, setting, statements, table
from medunlearn.reports.payload import plain

FORMAT = 1


def payload(content: LevelContent) -> dict[str, Any]:
    """Everything that the report shows, and every row behind it; tables are column -> values, shares of 1."""
    found = {
        "format": FORMAT,
        "title": content.title,
        "benchmark": content.benchmark,
        "context": content.context,
        "methods": content.methods,
        "seeds": content.seeds,
        "replicates": content.replicates,
        "caveats": content.caveats,
        "missing": [{"name": name, "reason": reason} for name, reason in content.missing],
        "splits": [asdict(scope) for scope in content.scopes],
        "findings": [
            {
                "name": one.name,
                "claim": one.claim,
                "rule": one.rule,
                "verdict": one.verdict,
                "counts": one.counts,
                "cases": [asdict(case) for case in one.cases],
            }
            for one in findings(content)
        ],
        "numbers": _columns(content.numbers),
        "attacked": _columns(content.attacked),
        "contrasts": _columns(content.contrasts),
        "said": [{key: value for key, value in asdict(one).items() if key != "thumbnail"} for one in content.said],
        "search": None if content.search is None else _columns(content.search),
        "published": {
            "setting": setting(),
            "contradictions": contradictions(),
            "figures": [{"figure": figure, "says": says} for figure, says in statements()],
            **{f"table_{number}": _published(number) for number in (3, 5)},
        },
    }
    strict: dict[str, Any] = plain(found)
    return strict


def _published(number: int) -> list[dict[str, Any]]:
    return [
        {"level": level, "role": who[0], "method": who[1], "group": group, "measure": measure, "value": value}
        for (level, who, group, measure), value in table(number).items()
    ]


def _columns(found: pd.DataFrame) -> dict[str, list[Any]]:
    return {str(name): found[name].tolist() for name in found.columns}
