"""Figures 1, 2, 3, 5, 7 and one of copies as plotly specifications: plain data and layout, drawn by the page.

Source: Memorization in Large Language Models in Medicine, the figures of the same numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from medunlearn.papers.memorization.report.content import EXACT, GREEDY, PRIMARY, AuditContent
from medunlearn.papers.memorization.report.epochs import LOSS, Value, is_memorization, least_loss, series
from medunlearn.reports.figures import Spec, layout, safe, short
from medunlearn.reports.readings import Reading, number

_COLOURS = 8
_DASHES = ("solid", "dash", "dot", "dashdot")
_GAP = 0.12
Point = tuple[float, float | None, float | None, float | None]
"""Place on the axis, value, low, high."""


def colour(place: int) -> str:
    """The CSS variable of the n-th line."""
    return f"--m{place % _COLOURS + 1}"


def legend(content: AuditContent) -> list[tuple[str, str, str]]:
    """Label, symbol and CSS variable of each model; a baseline's symbol is hollow."""
    baselines = {other for model in content.models for other in model.baselines}
    return [
        (model.label, "○" if model.label in baselines else "●", colour(place))
        for place, model in enumerate(content.models)
    ]


def figure_1(content: AuditContent) -> list[tuple[str, Spec]]:
    """Per corpus: the ratio of runs of 30 (left) and 50 (right) over prefix lengths, a line a model."""
    colours = {model.label: colour(place) for place, model in enumerate(content.models)}
    found = []
    for corpus in content.corpora:
        panels = []
        for measure in EXACT:
            lines = []
            for model in content.models_of(corpus):
                points = _points(content, model.label, corpus, measure)
                lines += _line(model.label, points, colours[model.label], hollow=_is_baseline(content, model.label))
            panels.append((measure.replace("_", " of "), lines))
        if any(lines for _, lines in panels):
            found.append((corpus, _row(panels, "prefix (tokens)", "ratio", ticks=content.prefixes)))
    return found


def figure_2(content: AuditContent) -> list[tuple[str, Spec]]:
    """Per model and corpus with several decodings: their ratios at the shortest prefix, greedy first."""
    found = []
    for place, model in enumerate(content.models):
        for corpus in content.corpora:
            rows = [
                row
                for row in content.rows("ratios")
                if (row["model"], row["corpus"], row["measure"]) == (model.label, corpus, PRIMARY)
            ]
            prefixes = {int(row["prefix_tokens"]) for row in rows if row["decoding"] != GREEDY}
            if not prefixes:
                continue
            shown = [row for row in rows if int(row["prefix_tokens"]) == min(prefixes)]
            shown.sort(key=lambda row: row["decoding"] != GREEDY)
            title = f"{model.label} on {corpus}, prefix {min(prefixes)}"
            found.append((title, _bars([_bar("", shown, "decoding", colour(place))], "decoding")))
    return found


def figure_3(content: AuditContent) -> list[tuple[str, Spec]]:
    """Per model and corpus: share of responses in which a run of 30 starts in a segment, a bar a prefix length."""
    groups: dict[tuple[str, str], dict[int, list[Any]]] = {}
    for row in content.rows("positions"):
        if row["measure"] == "ratio" and row["at_least"] == 30:
            line = groups.setdefault((str(row["model"]), str(row["corpus"])), {})
            named = {**row, "tokens": f"{int(row['first'])}-{int(row['last'])}"}
            line.setdefault(int(row["prefix_tokens"]), []).append(named)
    return [
        (
            f"{model} on {corpus}",
            _bars(
                [
                    _bar(f"prefix {prefix}", rows, "tokens", colour(place))
                    for place, (prefix, rows) in enumerate(lines.items())
                ],
                "tokens of the response",
            ),
        )
        for (model, corpus), lines in groups.items()
    ]


