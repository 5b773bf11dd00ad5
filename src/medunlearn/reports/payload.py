"""The report as data: strict JSON for other programs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np
import pandas as pd

from medunlearn.papers.lume.report import Finding, findings
from medunlearn.reports.content import Membership, ModelResult, PublishedMeasures, ReportContent
from medunlearn.reports.headline import Plane, Standing, main_plane, standings, verdict
from medunlearn.reports.readings import Results, rows_of

FORMAT = 1


def payload(content: ReportContent) -> dict[str, Any]:
    """Everything that the report shows, and every row behind it; text only where ``show_text``."""
    results = Results(content)
    where = main_plane(results)
    ranked = standings(results, where)
    found = {
        "format": FORMAT,
        "title": content.title,
        "context": content.context,
        "benchmark": content.benchmark,
        "split": content.split,
        "caveats": content.caveats,
        "metrics": {
            name: {"title": title, "meaning": meaning} for name, (title, meaning) in content.metrics.items()
        },
        "headline": _headline(ranked, where),
        "models": [_model(model) for model in content.models],
        "comparisons": rows_of(content.comparisons),
        "groups": rows_of(content.groups),
        "judged": [asdict(panel) for panel in content.judged],
        "membership": _membership(content.membership),
        "reconstruction": {
            "table": rows_of(content.reconstruction.table),
            "comparisons": rows_of(content.reconstruction.comparisons),
        },
        "epochs": rows_of(content.epochs),
        "findings": [_finding(one) for one in findings(content)],
        "published": _published(content.published),
        "utility": rows_of(content.utility),
        "show_text": content.show_text,
        "examples": [vars(example) for example in content.shown_examples()],
    }
    strict: dict[str, Any] = plain(found)
    return strict


def _headline(ranked: list[Standing], where: Plane) -> dict[str, Any]:
    closest = verdict(ranked)
    return {
        "fold": where.fold,
        "kind": where.kind,
        "utility_metric": where.utility,
        "forgetting_metric": where.forgetting,
        "closest_to_retrained": closest.name if closest.found else None,
        "explanation": " ".join(closest.sentences),
        "distance_to_retrained": {one.model.label: one.distance for one in ranked},
    }


def _membership(found: Membership) -> dict[str, Any]:
    """Every table as rows; a curve's thresholds are left out."""
    points = found.curves.drop(columns="threshold", errors="ignore")
    tables = {
        "table": found.table,
        "comparisons": found.comparisons,
        "curves": points,
        "privacy": found.privacy,
    }
    return {**{name: rows_of(table) for name, table in tables.items()}, "semeval": found.semeval}


def _finding(found: Finding) -> dict[str, Any]:
    return {**asdict(found), "verdict": found.verdict, "counts": found.counts}


def _published(found: PublishedMeasures | None) -> dict[str, Any] | None:
    return None if found is None else {"name": found.name, "about": found.about, "table": rows_of(found.table)}


def _model(model: ModelResult) -> dict[str, Any]:
    return {
        "label": model.label,
        "role": model.role,
        "method": model.method,
        "summary": rows_of(model.summary),
        "history": {str(name): model.history[name].tolist() for name in model.history.columns},
        "info": {key: value for key, value in model.info.items() if key != "results"},
    }


def plain(value: Any) -> Any:
    """The same value in the types of JSON; NaN, infinity and null become null."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or value is pd.NA or value is pd.NaT:
        return None
    return value if isinstance(value, (str, int)) else str(value)
