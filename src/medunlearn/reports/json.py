"""Render a report as data: strict JSON."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
import pandas as pd

from medunlearn.reports.blocks import Report
from medunlearn.reports.provenance import watermarked

FORMAT = 1


def to_data(report: Report) -> dict[str, Any]:
    """The report's own data; its blocks if it has none."""
    body = report.data or {"facts": dict(report.facts), "blocks": watermarked(report).blocks}
    drawn = {"drawn": report.drawn} if report.drawn else {}
    return {"format": FORMAT, "title": report.title, **drawn, **plain(body)}


def plain(value: Any) -> Any:
    """Convert a value to JSON types: tables as rows, blocks as objects, NaN, infinity and null as null."""
    match value:
        case pd.DataFrame():
            return plain(value.to_dict("records")) if len(value) else []
        case Mapping():
            return {str(key): plain(item) for key, item in value.items()}
        case list() | tuple():
            return [plain(item) for item in value]
        case np.generic():
            return plain(value.item())
        case bool() | str() | int():
            return value
        case float():
            return value if math.isfinite(value) else None
        case _ if value is None or value is pd.NA or value is pd.NaT:  # pd.NA == pd.NA is not a bool
            return None
        case _ if is_dataclass(value):
            values = {field.name: plain(getattr(value, field.name)) for field in fields(value)}
            return {"block": type(value).__name__.lower(), **values}
        case _:
            return str(value)
