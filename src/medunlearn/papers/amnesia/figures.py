"""AMNESIA's Figures 2 to 4: bars by forget set size, trade-off curves, and retained patients by disease."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from medunlearn.metrics import installed_metrics
from medunlearn.papers.amnesia.sweep import MEAN_OF_KINDS, OTHER, SAME, TRAIN, SizeResults, Step
from medunlearn.papers.sweeps import figures as shared
from medunlearn.papers.sweeps.models import REFERENCES, TARGET, UNLEARNED, Who, unlearned
from medunlearn.papers.sweeps.results import SweepNumber
from medunlearn.reports.blocks import Spec
from medunlearn.reports.figures import layout, safe, short
from medunlearn.reports.formatting import ABSENT, count
from medunlearn.reports.wording import composite_words

_PATTERNS = ("", "/", "x", ".")
# Train and holdout line of a reference, and of further folds.
_DASHES = {"target": ("dash", "dot"), "retrained": ("dashdot", "longdashdot")}
_GAP = 0.03
_FAINTEST = 0.35


def measure_words(measure: str | None) -> str:
    """The paper's name of a composite; one with parts missing by its parts, in words."""
    if measure is None or not measure.startswith("H("):
        return measure or ""
    titles = {name: metric.title for name, metric in installed_metrics().items()}
    return composite_words(measure, lambda name: titles.get(name, name))


def bar_rows(results: SizeResults, context: str, scope: str) -> list[tuple[str, Spec]]:
    """Figure 2: a titled figure each for utility and forgetting of every kind, with one panel per size."""
    return [
        (f"{measure_words(measure)} on {side}, {kind}", spec)
        for side, measure in results.composites.items()
        for kind in results.kinds
        if measure is not None and (spec := _bar_row(results, context, scope, side, kind, measure))
    ]


def _bar_row(results: SizeResults, context: str, scope: str, side: str, kind: str, measure: str) -> Spec | None:
    """One row of panels: every method by forget set size, train next to holdout."""
    data: list[Spec] = []
    shapes: list[Spec] = []
    notes: list[Spec] = []
    axes: Spec = {}
    methods, steps = results.methods, results.scopes[scope]
    for place, step in enumerate(steps):
        numbers = {
            (who, fold): number
            for who in shared.everyone(methods)
            for fold in results.folds
            if (number := results.valued(context, step.split, who, (side, fold, kind), measure))
        }
        panel = _Panel("" if place == 0 else str(place + 1), methods, results.folds, numbers)
        axes |= panel.axes(place, len(steps))
        data += panel.bars()
        shapes += panel.reference_lines()
        notes += [panel.heading(step), *panel.absences()]
    frame = {"barmode": "overlay", "margin": {"l": 40, "r": 6, "t": 24, "b": 58}, "font": {"size": 12}}
    if not data and not shapes:
        return None
    return {"data": data, "layout": frame | axes | {"annotations": notes, "shapes": shapes}, "labels": False}


