"""Colours and symbols that all figures of a sweep share."""

from __future__ import annotations

from collections.abc import Sequence

from medunlearn.papers.amnesia.report.content import RETRAINED, TARGET, UNLEARNED, Measured
from medunlearn.reports.words import decimal, interval

Spec = dict[str, object]
Who = tuple[str, str]

_COLOURS = 8
_SHAPES = (("circle", "●"), ("square", "■"))
REFERENCE_COLOUR = {TARGET: "--ink", RETRAINED: "--accent"}
REFERENCES: tuple[Who, ...] = ((TARGET, ""), (RETRAINED, ""))


def colour(methods: Sequence[str], who: Who) -> str:
    """The CSS variable of a model."""
    if who[0] != UNLEARNED:
        return REFERENCE_COLOUR[who[0]]
    return f"--m{methods.index(who[1]) % _COLOURS + 1}"


def symbol(methods: Sequence[str], who: Who) -> tuple[str, str]:
    """A model's marker in plotly, and the character that looks like it."""
    if who[0] != UNLEARNED:
        return {TARGET: ("star", "★"), RETRAINED: ("diamond", "◆")}[who[0]]
    return _SHAPES[methods.index(who[1]) // _COLOURS % len(_SHAPES)]


def hover(found: Measured) -> str:
    """Value, interval, how many subjects, and each seed's number."""
    reading = found.reading
    text = f"{decimal(reading.value or 0.0)} {interval(reading.low, reading.high)}, {reading.n_subjects} subjects"
    if len(found.by_seed) > 1:
        text += f"; seeds {', '.join(decimal(one) for one in found.by_seed)}"
    return text


def error(found: Sequence[Measured], colour_name: str) -> Spec:
    """Error bars of points with values; of length 0 where a point has no interval."""
    up, down = [], []
    for one in found:
        value, low, high = one.reading.value or 0.0, one.reading.low, one.reading.high
        up.append(max(0.0, high - value) if high is not None else 0.0)
        down.append(max(0.0, value - low) if low is not None else 0.0)
    bars: Spec = {"type": "data", "symmetric": False, "array": up, "arrayminus": down, "color": colour_name}
    return bars | {"thickness": 1.1, "width": 2}
