"""Training curves as plotly specifications (see :mod:`medunlearn.reports.figures`)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from medunlearn.reports.blocks import Spec
from medunlearn.reports.content import ModelResult
from medunlearn.reports.figures import colours, layout, safe, short
from medunlearn.reports.readings import rows_of

_MOST_POINTS = 400
_DASHES = ("solid", "dash", "dot", "dashdot")


def training_curves(models: Sequence[ModelResult]) -> list[tuple[str, Spec]]:
    """Loss by step: target and retrained together, then each unlearning method with its terms."""
    colour = colours(models)
    trained = [model for model in models if model.role != "unlearned" and len(model.history)]
    found = []
    if trained:
        lines = [
            _line(model.label, model, "loss", colour[model.label], dash)
            for model, dash in zip(trained, _DASHES, strict=False)
        ]
        found.append((" and ".join(model.label for model in trained), _curves(lines)))
    for model in models:
        if model.role == "unlearned" and len(model.history):
            found.append((model.label, _curves(_terms(model, colour[model.label]))))
    return found


def _terms(model: ModelResult, colour: str) -> list[Spec]:
    terms = [str(name) for name in model.history.columns if str(name).startswith("loss/")]
    lines = [
        _line(term.removeprefix("loss/"), model, term, colour, _DASHES[(place + 1) % len(_DASHES)])
        for place, term in enumerate(terms)
    ]
    total = _line(
        "total" if len(terms) > 1 else "loss", model, "loss", "--ink" if len(terms) > 1 else colour, "solid"
    )
    return [*lines, total] if len(terms) > 1 else [total]


def _line(name: str, model: ModelResult, column: str, colour: str, dash: str) -> Spec:
    steps, values = thinned([(float(row["step"]), row[column]) for row in rows_of(model.history)])
    line = {"color": colour, "width": 1.8, "dash": dash}
    hover = "step %{x:.0f}: %{y:.4g}<extra>%{fullData.name}</extra>"
    kind = {"type": "scatter", "mode": "lines", "name": safe(name), "hovertemplate": hover}
    return kind | {"x": steps, "y": values, "line": line}


def thinned(points: Sequence[tuple[float, Any]]) -> tuple[list[float], list[float | None]]:
    """At most 400 points: the means of even runs of steps, so that no spike is picked or lost by chance.

    A value that is not finite breaks the line.
    """
    stride = math.ceil(len(points) / _MOST_POINTS) or 1
    steps: list[float] = []
    values: list[float | None] = []
    for start in range(0, len(points), stride):
        run = points[start : start + stride]
        mean = sum(float(value) for _, value in run) / len(run)
        steps.append(run[-1][0])
        values.append(short(mean) if math.isfinite(mean) else None)
    return steps, values


def _curves(lines: list[Spec]) -> Spec:
    frame = layout(None, "step", "loss")
    frame |= {"showlegend": True}
    return {"data": lines, "layout": frame, "labels": False}
