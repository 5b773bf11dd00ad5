"""Shapes of a drawing: markers, lines, bars, words, and the colours of a viewer."""

from __future__ import annotations

import html
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any

from medunlearn.reports.svg_words import rounded

_DASHES = {"dash": "6 4", "dot": "1.5 3.5", "dashdot": "7 3 1.5 3", "longdash": "10 4", "longdashdot": "10 3 2 3"}
_PATTERNS = {"/": 0.35, "x": 0.15, ".": 0.6}
FONT = "Helvetica, Arial, sans-serif"


@dataclass(frozen=True)
class Paint:
    """Colours by name, and attributes of the whole drawing; ``halo``: names have an outline in paper colour."""

    colour: Callable[[str], str]
    root: Mapping[str, Any] = field(default_factory=dict)
    halo: bool = True

    def __call__(self, name: str) -> str:
        return self.colour(name) if name.startswith("--") else name


ON_PAGE = Paint(lambda name: f"var({name})")
"""Colours of the page's scheme, light or dark."""


@cache
def light_colours() -> Mapping[str, str]:
    """Name of a colour -> its value in the light scheme, as ``page.css`` has it."""
    style = files("medunlearn.reports").joinpath("assets", "page.css").read_text(encoding="utf-8")
    light = style.partition("@media")[0]
    return dict(re.findall(r"(--\w+): (#[0-9a-f]{6})", light))


def for_files(*, halo: bool = True) -> Paint:
    """Colours for a file on white paper."""
    colours = {**light_colours(), "--paper": "#ffffff"}
    return Paint(
        lambda name: colours.get(name, "#000000"),
        {"xmlns": "http://www.w3.org/2000/svg", "font-family": FONT},
        halo,
    )


def tag(name: str, attributes: Mapping[str, Any], content: str = "") -> str:
    """One element; its content is markup already."""
    inside = "".join(f' {key}="{html.escape(str(value))}"' for key, value in attributes.items() if value != "")
    return f"<{name}{inside}>{content}</{name}>" if content else f"<{name}{inside}/>"


def _titled(hover: str) -> str:
    return f"<title>{html.escape(hover)}</title>" if hover else ""


def dash_of(name: str) -> dict[str, str]:
    """Attributes of a dashed line; none of a solid one."""
    return {"stroke-dasharray": _DASHES[name]} if name in _DASHES else {}


def shape_line(x0: float, y0: float, x1: float, y1: float, *, hover: str = "", **style: Any) -> str:
    """A straight line; ``style`` has attributes with underscores."""
    ends = {"x1": rounded(x0), "y1": rounded(y0), "x2": rounded(x1), "y2": rounded(y1)}
    return tag("line", {**ends, **{key.replace("_", "-"): v for key, v in style.items()}}, _titled(hover))


def words(
    x: float,
    y: float,
    text: str,
    colour: str,
    size: float,
    *,
    anchor: str = "start",
    middle: bool = False,
    turn: float = 0.0,
    weight: int = 0,
    halo: str = "",
    opacity: float = 1.0,
) -> str:
    """Text at a point. ``middle``: centred on y; ``halo``: colour of an outline that keeps it readable."""
    y += 0.35 * size if middle else 0.0
    place = {"x": rounded(x), "y": rounded(y), "fill": colour, "font-size": rounded(size), "text-anchor": anchor}
    more: dict[str, Any] = {"font-weight": weight} if weight else {}
    if turn:
        more["transform"] = f"rotate({rounded(turn)} {rounded(x)} {rounded(y)})"
    if halo:
        more |= {"stroke": halo, "stroke-width": 3, "paint-order": "stroke", "stroke-linejoin": "round"}
    if opacity < 1.0:
        more["fill-opacity"] = opacity
    return tag("text", {**place, **more}, html.escape(text) or " ")


def bar_shape(edges: Sequence[float], ends: Sequence[float], colour: str, pattern: str, hover: str) -> str:
    """A bar between two edges from its value to its base; a pattern makes it lighter with an outline."""
    box = {"x": rounded(min(edges)), "width": rounded(abs(edges[1] - edges[0]))}
    box |= {"y": rounded(min(ends)), "height": rounded(abs(ends[1] - ends[0]))}
    more = {"fill-opacity": _PATTERNS[pattern], "stroke": colour} if pattern in _PATTERNS else {}
    return tag("rect", {**box, "fill": colour, **more}, _titled(hover))


def _corners(count: int, turn: float = 0.0, inner: float = 0.0) -> list[tuple[float, float]]:
    """Corners of a regular polygon, or of a star if ``inner`` is the radius between its points."""
    number = 2 * count if inner else count
    return [
        (radius * math.sin(angle), -radius * math.cos(angle))
        for place in range(number)
        for angle in [turn + 2 * math.pi * place / number]
        for radius in [inner if inner and place % 2 else 1.0]
    ]


_QUARTER = math.pi / 4
_T = 0.36
_PLUS = [
    (-_T, -1), (_T, -1), (_T, -_T), (1, -_T), (1, _T), (_T, _T),
    (_T, 1), (-_T, 1), (-_T, _T), (-1, _T), (-1, -_T), (-_T, -_T),
]  # fmt: skip
_POLYGONS: Mapping[str, Sequence[tuple[float, float]]] = {
    "square": [(-0.86, -0.86), (0.86, -0.86), (0.86, 0.86), (-0.86, 0.86)],
    "diamond": _corners(4),
    "star": _corners(5, inner=0.42),
    "triangle-up": [(0, -1), (1, 0.8), (-1, 0.8)],
    "triangle-down": [(0, 1), (1, -0.8), (-1, -0.8)],
    "triangle-left": [(-1, 0), (0.8, -1), (0.8, 1)],
    "triangle-right": [(1, 0), (-0.8, -1), (-0.8, 1)],
    "pentagon": _corners(5),
    "hexagon": _corners(6),
    "cross": _PLUS,
    "x": [
        (x * math.cos(_QUARTER) - y * math.sin(_QUARTER), x * math.sin(_QUARTER) + y * math.cos(_QUARTER))
        for x, y in _PLUS
    ],
    "hourglass": [(-0.9, -0.9), (0.9, -0.9), (0.15, 0), (0.9, 0.9), (-0.9, 0.9), (-0.15, 0)],
    "bowtie": [(-0.9, -0.9), (0, -0.15), (0.9, -0.9), (0.9, 0.9), (0, 0.15), (-0.9, 0.9)],
}


def marker_shape(
    symbol: str, x: float, y: float, size: float, colour: str, edge: str, opacity: float, hover: str
) -> str:
    """A marker by its name; ``-open`` is drawn hollow."""
    shape, radius = symbol.removesuffix("-open"), size / 2
    style: dict[str, Any] = {"fill": colour, "stroke": edge, "stroke-width": 1}
    if symbol.endswith("-open"):
        style = {"fill": "none", "stroke": colour, "stroke-width": 1.6}
    if opacity < 1.0:
        style["opacity"] = opacity
    if shape not in _POLYGONS:
        return tag("circle", {"cx": rounded(x), "cy": rounded(y), "r": rounded(radius), **style}, _titled(hover))
    points = " ".join(
        f"{rounded(x + 1.1 * radius * a)},{rounded(y + 1.1 * radius * b)}" for a, b in _POLYGONS[shape]
    )
    return tag("polygon", {"points": points, **style}, _titled(hover))
