"""Render a figure as SVG: axes, lines, points with intervals, bars, bands, legends, and names beside points.

A figure is a plain specification in plotly's words (:mod:`~medunlearn.reports.figures`), of which this module draws
the part that our reports use. Titles and names of ticks get the room that they need, so that none is cut. The page
and the files of `report --figures` hold the same drawing.
"""

from __future__ import annotations

import hashlib
import html
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from medunlearn.reports.blocks import Spec
from medunlearn.reports.label_places import Box, place_labels
from medunlearn.reports.scales import Scale, scale_of, text_width, wrapped
from medunlearn.reports.svg_marks import Paint, bar_shape, dash_of, marker_shape, shape_line, tag, words
from medunlearn.reports.svg_words import nth, path_data, plain, plain_lines, point_words, rounded

SMALL_TEXT, TEXT, LINE = 11.0, 12.0, 1.25
TICK, GAP = 5.0, 8.0
TITLE_ROOM = 115.0
"""Part of the height that a title beside the axis leaves free."""
MOST_NAMES = 24
"""Names beside the points of a panel: those of the first models in the order of the page."""
_AXIS = re.compile(r"[xy]axis(\d*)")


def figure_svg(spec: Spec, width: float, height: float, label: str, paint: Paint) -> str:
    """The drawing as one ``<svg>`` element.

    Args:
        width, height: size in pixels; a legend below is added to the height.
        label: description for screen readers.
        paint: turns the name of a colour (``--m1``) into one that the viewer knows.
    """
    return _Drawing(spec, width, height, label, paint).svg()


@dataclass(frozen=True)
class _AxesPair:
    """One pair of axes with its scales."""

    number: str
    x: Scale
    y: Scale
    x_axis: Mapping[str, Any]
    y_axis: Mapping[str, Any]


