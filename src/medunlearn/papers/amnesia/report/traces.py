"""Figure 3, the trade-off over forget set sizes, and Figure 4, same-disease against other retained patients.

Source: AMNESIA, Figures 3 and 4.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from medunlearn.papers.amnesia.report.content import (
    MEAN_OF_KINDS,
    OTHER,
    SAME,
    UNLEARNED,
    Measured,
    Step,
    SweepContent,
)
from medunlearn.papers.amnesia.report.marks import REFERENCES, colour, error, hover, symbol
from medunlearn.reports.figures import layout, safe, short
from medunlearn.reports.words import count

Spec = dict[str, Any]
Who = tuple[str, str]

_FAINTEST = 0.35


def tradeoff_panels(content: SweepContent, context: str, scope: str) -> list[tuple[str, Spec]]:
    """Utility on retain against forgetting on forget of each fold and kind; one trace a model over the sizes."""
    utility, forgetting = content.composite("retain"), content.composite("forget")
    if utility is None or forgetting is None:
        return []
    panels = []
    for fold in content.folds():
        for kind in content.kinds():
            data = [
                trace
                for who in _everyone(content)
                if (trace := _trace(content, context, scope, who, (fold, kind), (utility, forgetting)))
            ]
            if data:
                frame = layout(
                    ([-0.03, 1.03], [-0.03, 1.03]),
                    f"Utility →<br>{utility}",
                    f"Forgetting →<br>{forgetting}",
                    small=True,
                )
                frame |= {"margin": {"l": 66, "r": 10, "t": 8, "b": 58}}
                panels.append((f"{fold}, {kind}", {"data": data, "layout": frame, "labels": False}))
    return panels


def _trace(
    content: SweepContent, context: str, scope: str, who: Who, place: tuple[str, str], metrics: tuple[str, str]
) -> Spec | None:
    steps, found = [], []
    for step in content.steps_of(scope):
        pair = [
            content.number(context, step.split, who, (side, *place), metric)
            for side, metric in zip(("retain", "forget"), metrics, strict=True)
        ]
        whole = [one for one in pair if one is not None and one.value is not None]
        if len(whole) == 2:
            steps.append(step)
            found.append(whole)
    if not steps:
        return None
    name = safe(who[1] or who[0])
    tint = colour(content.methods, who)
    marker: Spec = {
        "symbol": symbol(content.methods, who)[0],
        "size": 9 if who[0] == UNLEARNED else 12,
        "color": tint,
    }
    marker |= {"opacity": opacities(content.steps_of(scope), steps), "line": {"color": "--paper", "width": 1}}
    return {
        "type": "scatter",
        "mode": "lines+markers" if who[0] == UNLEARNED else "markers",
        "name": name,
        "x": [short(one[0].value or 0.0) for one in found],
        "y": [short(one[1].value or 0.0) for one in found],
        "line": {"color": tint, "width": 1},
        "opacity": 1,
        "marker": marker,
        "cliponaxis": False,
        "hovertext": [
            f"<b>{name}</b>, {_size(step)}<br>utility {hover(one[0])}<br>forgetting {hover(one[1])}"
            for step, one in zip(steps, found, strict=True)
        ],
        "hovertemplate": "%{hovertext}<extra></extra>",
    }


def opacities(scope: Sequence[Step], steps: Sequence[Step]) -> list[float]:
    """The larger the forget set, the darker: by the step's place among its scope's."""
    last = max(1, len(scope) - 1)
    return [short(_FAINTEST + (1 - _FAINTEST) * list(scope).index(step) / last) for step in steps]


def disease_figure(content: SweepContent, context: str, scope: str) -> Spec | None:
    """Utility of retained patients with the disease (solid) and without it (dashed), by forget set size."""
    metric = content.composite("retain")
    steps = [step for step in content.steps_of(scope) if step.disease and step.percent is not None]
    data = [
        trace
        for who in _everyone(content)
        for group in (SAME, OTHER)
        if (trace := _group_trace(content, context, steps, who, group, str(metric)))
    ]
    if not data:
        return None
    frame = layout(None, "Forget set, % of all patients", f"{metric} on retain<br>mean of the kinds, train fold")
    frame |= {"margin": {"l": 70, "r": 12, "t": 10, "b": 52}}
    frame["yaxis"] |= {"range": [-0.03, 1.03]}
    frame["xaxis"] |= {"tickvals": [step.percent for step in steps]}
    return {"data": data, "layout": frame, "labels": False}


def _group_trace(
    content: SweepContent, context: str, steps: Sequence[Step], who: Who, group: str, metric: str
) -> Spec | None:
    place = ("retain", "train", MEAN_OF_KINDS)
    found: list[tuple[Step, Measured]] = [
        (step, one)
        for step in steps
        if (one := content.number(context, step.split, who, place, metric, group)) and one.value is not None
    ]
    if not found:
        return None
    tint, name = colour(content.methods, who), safe(who[1] or who[0])
    filled = symbol(content.methods, who)[0]
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "name": f"{name}, {group}",
        "x": [step.percent for step, _ in found],
        "y": [short(one.value or 0.0) for _, one in found],
        "line": {"color": tint, "width": 1.6, "dash": "solid" if group == SAME else "dash"},
        "marker": {"symbol": filled if group == SAME else f"{filled}-open", "size": 7, "color": tint},
        "error_y": error([one for _, one in found], tint),
        "hovertext": [f"<b>{name}</b>, {group}, {_size(step)}<br>{hover(one)}" for step, one in found],
        "hovertemplate": "%{hovertext}<extra></extra>",
        "cliponaxis": False,
    }


def _everyone(content: SweepContent) -> list[Who]:
    """Methods first, so that the references are drawn on top."""
    return [*((UNLEARNED, method) for method in content.methods), *REFERENCES]


def _size(step: Step) -> str:
    return step.split if step.percent is None else f"{step.percent}% ({count(step.forget, step.level)})"