def figure_copies(content: AuditContent) -> list[tuple[str, Spec]]:
    """Per corpus: the ratio of runs of 30 by copies in the training text, a line a model and prefix length."""
    rows = [row for row in content.rows("duplication") if row["measure"] == PRIMARY]
    groups: dict[str, dict[tuple[str, int], list[Point]]] = {}
    for row in rows:
        lines = groups.setdefault(str(row["corpus"]), {})
        edges = (number(row["value"]), number(row["low"]), number(row["high"]))
        lines.setdefault((str(row["model"]), int(row["prefix_tokens"])), []).append((float(row["copies"]), *edges))
    found = []
    for corpus, lines in groups.items():
        models = list(dict.fromkeys(model for model, _ in lines))
        drawn = []
        for place, ((model, prefix), points) in enumerate(lines.items()):
            dash = _DASHES[place % len(_DASHES)]
            shade = colour(models.index(model))
            drawn += _line(f"{model}, prefix {prefix}", points, shade, dash=dash)
        ticks = sorted({int(row["copies"]) for row in rows if str(row["corpus"]) == corpus})
        if drawn and len(ticks) > 1:
            found.append((corpus, _row([("run of 30", drawn)], "copies", "ratio", ticks=ticks, named=True)))
    return found


def figure_5(content: AuditContent) -> list[tuple[str, Spec]]:
    """Per pair and corpus: the ratio of runs of 50 before and after further fine-tuning, over prefix lengths."""
    pairs = dict.fromkeys((str(row["before"]), str(row["after"])) for row in content.rows("persistence"))
    found = []
    for before, after in pairs:
        for corpus in content.corpora:
            lines = _line(before, _points(content, before, corpus, EXACT[1]), "--m1")
            lines += _line(after, _points(content, after, corpus, EXACT[1]), "--m2", dash="dash")
            if lines:
                panels = [("run of 50", lines)]
                spec = _row(panels, "prefix (tokens)", "ratio", ticks=content.prefixes, named=True)
                found.append((f"{before} → {after} on {corpus}", spec))
    return found


def figure_7(content: AuditContent) -> Spec | None:
    """Memorization, validation loss and accuracy by epoch: three panels of one figure, the least loss marked."""
    found = series(content)
    groups = [
        ("memorization", [name for name in found if is_memorization(name)]),
        ("validation loss", [name for name in found if name == LOSS]),
        ("accuracy", [name for name in found if name != LOSS and not is_memorization(name)]),
    ]
    shown = [name for _, names in groups for name in names]
    panels = [(title, _epoch_lines(found, names, shown)) for title, names in groups if names]
    if not panels:
        return None
    spec = _row(panels, "epoch", "", ticks=sorted({epoch for line in found.values() for epoch in line}), named=True)
    least = least_loss(content)
    if least is not None:
        line = {"color": "--muted", "width": 1, "dash": "dot"}
        spec["layout"]["shapes"] = [
            {
                "type": "line",
                "xref": f"x{axis}",
                "yref": f"y{axis} domain",
                "x0": least,
                "x1": least,
                "y0": 0,
                "y1": 1,
            }
            | {"line": line}
            for axis in _axes(len(panels))
        ]
    return spec


