"""Names, colours, symbols and lines shared by the figures of all sweeps."""

from __future__ import annotations

from collections.abc import Sequence

from medunlearn.papers.sweeps.models import REFERENCES, RETRAINED, TARGET, UNLEARNED, Who, unlearned
from medunlearn.papers.sweeps.results import SweepNumber
from medunlearn.reports.blocks import Legend, Spec
from medunlearn.reports.figures import safe, short, turn_colour, turn_mark, whiskers
from medunlearn.reports.formatting import decimal, interval

REFERENCE_COLOUR = {TARGET: "--ink", RETRAINED: "--accent"}
HOVER = "%{hovertext}<extra></extra>"

_REFERENCE_SHAPES = {TARGET: ("star", "★"), RETRAINED: ("diamond", "◆")}


def name_of(who: Who) -> str:
    """A model's name in tables and figures."""
    return who[1] or who[0]


def everyone(methods: Sequence[str]) -> list[Who]:
    """Every model, methods first, so that figures draw the references on top."""
    return [*map(unlearned, methods), *REFERENCES]


def colour(methods: Sequence[str], who: Who) -> str:
    """The CSS variable of a model."""
    if who[0] != UNLEARNED:
        return REFERENCE_COLOUR[who[0]]
    return turn_colour(methods.index(who[1]))


def symbol(methods: Sequence[str], who: Who) -> tuple[str, str]:
    """A model's marker, and a similar character."""
    if who[0] != UNLEARNED:
        return _REFERENCE_SHAPES[who[0]]
    return turn_mark(methods.index(who[1]))


def legend(methods: Sequence[str], models: Sequence[Who]) -> Legend:
    """Label, symbol and colour of each model."""
    return Legend(tuple((name_of(who), symbol(methods, who)[1], colour(methods, who)) for who in models))


def height(number: SweepNumber) -> float:
    """Height of a number in a figure."""
    return short(number.value or 0.0)


def hover(number: SweepNumber) -> str:
    """Value, interval, number of subjects, and each seed's value."""
    text = f"{decimal(number.value or 0.0)} {interval(number.low, number.high)}, {number.n_subjects} subjects"
    if len(number.by_seed) > 1:
        text += f"; seeds {', '.join(map(decimal, number.by_seed))}"
    return text


def error_bars(numbers: Sequence[SweepNumber], tint: str) -> Spec:
    """Error bars of points with values."""
    return whiskers(((number.value, number.low, number.high) for number in numbers), tint) | {"width": 2}


def line(name: str, points: Sequence[tuple[float, str, SweepNumber]], tint: str, **style: Spec) -> Spec:
    """One trace from (x, its label, number)."""
    numbers = [number for *_, number in points]
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "name": safe(name),
        "x": [x for x, _, _ in points],
        "y": list(map(height, numbers)),
        "line": {"color": tint, "width": 1.6} | style["line"],
        "marker": {"color": tint, "size": 7} | style["marker"],
        "error_y": error_bars(numbers, tint),
        "hovertext": [f"<b>{safe(name)}</b>, {words}<br>{hover(number)}" for _, words, number in points],
        "hovertemplate": HOVER,
        "cliponaxis": False,
    }