class _Drawing:
    def __init__(self, spec: Spec, width: float, height: float, label: str, paint: Paint) -> None:
        self.layout, self.data = spec["layout"], [trace for trace in spec["data"] if trace]
        self.labelled, self.label, self.paint = bool(spec.get("labels")), label, paint
        self.width = width
        digest = hashlib.sha256(json.dumps([spec, width], default=str, sort_keys=True).encode()).hexdigest()
        self.name = f"f{digest[:10]}"
        self.legend = list(self._legend_lines())
        self.height = height + LINE * TEXT * len(self.legend)
        self.bottom = height
        self.panels = {number: self._panel(number) for number in self._numbers()}

    def svg(self) -> str:
        parts = [f"<title>{html.escape(self.label)}</title>"]
        for panel in self.panels.values():
            parts += self._frame(panel)
        parts += self._shapes()
        for panel in self.panels.values():
            own = [trace for trace in self.data if _number(trace) == panel.number]
            parts += self._bars(panel, own)
            parts += (part for trace in own for part in self._trace(panel, trace))
        if self.labelled:
            parts += self._names()
        parts += self._annotations()
        parts += self._legend_marks()
        size = {"viewBox": f"0 0 {rounded(self.width)} {rounded(self.height)}", "role": "img", "class": "chart"}
        more = {"aria-label": self.label, "font-size": TEXT}
        return tag("svg", {**more, **size, **self.paint.root}, "".join(parts))

    # Axes.

    def _numbers(self) -> list[str]:
        found = {match[1] for name in self.layout if (match := _AXIS.fullmatch(name))}
        return sorted(found | {_number(trace) for trace in self.data} or {""}, key=lambda number: int(number or 1))

    def _panel(self, number: str) -> _AxesPair:
        x_axis, y_axis = (self.layout.get(f"{name}axis{number}", {}) for name in "xy")
        traces = [trace for trace in self.data if _number(trace) == number]
        start, end = x_axis.get("domain", (0.0, 1.0))
        first = start == 0.0
        y = scale_of(y_axis, traces, "y")
        sizes = [text_width(words, SMALL_TEXT) for words in self._tick_texts(y, y_axis, (0.0, self.bottom))]
        room = self.bottom - TITLE_ROOM
        title = wrapped(plain_lines(y_axis), room, TEXT)
        left = (max(sizes, default=0.0) + GAP + TICK) + LINE * TEXT * len(title)
        inner = self.width - left - 12
        # Panels further right have axes without words of their own, or room between them.
        begin = (
            left + inner * start + (0 if first or not y_axis.get("showticklabels", True) else max(sizes, default=0))
        )
        finish = left + inner * end
        x = scale_of(x_axis, traces, "x")
        below = self._below(x, x_axis, finish - begin)
        above = 22.0 if any("domain" in str(note.get("yref", "")) for note in self._notes()) else 10.0
        return _AxesPair(number, x.placed(begin, finish), y.placed(self.bottom - below, above), x_axis, y_axis)

    def _notes(self) -> Sequence[Mapping[str, Any]]:
        notes: Sequence[Mapping[str, Any]] = self.layout.get("annotations", ())
        return notes

    def _below(self, x: Scale, axis: Mapping[str, Any], width: float) -> float:
        """Height of the words below a panel."""
        texts = self._tick_texts(x, axis, (0.0, width))
        longest = max((text_width(text, SMALL_TEXT) for text in texts), default=0.0)
        ticks = 0.75 * longest + 6 if self._is_slanted(x, axis, width) else LINE * SMALL_TEXT
        return TICK + 6 + ticks + LINE * TEXT * len(wrapped(plain_lines(axis), width, TEXT))

    def _is_slanted(self, x: Scale, axis: Mapping[str, Any], width: float) -> bool:
        texts = self._tick_texts(x, axis, (0.0, width))
        room = width / max(1, len(texts))
        return bool(axis.get("tickangle")) or any(text_width(text, SMALL_TEXT) > room - 4 for text in texts)

    def _tick_texts(self, scale: Scale, axis: Mapping[str, Any], pixels: tuple[float, float]) -> list[str]:
        if axis.get("showticklabels") is False:
            return []
        return [plain(text) for _, text in scale.placed(*pixels).ticks(axis)]

    def _frame(self, panel: _AxesPair) -> Iterator[str]:
        """Grid, axis lines, ticks and titles."""
        x, y, grid = panel.x, panel.y, self.paint("--line")
        slanted = self._is_slanted(x, panel.x_axis, x.length)
        for value, text in y.ticks(panel.y_axis):
            at = y(value)
            if not y.categories or panel.y_axis.get("showgrid", True):
                yield shape_line(x.start, at, x.end, at, stroke=grid, stroke_width=1)
            if panel.y_axis.get("showticklabels", True):
                bold = text in panel.y_axis.get("strong", ())
                yield words(
                    x.start - GAP, at, plain(text), self.paint("--ink" if y.categories else "--muted"),
                    SMALL_TEXT, anchor="end", middle=True, weight=600 if bold else 0,
                )  # fmt: skip
        for value, text in x.ticks(panel.x_axis):
            at = x(value)
            if panel.x_axis.get("showgrid", True) and not x.categories:
                yield shape_line(at, y.start, at, y.end, stroke=grid, stroke_width=1)
            style: dict[str, Any] = {"anchor": "middle"}
            if slanted:
                style = {"anchor": "end", "turn": -40}
            top = y.start + TICK + SMALL_TEXT
            yield words(at, top, plain(text), self.paint("--muted"), SMALL_TEXT, **style)
        yield shape_line(x.start, y.start, x.end, y.start, stroke=self.paint("--muted"), stroke_width=1)
        yield shape_line(x.start, y.start, x.start, y.end, stroke=self.paint("--muted"), stroke_width=1)
        yield from self._axis_titles(panel)

    def _axis_titles(self, panel: _AxesPair) -> Iterator[str]:
        ink = self.paint("--ink")
        titles = wrapped(plain_lines(panel.x_axis), panel.x.length, TEXT)
        for place, text in enumerate(titles):
            at = self.bottom - 4 - LINE * TEXT * (len(titles) - 1 - place)
            yield words((panel.x.start + panel.x.end) / 2, at, text, ink, TEXT, anchor="middle")
        middle = (panel.y.start + panel.y.end) / 2
        for place, text in enumerate(wrapped(plain_lines(panel.y_axis), self.bottom - TITLE_ROOM, TEXT)):
            yield words(TEXT + LINE * TEXT * place, middle, text, ink, TEXT, anchor="middle", turn=-90)

    # Traces.

    def _bars(self, panel: _AxesPair, traces: Sequence[Spec]) -> Iterator[str]:
        bars = [trace for trace in traces if trace["type"] == "bar"]
        grouped = self.layout.get("barmode", "group") == "group"
        at: dict[Any, list[int]] = {}
        for number, trace in enumerate(bars):
            for x in trace["x"]:
                at.setdefault(x, []).append(number)
        for number, trace in enumerate(bars):
            for place, (x, value) in enumerate(zip(trace["x"], trace["y"], strict=True)):
                if value is None:
                    continue
                here = at[x] if grouped else [number]
                width = float(trace.get("width", 0.8 / len(here)))
                middle = panel.x.value(x) + (here.index(number) - (len(here) - 1) / 2) * width * grouped
                edges = [panel.x.at(middle + part * width / 2) for part in (-0.94, 0.94)]
                base = panel.y(max(0.0, panel.y.low)) if panel.y.low <= 0 <= panel.y.high else panel.y.start
                colour = self.paint(nth(trace["marker"]["color"], place))
                pattern = trace["marker"].get("pattern", {}).get("shape", "")
                yield bar_shape(edges, (panel.y(value), base), colour, str(pattern), point_words(trace, place))
                yield from self._whiskers(panel, trace, place, panel.x.at(middle), panel.y(value), colour)

    def _trace(self, panel: _AxesPair, trace: Spec) -> Iterator[str]:
        if trace["type"] == "bar":
            return
        points = [
            None if x is None or y is None else (panel.x(x), panel.y(y))
            for x, y in zip(trace["x"], trace["y"], strict=True)
        ]
        mode, line = str(trace.get("mode", "lines")), trace.get("line", {})
        if trace.get("fill"):
            path = " ".join(f"{rounded(x)},{rounded(y)}" for x, y in filter(None, points))
            fill = self.paint(str(trace.get("fillcolor", "--muted")))
            yield tag("polygon", {"points": path, "fill": fill, "fill-opacity": trace.get("opacity", 0.16)})
            return
        if "lines" in mode:
            style = {
                "fill": "none",
                "stroke": self.paint(str(line.get("color", "--ink"))),
                "stroke-width": line.get("width", 1.8),
                "stroke-linejoin": "round",
                **dash_of(str(line.get("dash", "solid"))),
            }
            yield tag("path", {"d": path_data(points, step=line.get("shape") == "hv"), **style}, self._title(trace))
        if "markers" in mode:
            for place, point in enumerate(points):
                if point is not None:
                    yield from self._point(panel, trace, place, *point)

    def _point(self, panel: _AxesPair, trace: Spec, place: int, x: float, y: float) -> Iterator[str]:
        marker = trace.get("marker", {})
        colour = self.paint(str(nth(marker.get("color", "--ink"), place)))
        yield from self._whiskers(panel, trace, place, x, y, colour)
        size, opacity = float(marker.get("size", 7)), float(nth(marker.get("opacity", 1.0), place))
        symbol, edge = str(marker.get("symbol", "circle")), self.paint("--paper")
        yield marker_shape(symbol, x, y, size, colour, edge, opacity, point_words(trace, place))

    def _whiskers(
        self, panel: _AxesPair, trace: Spec, place: int, x: float, y: float, colour: str
    ) -> Iterator[str]:
        for axis, scale in (("x", panel.x), ("y", panel.y)):
            errors = trace.get(f"error_{axis}", {})
            if "array" not in errors:
                continue
            up, down = errors["array"][place], errors["arrayminus"][place]
            value = trace[axis][place]
            if not up and not down:
                continue
            low, high = (scale.at(scale.value(value) + step) for step in (-down, up))
            stroke = {"stroke": self.paint(str(errors["color"])) if errors.get("color") else colour}
            style: dict[str, Any] = {**stroke, "stroke_width": 1.3, "stroke_opacity": 0.85}
            cap = float(errors.get("width", 3))
            if axis == "x":
                yield shape_line(low, y, high, y, **style)
                for end in (low, high):
                    yield shape_line(end, y - cap, end, y + cap, **style)
            else:
                yield shape_line(x, low, x, high, **style)
                for end in (low, high):
                    yield shape_line(x - cap, end, x + cap, end, **style)

    def _title(self, trace: Spec) -> str:
        name = plain(trace.get("name", ""))
        return f"<title>{html.escape(name)}</title>" if name else ""

    # Shapes, words, legend.

    def _place(self, reference: str, value: Any, axis: str) -> float:
        if reference == "paper":
            first = next(iter(self.panels.values()))
            last = list(self.panels.values())[-1]
            start, end = (first.x.start, last.x.end) if axis == "x" else (first.y.start, first.y.end)
            return float(start + value * (end - start))
        number = reference.split()[0][1:]
        scale: Scale = getattr(self.panels[number], axis)
        return scale.start + value * (scale.end - scale.start) if "domain" in reference else scale(value)

    def _shapes(self) -> Iterator[str]:
        for shape in self.layout.get("shapes", ()):
            x0, x1 = (self._place(str(shape.get("xref", "x")), shape[name], "x") for name in ("x0", "x1"))
            y0, y1 = (self._place(str(shape.get("yref", "y")), shape[name], "y") for name in ("y0", "y1"))
            line = shape.get("line", {})
            if shape["type"] == "rect":
                box = {
                    "x": rounded(min(x0, x1)),
                    "y": rounded(min(y0, y1)),
                    "width": rounded(abs(x1 - x0)),
                    "height": rounded(abs(y1 - y0)),
                }
                fill = self.paint(str(shape.get("fillcolor", "--muted")))
                yield tag("rect", {**box, "fill": fill, "fill-opacity": shape.get("opacity", 0.16)})
                continue
            style = {"stroke": self.paint(str(line.get("color", "--muted"))), "stroke_width": line.get("width", 1)}
            dash = {key.replace("-", "_"): value for key, value in dash_of(str(line.get("dash", "solid"))).items()}
            yield shape_line(x0, y0, x1, y1, **style, **dash, hover=plain(shape.get("name", "")))

    def _annotations(self) -> Iterator[str]:
        anchors = {"left": "start", "right": "end", "center": "middle"}
        for note in self._notes():
            x = self._place(str(note.get("xref", "x")), note["x"], "x")
            y = self._place(str(note.get("yref", "y")), note["y"], "y")
            font = note.get("font", {})
            size = float(font.get("size", TEXT))
            up = {"bottom": -4.0, "top": size}.get(str(note.get("yanchor", "")), size / 3)
            anchor = anchors[str(note.get("xanchor", "center"))]
            colour, turn = self.paint(str(font.get("color", "--ink"))), float(note.get("textangle", 0))
            yield words(
                x, y + up, plain(note["text"]), colour, size, anchor=anchor, turn=turn,
                opacity=float(note.get("opacity", 1.0)),
            )  # fmt: skip

    def _names(self) -> Iterator[str]:
        """Names beside points, with a line to those that stand apart."""
        for panel in self.panels.values():
            points, whiskers = list[tuple[float, float, str, str]](), list[Box]()
            for trace in reversed(self.data):
                x, y = panel.x(trace["x"][0]), panel.y(trace["y"][0])
                points.append((x, y, plain(trace["name"]), self.paint(str(trace["marker"]["color"]))))
                for axis, scale in (("x", panel.x), ("y", panel.y)):
                    errors = trace.get(f"error_{axis}", {})
                    if "array" in errors:
                        value = scale.value(trace[axis][0])
                        ends = [scale.at(value - errors["arrayminus"][0]), scale.at(value + errors["array"][0])]
                        low, high = min(ends), max(ends)
                        whiskers.append((low, y - 3, high, y + 3) if axis == "x" else (x - 3, low, x + 3, high))
            room = (panel.x.start, panel.y.end, panel.x.end, panel.y.start)
            named, others = points[:MOST_NAMES], points[MOST_NAMES:]
            if others:
                whiskers = [(x - 8, y - 8, x + 8, y + 8) for x, y, *_ in others]
                told = f"{len(named)} of {len(points)} are named"
                place = (panel.x.end - 4, panel.y.end + TEXT + 2)
                yield words(*place, told, self.paint("--muted"), TEXT, anchor="end", middle=True)
            spots = [(x, y, text_width(name, TEXT, bold=True)) for x, y, name, _ in named]
            labels = place_labels(spots, whiskers, room, TEXT)
            for (x, y, name, colour), label in zip(named, labels, strict=True):
                if label.apart:
                    start = (x + 0.3 * (label.x - x), y + 0.3 * (label.y - y))
                    yield shape_line(*start, *label.edge, stroke=colour, stroke_width=1, stroke_opacity=0.7)
                halo = self.paint("--paper") if self.paint.halo else ""
                style: dict[str, Any] = {"anchor": "middle", "middle": True, "weight": 600, "halo": halo}
                yield words(label.x, label.y, name, colour, TEXT, **style)

    def _legend_entries(self) -> list[Spec]:
        if not self.layout.get("showlegend"):
            return []
        shown = [
            trace
            for trace in self.data
            if trace.get("showlegend", True) and not trace.get("fill") and trace.get("name")
        ]
        return list({str(trace["name"]): trace for trace in reversed(shown)}.values())[::-1]

    def _legend_lines(self) -> Iterator[list[tuple[float, Spec]]]:
        """Entries of each line of the legend with their place from the left."""
        line: list[tuple[float, Spec]] = []
        x = 8.0
        for trace in self._legend_entries():
            room = 34 + text_width(plain(trace["name"]), TEXT) + 14
            if line and x + room > self.width:
                yield line
                line, x = [], 8.0
            line.append((x, trace))
            x += room
        if line:
            yield line

    def _legend_marks(self) -> Iterator[str]:
        for number, entries in enumerate(self.legend):
            y = self.bottom + LINE * TEXT * (number + 0.6)
            for x, trace in entries:
                line, marker = trace.get("line", {}), trace.get("marker", {})
                colour = self.paint(str(line.get("color") or nth(marker.get("color", "--ink"), 0)))
                if trace["type"] == "bar":
                    yield tag(
                        "rect",
                        {"x": rounded(x + 8), "y": rounded(y - 5), "width": 12, "height": 10, "fill": colour},
                    )
                elif "lines" in str(trace.get("mode", "lines")):
                    dash = {k.replace("-", "_"): v for k, v in dash_of(str(line.get("dash", "solid"))).items()}
                    yield shape_line(x, y, x + 26, y, stroke=colour, stroke_width=1.8, **dash)
                if "markers" in str(trace.get("mode", "")):
                    yield marker_shape(str(marker.get("symbol", "circle")), x + 13, y, 8, colour, "none", 1.0, "")
                yield words(x + 32, y, plain(trace["name"]), self.paint("--ink"), TEXT, middle=True)


def _number(trace: Spec) -> str:
    return str(trace.get("xaxis", "x"))[1:]