def _epoch_lines(found: dict[str, dict[int, Value]], names: Sequence[str], shown: Sequence[str]) -> list[Spec]:
    """Lines of one panel; a colour is taken once in the figure, since its legend is of all panels."""
    lines = []
    for name in names:
        place = shown.index(name)
        points = [(float(epoch), *value) for epoch, value in found[name].items()]
        lines += _line(name.replace("_", " "), points, colour(place), dash=_DASHES[place // _COLOURS % 4])
    return lines


def _points(content: AuditContent, model: str, corpus: str, measure: str) -> list[Point]:
    readings = [(prefix, content.reading(model, corpus, prefix, measure)) for prefix in content.prefixes]
    return [_point(prefix, reading) for prefix, reading in readings if reading is not None]


def _point(place: float, reading: Reading) -> Point:
    return (place, reading.value, reading.low, reading.high)


def _is_baseline(content: AuditContent, label: str) -> bool:
    return any(label in model.baselines for model in content.models)


def _line(
    name: str, points: Sequence[Point], shade: str, *, dash: str = "solid", hollow: bool = False
) -> list[Spec]:
    """A line with a band of its intervals; nothing where no point has a value."""
    if all(value is None for _, value, _, _ in points):
        return []
    kind: Spec = {"type": "scatter", "name": safe(name), "legendgroup": safe(name), "cliponaxis": False}
    drawn = kind | {
        "mode": "lines+markers",
        "x": [place for place, *_ in points],
        "y": [None if value is None else short(value) for _, value, _, _ in points],
        "line": {"color": shade, "width": 1.8, "dash": dash},
        "marker": {"color": shade, "size": 7, "symbol": "circle-open" if hollow else "circle"},
        "hovertemplate": f"<b>{safe(name)}</b><br>%{{x}}: %{{y:.4f}}<extra></extra>",
    }
    edges = [(place, low, high) for place, _, low, high in points if low is not None and high is not None]
    if len(edges) < 2:
        return [drawn]
    there = [(place, short(high)) for place, _, high in edges]
    back = [(place, short(low)) for place, low, _ in reversed(edges)]
    x, y = (list(side) for side in zip(*there, *back, strict=True))
    band: Spec = {"mode": "lines", "x": x, "y": y, "fill": "toself", "fillcolor": shade, "opacity": 0.16}
    return [kind | band | {"line": {"width": 0}, "hoverinfo": "skip", "showlegend": False}, drawn]


def _row(
    panels: Sequence[tuple[str, list[Spec]]], x: str, y: str, *, ticks: Sequence[int] = (), named: bool = False
) -> Spec:
    """Panels side by side in one figure, each with axes of its own."""
    frame = layout(None, x, y, small=True)
    width = (1 - _GAP * (len(panels) - 1)) / len(panels)
    styles = {axis: frame.pop(f"{axis}axis") for axis in "xy"}
    frame["annotations"] = []
    data: list[Spec] = []
    for place, (axis, (title, lines)) in enumerate(zip(_axes(len(panels)), panels, strict=True)):
        start = place * (width + _GAP)
        frame[f"xaxis{axis}"] = styles["x"] | {"domain": [short(start), short(start + width)], "anchor": f"y{axis}"}
        frame[f"yaxis{axis}"] = styles["y"] | {"anchor": f"x{axis}", "rangemode": "tozero"}
        if ticks:
            frame[f"xaxis{axis}"] |= {"tickvals": list(ticks)}
        data += [line | {"xaxis": f"x{axis}", "yaxis": f"y{axis}"} for line in lines]
        where = {"xref": f"x{axis} domain", "yref": f"y{axis} domain", "x": 0.5, "y": 1.0, "yanchor": "bottom"}
        words = {"text": safe(title), "showarrow": False, "font": {"size": 12, "color": "--muted"}}
        frame["annotations"].append(words | where)
    frame |= {"margin": {"l": 56, "r": 10, "t": 26, "b": 48}}
    if named:
        frame |= {"showlegend": True, "legend": {"orientation": "h", "x": 0, "y": -0.3, "font": {"size": 12}}}
        frame["margin"]["b"] = 84
    return {"data": data, "layout": frame, "labels": False}


def _axes(count: int) -> Iterator[str]:
    yield from ("" if place == 0 else str(place + 1) for place in range(count))


def _bar(name: str, rows: Sequence[Any], label: str, shade: str) -> Spec:
    values = [number(row["value"]) for row in rows]
    ups = [_length(row, "high", 1) for row in rows]
    downs = [_length(row, "low", -1) for row in rows]
    errors = {"type": "data", "symmetric": False, "array": ups, "arrayminus": downs}
    return {
        "type": "bar",
        "name": safe(name),
        "x": [safe(str(row[label])) for row in rows],
        "y": [None if value is None else short(value) for value in values],
        "marker": {"color": shade},
        "error_y": errors | {"color": "--muted", "thickness": 1.1, "width": 2},
        "hovertemplate": f"<b>{safe(name)}</b> %{{x}}: %{{y:.4f}}<extra></extra>",
    }


def _length(row: Any, edge: str, sign: int) -> float:
    value, end = number(row["value"]), number(row[edge])
    return 0.0 if value is None or end is None else short(max(0.0, sign * (end - value)))


def _bars(data: list[Spec], x: str) -> Spec:
    frame = layout(None, x, "ratio", small=True)
    frame["xaxis"] |= {"type": "category"}
    frame["yaxis"] |= {"rangemode": "tozero"}
    frame |= {"barmode": "group", "margin": {"l": 56, "r": 10, "t": 10, "b": 60}}
    if len(data) > 1:
        frame |= {"showlegend": True, "legend": {"orientation": "h", "x": 0, "y": 1.04, "yanchor": "bottom"}}
        frame["margin"]["t"] = 34
    return {"data": data, "layout": frame, "labels": False}
