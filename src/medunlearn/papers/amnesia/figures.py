"""AMNESIA's Figures 2 to 4: bars by forget set size, trade-off traces, and retained patients by disease."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from medunlearn.papers.amnesia.sweep import MEAN_OF_KINDS, OTHER, SAME, Step, SweepResults
from medunlearn.papers.sweeps.figures import (
    REFERENCE_COLOUR,
    colour,
    error_bars,
    everyone,
    hover,
    line,
    name_of,
    symbol,
)
from medunlearn.papers.sweeps.models import REFERENCES, TARGET, UNLEARNED, SweepNumber, Who, unlearned
from medunlearn.reports.blocks import Spec
from medunlearn.reports.figures import layout, safe, short
from medunlearn.reports.words import ABSENT, count

_PATTERNS = ("", "/", "x", ".")
# Train and holdout line of a reference, and of further folds.
_DASHES = {"target": ("dash", "dot"), "retrained": ("dashdot", "longdashdot")}
_GAP = 0.03
_FAINTEST = 0.35


def bar_rows(results: SweepResults, context: str, scope: str) -> list[tuple[str, Spec]]:
    """Figure 2: a title and a figure each for utility and forgetting of every kind; a panel a size."""
    rows = []
    for side, measure in results.composites.items():
        for kind in results.kinds:
            if measure is not None:
                bars = _Bars(results, context, scope, side, kind, measure)
                if bars.measured:
                    rows.append((f"{measure} on {side}, {kind}", bars.figure()))
    return rows


class _Bars:
    """One row of Figure 2: every method by forget set size, train beside holdout."""

    def __init__(self, results: SweepResults, context: str, scope: str, side: str, kind: str, measure: str) -> None:
        self.results, self.context, self.steps = results, context, results.steps_of(scope)
        self.side, self.kind, self.measure = side, kind, measure

    def number(self, step: Step, who: Who, fold: str) -> SweepNumber | None:
        return self.results.valued(self.context, step.split, who, (self.side, fold, self.kind), self.measure)

    @property
    def measured(self) -> bool:
        return any(
            self.number(step, who, fold)
            for step in self.steps
            for who in everyone(self.results.methods)
            for fold in self.results.folds
        )

    def figure(self) -> Spec:
        data: list[Spec] = []
        shapes: list[Spec] = []
        notes: list[Spec] = []
        axes: Spec = {}
        for place, step in enumerate(self.steps):
            axis = "" if place == 0 else str(place + 1)
            axes |= self._axes(axis, place)
            data += self._traces(step, axis)
            shapes += self._references(step, axis)
            notes += [_heading(step, axis), *self._absences(step, axis)]
        frame = {"barmode": "overlay", "margin": {"l": 40, "r": 6, "t": 24, "b": 58}, "font": {"size": 12}}
        return {"data": data, "layout": frame | axes | {"annotations": notes, "shapes": shapes}, "labels": False}

    def _traces(self, step: Step, axis: str) -> Iterator[Spec]:
        """One trace a fold, one bar a method, and a point a seed where there are several."""
        methods, folds = self.results.methods, self.results.folds
        width = 0.84 / len(folds)
        on_axes = {"xaxis": f"x{axis}", "yaxis": f"y{axis}"}
        for place, fold in enumerate(folds):
            offset = (place - (len(folds) - 1) / 2) * width
            bars = [
                (at, method, number)
                for at, method in enumerate(methods)
                if (number := self.number(step, unlearned(method), fold))
            ]
            if not bars:
                continue
            pattern = {"shape": _PATTERNS[place % len(_PATTERNS)], "size": 5, "solidity": 0.35}
            yield on_axes | {
                "type": "bar",
                "name": fold,
                "x": [short(at + offset) for at, _, _ in bars],
                "y": [short(number.value or 0.0) for _, _, number in bars],
                "width": width * 0.94,
                "marker": {
                    "color": [colour(methods, unlearned(method)) for _, method, _ in bars],
                    "pattern": pattern,
                },
                "error_y": error_bars([number for _, _, number in bars], "--muted"),
                "hovertext": [f"<b>{safe(m)}</b>, {safe(fold)}<br>{hover(number)}" for _, m, number in bars],
                "hovertemplate": "%{hovertext}<extra></extra>",
            }
            seeds = [(at + offset, seed) for at, _, n in bars if len(n.by_seed) > 1 for seed in n.by_seed]
            if seeds:
                yield on_axes | {
                    "type": "scatter",
                    "mode": "markers",
                    "name": "seeds",
                    "x": [short(x) for x, _ in seeds],
                    "y": [short(y) for _, y in seeds],
                    "hoverinfo": "skip",
                    "marker": {"color": "--ink", "size": 4, "line": {"color": "--paper", "width": 1}},
                }

    def _references(self, step: Step, axis: str) -> Iterator[Spec]:
        """The target and the retrained model as lines across the panel, one a fold."""
        for who in REFERENCES:
            for place, fold in enumerate(self.results.folds):
                number = self.number(step, who, fold)
                if number is not None:
                    y, dash = short(number.value or 0.0), _DASHES[who[0]][min(place, 1)]
                    width = 1.6 if who[0] == TARGET else 1.3
                    yield {
                        "type": "line",
                        "xref": f"x{axis} domain",
                        "yref": f"y{axis}",
                        "x0": 0,
                        "x1": 1,
                        "y0": y,
                        "y1": y,
                        "name": f"{who[0]}, {fold}",
                        "line": {"color": REFERENCE_COLOUR[who[0]], "width": width, "dash": dash},
                    }

    def _absences(self, step: Step, axis: str) -> Iterator[Spec]:
        """A dash where a method has no number: an empty place would look like a 0."""
        for at, method in enumerate(self.results.methods):
            if not any(self.number(step, unlearned(method), fold) for fold in self.results.folds):
                where = {"xref": f"x{axis}", "yref": f"y{axis}", "x": at, "y": 0.0, "yanchor": "bottom"}
                yield where | {"text": ABSENT, "showarrow": False, "font": {"size": 12, "color": "--muted"}}

    def _axes(self, axis: str, place: int) -> Spec:
        methods, panels = self.results.methods, len(self.steps)
        width = (1 - _GAP * (panels - 1)) / panels
        start = place * (width + _GAP)
        x = {
            "domain": [short(start), short(start + width)],
            "anchor": f"y{axis}",
            "tickvals": list(range(len(methods))),
            "ticktext": [safe(method) for method in methods],
            "tickangle": -40,
            "range": [-0.6, len(methods) - 0.4],
            "showgrid": False,
        }
        y = {"range": [0, 1.02], "anchor": f"x{axis}", "nticks": 6, "showticklabels": place == 0}
        style = {"gridcolor": "--line", "zeroline": False, "linecolor": "--line", "showline": True}
        style |= {"fixedrange": True, "tickfont": {"color": "--muted", "size": 11}}
        return {f"xaxis{axis}": style | x, f"yaxis{axis}": style | y}


def _heading(step: Step, axis: str) -> Spec:
    where = {"xref": f"x{axis} domain", "yref": f"y{axis} domain", "x": 0.5, "y": 1.0, "yanchor": "bottom"}
    return where | {"text": safe(step.size), "showarrow": False, "font": {"size": 12, "color": "--muted"}}


def tradeoff_panels(results: SweepResults, context: str, scope: str) -> list[tuple[str, Spec]]:
    """Figure 3: utility on retain against forgetting on forget of each fold and kind; one trace a model."""
    utility, forgetting = results.composites["retain"], results.composites["forget"]
    if utility is None or forgetting is None:
        return []
    panels = []
    for fold in results.folds:
        for kind in results.kinds:
            traces = (_trace(results, context, scope, who, (fold, kind)) for who in everyone(results.methods))
            data = [trace for trace in traces if trace]
            if data:
                titles = (f"Utility →<br>{utility}", f"Forgetting →<br>{forgetting}")
                frame = layout(([-0.03, 1.03], [-0.03, 1.03]), *titles, small=True)
                frame |= {"margin": {"l": 66, "r": 10, "t": 8, "b": 58}}
                panels.append((f"{fold}, {kind}", {"data": data, "layout": frame, "labels": False}))
    return panels


def _trace(results: SweepResults, context: str, scope: str, who: Who, place: tuple[str, str]) -> Spec | None:
    points: list[tuple[Step, SweepNumber, SweepNumber]] = []
    for step in results.steps_of(scope):
        utility, forgetting = (
            results.valued(context, step.split, who, (side, *place), measure)
            for side, measure in results.composites.items()
        )
        if utility and forgetting:
            points.append((step, utility, forgetting))
    if not points:
        return None
    name, tint = safe(name_of(who)), colour(results.methods, who)
    method = who[0] == UNLEARNED
    shades = opacities(results.steps_of(scope), [step for step, _, _ in points])
    marker = {"symbol": symbol(results.methods, who)[0], "size": 9 if method else 12, "color": tint}
    return {
        "type": "scatter",
        "mode": "lines+markers" if method else "markers",
        "name": name,
        "x": [short(utility.value or 0.0) for _, utility, _ in points],
        "y": [short(forgetting.value or 0.0) for _, _, forgetting in points],
        "line": {"color": tint, "width": 1},
        "opacity": 1,
        "marker": marker | {"opacity": shades, "line": {"color": "--paper", "width": 1}},
        "cliponaxis": False,
        "hovertext": [
            f"<b>{name}</b>, {_size(step)}<br>utility {hover(utility)}<br>forgetting {hover(forgetting)}"
            for step, utility, forgetting in points
        ],
        "hovertemplate": "%{hovertext}<extra></extra>",
    }


def opacities(scope: Sequence[Step], steps: Sequence[Step]) -> list[float]:
    """The larger the forget set, the darker: by the step's place among its scope's."""
    last = max(1, len(scope) - 1)
    return [short(_FAINTEST + (1 - _FAINTEST) * list(scope).index(step) / last) for step in steps]


def disease_figure(results: SweepResults, context: str, scope: str) -> Spec | None:
    """Figure 4: utility of retained patients with the disease (solid) and without it (dashed), by size."""
    measure, place = results.composites["retain"], ("retain", "train", MEAN_OF_KINDS)
    steps = [step for step in results.steps_of(scope) if step.disease and step.percent is not None]
    data: list[Spec] = []
    for who in everyone(results.methods):
        for group in (SAME, OTHER):
            points = [
                (step.percent or 0, _size(step), number)
                for step in steps
                if (number := results.valued(context, step.split, who, place, measure, group))
            ]
            if points:
                filled = symbol(results.methods, who)[0]
                style = ("solid", filled) if group == SAME else ("dash", f"{filled}-open")
                name, tint = f"{name_of(who)}, {group}", colour(results.methods, who)
                data.append(line(name, points, tint, line={"dash": style[0]}, marker={"symbol": style[1]}))
    if not data:
        return None
    frame = layout(None, "Forget set, % of all patients", f"{measure} on retain<br>mean of the kinds, train fold")
    frame |= {"margin": {"l": 70, "r": 12, "t": 10, "b": 52}}
    frame["yaxis"] |= {"range": [-0.03, 1.03]}
    frame["xaxis"] |= {"tickvals": [step.percent for step in steps]}
    return {"data": data, "layout": frame, "labels": False}


def _size(step: Step) -> str:
    return step.split if step.percent is None else f"{step.size} ({count(step.forget, step.level)})"