@dataclass(frozen=True)
class _Panel:
    """One forget set size in a row of Figure 2.

    Attributes:
        axis: suffix of the axes.
        numbers: model and fold -> its number, if it has a value.
    """

    axis: str
    methods: Sequence[str]
    folds: Sequence[str]
    numbers: dict[tuple[Who, str], SweepNumber]

    def bars(self) -> Iterator[Spec]:
        """One trace per fold, one bar per method, and a point per seed if there are several."""
        width = 0.84 / len(self.folds)
        on_axes = {"xaxis": f"x{self.axis}", "yaxis": f"y{self.axis}"}
        for place, fold in enumerate(self.folds):
            offset = (place - (len(self.folds) - 1) / 2) * width
            bars = [
                (at, method, self.numbers[unlearned(method), fold])
                for at, method in enumerate(self.methods)
                if (unlearned(method), fold) in self.numbers
            ]
            if not bars:
                continue
            pattern = {"shape": _PATTERNS[place % len(_PATTERNS)], "size": 5, "solidity": 0.35}
            tints = [shared.colour(self.methods, unlearned(method)) for _, method, _ in bars]
            yield on_axes | {
                "type": "bar",
                "name": fold,
                "x": [short(at + offset) for at, _, _ in bars],
                "y": [shared.height(number) for _, _, number in bars],
                "width": width * 0.94,
                "marker": {"color": tints, "pattern": pattern},
                "error_y": shared.error_bars([number for _, _, number in bars], "--muted"),
                "hovertext": [f"<b>{safe(m)}</b>, {safe(fold)}<br>{shared.hover(number)}" for _, m, number in bars],
                "hovertemplate": shared.HOVER,
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

    def reference_lines(self) -> Iterator[Spec]:
        """The target and the retrained model as lines across the panel, one per fold."""
        for who in REFERENCES:
            for place, fold in enumerate(self.folds):
                if (who, fold) in self.numbers:
                    y, dash = shared.height(self.numbers[who, fold]), _DASHES[who[0]][min(place, 1)]
                    width = 1.6 if who[0] == TARGET else 1.3
                    yield {
                        "type": "line",
                        "xref": f"x{self.axis} domain",
                        "yref": f"y{self.axis}",
                        "x0": 0,
                        "x1": 1,
                        "y0": y,
                        "y1": y,
                        "name": f"{who[0]}, {fold}",
                        "line": {"color": shared.REFERENCE_COLOUR[who[0]], "width": width, "dash": dash},
                    }

    def absences(self) -> Iterator[Spec]:
        """A dash where a method has no number, since an empty place would look like a 0."""
        for at, method in enumerate(self.methods):
            if not any((unlearned(method), fold) in self.numbers for fold in self.folds):
                where = {"xref": f"x{self.axis}", "yref": f"y{self.axis}", "x": at, "y": 0.0, "yanchor": "bottom"}
                yield where | {"text": ABSENT, "showarrow": False, "font": {"size": 12, "color": "--muted"}}

    def heading(self, step: Step) -> Spec:
        """The size above the panel."""
        x, y = (f"{name}{self.axis} domain" for name in "xy")
        where = {"xref": x, "yref": y, "x": 0.5, "y": 1.0, "yanchor": "bottom"}
        return where | {"text": safe(step.size), "showarrow": False, "font": {"size": 12, "color": "--muted"}}

    def axes(self, place: int, panels: int) -> Spec:
        """Axes of a panel: methods on x, 0 to 1 on y, within its share of the width."""
        width = (1 - _GAP * (panels - 1)) / panels
        start = place * (width + _GAP)
        x = {
            "domain": [short(start), short(start + width)],
            "anchor": f"y{self.axis}",
            "tickvals": list(range(len(self.methods))),
            "ticktext": [safe(method) for method in self.methods],
            "tickangle": -40,
            "range": [-0.6, len(self.methods) - 0.4],
            "showgrid": False,
        }
        y = {"range": [0, 1.02], "anchor": f"x{self.axis}", "nticks": 6, "showticklabels": place == 0}
        style = {"gridcolor": "--line", "zeroline": False, "linecolor": "--line", "showline": True}
        style |= {"fixedrange": True, "tickfont": {"color": "--muted", "size": 11}}
        return {f"xaxis{self.axis}": style | x, f"yaxis{self.axis}": style | y}


def tradeoff_panels(results: SizeResults, context: str, scope: str) -> list[tuple[str, Spec]]:
    """Figure 3: utility on retain against forgetting on forget for each fold and kind; one trace per model."""
    utility, forgetting = results.composites["retain"], results.composites["forget"]
    if utility is None or forgetting is None:
        return []
    titles = (f"Utility →<br>{measure_words(utility)}", f"Forgetting →<br>{measure_words(forgetting)}")
    frame = layout(([-0.03, 1.03], [-0.03, 1.03]), *titles, small=True)
    frame |= {"margin": {"l": 66, "r": 10, "t": 8, "b": 58}}
    panels = {
        f"{fold}, {kind}": [
            trace
            for who in shared.everyone(results.methods)
            if (trace := _trace(results, context, results.scopes[scope], who, (fold, kind)))
        ]
        for fold in results.folds
        for kind in results.kinds
    }
    return [(title, {"data": data, "layout": frame, "labels": False}) for title, data in panels.items() if data]


def _trace(
    results: SizeResults, context: str, scope: Sequence[Step], who: Who, place: tuple[str, str]
) -> Spec | None:
    points = []
    for step in scope:
        utility, forgetting = (
            results.valued(context, step.split, who, (side, *place), measure)
            for side, measure in results.composites.items()
        )
        if utility and forgetting:
            points.append((step, utility, forgetting))
    if not points:
        return None
    name, tint, method = safe(shared.name_of(who)), shared.colour(results.methods, who), who[0] == UNLEARNED
    marker = {"symbol": shared.symbol(results.methods, who)[0], "size": 9 if method else 12, "color": tint}
    shades = opacities(scope, [step for step, _, _ in points])
    return {
        "type": "scatter",
        "mode": "lines+markers" if method else "markers",
        "name": name,
        "x": [shared.height(utility) for _, utility, _ in points],
        "y": [shared.height(forgetting) for _, _, forgetting in points],
        "line": {"color": tint, "width": 1},
        "opacity": 1,
        "marker": marker | {"opacity": shades, "line": {"color": "--paper", "width": 1}},
        "cliponaxis": False,
        "hovertext": [
            f"<b>{name}</b>, {_size(step)}<br>utility {shared.hover(of)}<br>forgetting {shared.hover(forgetting)}"
            for step, of, forgetting in points
        ],
        "hovertemplate": shared.HOVER,
    }


def opacities(scope: Sequence[Step], steps: Sequence[Step]) -> list[float]:
    """Opacity of each step: larger forget sets are darker, by rank within their scope."""
    last = max(1, len(scope) - 1)
    return [short(_FAINTEST + (1 - _FAINTEST) * list(scope).index(step) / last) for step in steps]


def disease_figure(results: SizeResults, context: str, scope: str) -> Spec | None:
    """Figure 4: utility of retained patients with the disease (solid) and without it (dashed), by size."""
    measure, place = results.composites["retain"], ("retain", TRAIN, MEAN_OF_KINDS)
    steps = [step for step in results.scopes[scope] if step.disease and step.percent is not None]
    data: list[Spec] = []
    for who in shared.everyone(results.methods):
        filled = shared.symbol(results.methods, who)[0]
        for group, dash, marker in ((SAME, "solid", filled), (OTHER, "dash", f"{filled}-open")):
            points = [
                (step.percent or 0, _size(step), number)
                for step in steps
                if (number := results.valued(context, step.split, who, place, measure, group))
            ]
            if points:
                style = {"line": {"dash": dash}, "marker": {"symbol": marker}}
                name, tint = f"{shared.name_of(who)}, {group}", shared.colour(results.methods, who)
                data.append(shared.line(name, points, tint, **style))
    if not data:
        return None
    frame = layout(
        None,
        "Forget set, % of all patients",
        f"{measure_words(measure)} on retain<br>mean of the kinds, train fold",
    )
    frame |= {"margin": {"l": 70, "r": 12, "t": 10, "b": 52}}
    frame["yaxis"] |= {"range": [-0.03, 1.03]}
    frame["xaxis"] |= {"tickvals": [step.percent for step in steps]}
    return {"data": data, "layout": frame, "labels": False}


def _size(step: Step) -> str:
    return step.split if step.percent is None else f"{step.size} ({count(step.forget, step.level)})"
