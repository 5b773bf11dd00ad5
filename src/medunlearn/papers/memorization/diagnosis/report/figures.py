"""Figures 6 and 7 of the memorization paper from runs of one's own, as plotly specifications."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pandas as pd

from medunlearn.papers.memorization.diagnosis.report.content import DiagnosisContent
from medunlearn.reports.figures import Spec, layout, safe, short

_COLOURS = tuple(f"--m{place}" for place in range(1, 9))
_DASHES = ("solid", "dash", "dot", "dashdot")
_GAP = 0.07


def accuracy_figure(content: DiagnosisContent) -> Spec:
    """Top-k accuracy of each model on all admissions: Figure 6 (A)."""
    table = content.accuracy[content.accuracy["specialty"] == ""]
    return _bars(content, table, "k")


def specialty_figure(content: DiagnosisContent) -> Spec | None:
    """Accuracy at the smallest k by specialty: Figure 6 (B); None where none has enough patients."""
    table = content.accuracy[(content.accuracy["specialty"] != "") & (content.accuracy["k"] == min(content.ks))]
    if not len(table):
        return None
    return _bars(content, table, "specialty")


def _bars(content: DiagnosisContent, table: pd.DataFrame, column: str) -> Spec:
    data = []
    for place, label in enumerate(content.models):
        rows = table[table["model"] == label]
        values = [None if pd.isna(value) else short(float(value)) for value in rows["value"]]
        data.append(
            {
                "type": "bar",
                "name": safe(label),
                "x": [safe(f"top-{name}" if column == "k" else str(name)) for name in rows[column]],
                "y": values,
                "marker": {"color": _COLOURS[place % len(_COLOURS)]},
                "error_y": _error(rows),
                "hovertemplate": f"<b>{safe(label)}</b> %{{x}}: %{{y:.3f}}<extra></extra>",
            }
        )
    frame = layout(None, column, "accuracy")
    frame["yaxis"] |= {"range": [0, 1]}
    frame |= {"barmode": "group", "showlegend": True, "margin": {"l": 52, "r": 10, "t": 26, "b": 60}}
    frame |= {"legend": {"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom"}}
    return {"data": data, "layout": frame, "labels": False}


def _error(rows: pd.DataFrame) -> Spec:
    up = [0.0 if pd.isna(high) else short(float(high) - float(value)) for value, high in _pairs(rows, "high")]
    down = [0.0 if pd.isna(low) else short(float(value) - float(low)) for value, low in _pairs(rows, "low")]
    return {"type": "data", "symmetric": False, "array": up, "arrayminus": down, "thickness": 1.1, "width": 3}


def _pairs(rows: pd.DataFrame, name: str) -> Iterator[tuple[Any, Any]]:
    return zip(rows["value"], rows[name], strict=True)


def epochs_figure(content: DiagnosisContent) -> Spec | None:
    """Memorization, validation loss and accuracy by epoch, side by side: Figure 7; None where nothing was watched.

    In each, a line marks the chosen epoch, and a dashed one the epoch after which early stopping ends the training.
    """
    table = content.epochs
    if not len(table):
        return None
    panels = [
        (title, rows)
        for title, start in (("memorized records", "memorization,"), ("validation loss", "validation loss"),
                             ("accuracy", "top-"))
        if len(rows := table[table["measure"].str.startswith(start)])
    ]  # fmt: skip
    if not panels:
        return None
    frame = layout(None, "epoch", panels[0][0], small=True)
    data: list[Spec] = []
    width = (1 - _GAP * (len(panels) - 1)) / len(panels)
    last = int(table["epoch"].max())
    base_x, base_y = frame.pop("xaxis"), frame.pop("yaxis")
    for number, (title, rows) in enumerate(panels, start=1):
        name = "" if number == 1 else str(number)
        left = (number - 1) * (width + _GAP)
        frame[f"xaxis{name}"] = base_x | {
            "domain": [left, left + width],
            "anchor": f"y{name}",
            "dtick": _tick(last),
        }
        frame[f"yaxis{name}"] = base_y | {
            "anchor": f"x{name}",
            "title": {"text": title, "standoff": 4, "font": {"size": 11}},
            "rangemode": "tozero",
        }
        data += _lines(rows, name)
    frame["shapes"] = list(_marks(content, len(panels)))
    frame |= {"showlegend": True, "margin": {"l": 52, "r": 10, "t": 56, "b": 44}}
    frame |= {"legend": {"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom", "font": {"size": 11}}}
    return {"data": data, "layout": frame, "labels": False}


def _tick(last: int) -> int | None:
    return 1 if last < 16 else None


def _lines(rows: pd.DataFrame, axis: str) -> Iterator[Spec]:
    """One line a measure and fold; what is of records that no model is trained on is dotted and grey."""
    trained = 0
    for (measure, fold), group in rows.groupby(["measure", "fold"], sort=False):
        held_out = fold == "holdout"
        colour = "--muted" if held_out else _COLOURS[trained % len(_COLOURS)]
        dash = "dot" if held_out else _DASHES[trained % len(_DASHES)]
        trained += not held_out
        label = safe(f"{measure}{' (held out)' if held_out else ''}")
        ordered = group.sort_values("epoch")
        values = [None if pd.isna(value) else short(float(value)) for value in ordered["value"]]
        yield {
            "type": "scatter",
            "mode": "lines+markers",
            "name": label,
            "x": [int(epoch) for epoch in ordered["epoch"]],
            "y": values,
            "xaxis": f"x{axis}",
            "yaxis": f"y{axis}",
            "line": {"color": colour, "width": 1.8, "dash": dash},
            "marker": {"size": 5, "color": colour},
            "error_y": _error(ordered) | {"color": colour},
            "hovertemplate": f"<b>{label}</b><br>epoch %{{x}}: %{{y:.4g}}<extra></extra>",
        }


def _marks(content: DiagnosisContent, panels: int) -> Iterator[Spec]:
    for epoch, dash in ((content.chosen, "solid"), (content.stop, "dash")):
        for number in range(1, panels + 1) if epoch is not None else ():
            name = "" if number == 1 else str(number)
            yield {
                "type": "line",
                "layer": "below",
                "xref": f"x{name}",
                "yref": f"y{name} domain",
                "x0": epoch,
                "x1": epoch,
                "y0": 0,
                "y1": 1,
                "line": {"color": "--ink", "width": 1, "dash": dash},
            }
