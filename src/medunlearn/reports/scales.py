"""Scales of axes: values to pixels, round ticks, categories; and the room that words take."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

_NARROW, _WIDE = set("ijlftrI.,:;|'()[]- /"), set("mwMWQ@%")
_MARGIN = 0.06


def text_width(text: str, size: float, *, bold: bool = False) -> float:
    """Pixels that a text takes in a sans-serif typeface, rather too many than too few."""
    widths = (0.34 if c in _NARROW else 0.9 if c in _WIDE else 0.7 if c.isupper() else 0.57 for c in text)
    return size * sum(widths) * (1.07 if bold else 1.0)


def wrapped(lines: Iterable[str], width: float, size: float) -> list[str]:
    """Lines broken between words so that each fits a width; a single long word stays whole."""
    fitting: list[str] = []
    for line in lines:
        current = ""
        for word in line.split():
            longer = f"{current} {word}".strip()
            if current and text_width(longer, size) > width:
                fitting.append(current)
                longer = word
            current = longer
        fitting += [current] if current else []
    return fitting


@dataclass(frozen=True)
class Scale:
    """A linear scale from values ``low`` to ``high`` onto pixels ``start`` to ``end``.

    Attributes:
        categories: names at 0, 1, 2, ...; empty for numbers.
    """

    low: float
    high: float
    start: float = 0.0
    end: float = 1.0
    categories: tuple[str, ...] = ()

    def placed(self, start: float, end: float) -> Scale:
        """The same values on other pixels."""
        return replace(self, start=start, end=end)

    @property
    def length(self) -> float:
        return abs(self.end - self.start)

    def value(self, place: Any) -> float:
        """A number, or the place of a category."""
        return float(self.categories.index(place)) if isinstance(place, str) else float(place)

    def at(self, number: float) -> float:
        """Pixel of a number."""
        return self.start + (number - self.low) / (self.high - self.low) * (self.end - self.start)

    def __call__(self, place: Any) -> float:
        return self.at(self.value(place))

    def ticks(self, axis: Mapping[str, Any]) -> list[tuple[Any, str]]:
        """Places with their texts: those of the axis, categories, or round numbers."""
        if "tickvals" in axis:
            texts = axis.get("ticktext") or [_number(value) for value in axis["tickvals"]]
            return list(zip(axis["tickvals"], map(str, texts), strict=True))
        if self.categories:
            return [(name, name) for name in self.categories]
        most = max(2.0, self.length / 62)
        step = _round_step((self.high - self.low) / most)
        if axis.get("dtick"):
            step = max(float(axis["dtick"]), math.ceil(step))
        return list(_round_ticks(self.low, self.high, step))


def _number(value: Any) -> str:
    return str(value) if isinstance(value, (str, int)) else f"{value:g}"


def _round_step(raw: float) -> float:
    power = 10.0 ** math.floor(math.log10(raw)) if raw > 0 else 1.0
    return next((nice * power for nice in (1.0, 2.0, 5.0) if nice * power >= raw * 0.999), 10.0 * power)


def _round_ticks(low: float, high: float, step: float) -> Iterator[tuple[float, str]]:
    digits = max(0, -math.floor(math.log10(step) + 1e-9))
    first = math.ceil(low / step - 1e-9)
    for place in range(first, math.floor(high / step + 1e-9) + 1):
        value = place * step
        yield value, f"{value if place else 0.0:.{digits}f}".replace("-", "−")


def scale_of(axis: Mapping[str, Any], traces: Sequence[Mapping[str, Any]], name: str) -> Scale:
    """Scale of an axis, from its settings and its traces' values with their intervals.

    Args:
        name: ``x`` or ``y``.
    """
    values = [value for trace in traces for value in trace[name] if value is not None]
    if axis.get("type") == "category" or any(isinstance(value, str) for value in values):
        names = [*axis.get("categoryarray", ()), *map(str, values)]
        categories = tuple(dict.fromkeys(names))
        low, high = axis.get("range", (-0.5, len(categories) - 0.5))
        return Scale(float(low), float(high), categories=categories)
    if "range" in axis:
        low, high = axis["range"]
        return Scale(float(low), float(high))
    edges = [float(edge) for trace in traces for edge in _edges(trace, name)]
    if any(trace["type"] == "bar" for trace in traces) and name == "y":
        edges.append(0.0)
    low, high = (min(edges), max(edges)) if edges else (0.0, 1.0)
    if axis.get("rangemode") == "tozero":
        low, high = min(0.0, low), max(0.0, high)
    span = high - low or abs(high) or 1.0
    fixed = 0.0 in (low, high) and (axis.get("rangemode") == "tozero" or any(t["type"] == "bar" for t in traces))
    return Scale(low - (0.0 if fixed and low == 0.0 else _MARGIN * span), high + _MARGIN * span)


def _edges(trace: Mapping[str, Any], name: str) -> Iterator[float]:
    errors = trace.get(f"error_{name}", {})
    for place, value in enumerate(trace[name]):
        if value is None:
            continue
        up, down = ((errors[key][place] if errors.get(key) else 0.0) for key in ("array", "arrayminus"))
        yield from (value - down, value + up)
