"""Each measure from epoch to epoch, one line a method (LUME, Figures 2 to 4), as plotly specifications.

What is drawn of the table of epochs, a panel each: every measure of a node (LUME: regurgitation and knowledge of
each task), the composites of all kinds together, and every row whose measure has a name of its own, other than its
metric's. So a part that adds rows of a new measure (membership, utility elsewhere) has it drawn.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from medunlearn.reports.blocks import Cell, Spec, Table
from medunlearn.reports.content import ModelResult, ReportContent
from medunlearn.reports.figures import colours, layout, safe, short, symbols
from medunlearn.reports.readings import ALL, Reading, reading_of, rows_of
from medunlearn.reports.tables import grid, reading_cell
from medunlearn.reports.words import decimal, interval, value_text

MEMBERSHIP, UTILITY = "membership_auc", "utility"
"""Measures of rows that are of no question: the area of a membership attack, and what general tasks found."""

_TITLES = {MEMBERSHIP: "membership AUC", UTILITY: "utility"}
_NOWHERE = {"side": "", "fold": "", "kind": ""}
_DASHES = {"target": "dash", "retrained": "dot"}
_Line = Mapping[int, Reading]


class Panel(NamedTuple):
    """What one figure shows: a measure of a node, or of the whole split where ``node`` is empty."""

    node: str
    measure: str
    side: str
    fold: str
    kind: str
    metric: str

    @property
    def title(self) -> str:
        of = f"{self.node.replace('_', ' ')}: " if self.node else ""
        return f"{of}{self.name}" + (f", {self.fold} fold" if self.fold else "")

    @property
    def name(self) -> str:
        """The measure in words, with its side; of membership with the attack, of utility with its metric."""
        if self.measure in _TITLES:
            return f"{_TITLES[self.measure]}, {self.metric.replace('_', ' ')}"
        return f"{self.measure} on {self.side}" if self.side else self.measure


def panels_of(content: ReportContent) -> dict[Panel, dict[str, _Line]]:
    """Panel -> label of a method -> epoch -> its reading there; in the order of the table."""
    found: dict[Panel, dict[str, dict[int, Reading]]] = {}
    for row in rows_of(content.epochs):
        if _is_drawn(row):
            lines = found.setdefault(_panel(row), {})
            lines.setdefault(str(row["model"]), {})[int(row["epoch"])] = reading_of(row)
    return {
        panel: {label: dict(sorted(line.items())) for label, line in lines.items()}
        for panel, lines in found.items()
    }


def _is_drawn(row: Mapping[str, Any]) -> bool:
    own_name = row["measure"] != row["metric"]
    return bool(row["node"]) or own_name or bool(row["parts"] and row["kind"] == ALL)


def _panel(row: Mapping[str, Any]) -> Panel:
    return Panel(*("" if row[name] is None or row[name] != row[name] else str(row[name]) for name in Panel._fields))


def epoch_figures(content: ReportContent) -> list[tuple[str, Spec]]:
    """Title and figure of each panel: methods as lines with a band of their intervals, references dashed."""
    found = panels_of(content)
    colour, symbol = colours(content.models), symbols(content.models)
    references = _references(content)
    specs = []
    for panel, lines in found.items():
        last = max(epoch for line in lines.values() for epoch in line)
        data: list[Spec] = []
        for model in content.models:
            if model.label in lines:
                shade = colour[model.label]
                data += _method(model.label, lines[model.label], shade, symbol[model.label][0])
            elif (reading := references.get((model.label, panel))) and _comparable(reading, lines):
                data.append(_reference(model, reading, last, colour[model.label]))
        specs.append((panel.title, _spec(panel, data)))
    return specs


def _comparable(reading: Reading, lines: Mapping[str, _Line]) -> bool:
    """Whether a model was asked as many questions as the epochs were; else it is no reference for them."""
    asked = {one.n_scored + one.n_unscored for line in lines.values() for one in line.values()}
    return reading.value is not None and asked == {reading.n_scored + reading.n_unscored}


def _references(content: ReportContent) -> dict[tuple[str, Panel], Reading]:
    """What target and retrained model have of each panel's measure."""
    rows: list[Mapping[str, Any]] = list(rows_of(content.groups))
    for model in content.models:
        rows += [
            {**row, "model": model.label, "node": "", "measure": row["metric"]} for row in rows_of(model.summary)
        ]
    rows += [*_areas(content), *_utilities(content)]
    known = {model.label for model in content.models if model.role in _DASHES}
    return {(str(row["model"]), _panel(row)): reading_of(row) for row in rows if row["model"] in known}


def _areas(content: ReportContent) -> Iterator[Mapping[str, Any]]:
    """Areas of membership attacks, as the table of epochs has them."""
    for row in rows_of(content.membership.table):
        if row["measure"] == "auc":
            place = {"node": "" if row["group"] == "all" else row["group"], "metric": row["attack"]}
            asked = {"n_scored": row["n_members"] + row["n_nonmembers"], "n_unscored": 0, "n_subjects": 0}
            yield {**asked, **row, **_NOWHERE, **place, "measure": MEMBERSHIP}


def _utilities(content: ReportContent) -> Iterator[Mapping[str, Any]]:
    """Utility over all tasks, as the table of epochs has it."""
    for row in rows_of(content.utility):
        if row["name"] == UTILITY:
            yield {**row, **_NOWHERE, "node": "", "measure": UTILITY, "n_subjects": row["n_scored"]}


def _method(label: str, line: _Line, colour: str, symbol: str) -> list[Spec]:
    epochs = list(line)
    values = [None if (value := line[epoch].value) is None else short(value) for epoch in epochs]
    hover = [
        f"epoch {epoch}: {value_text(line[epoch])} {interval(line[epoch].low, line[epoch].high)}"
        for epoch in epochs
    ]
    kind: Spec = {"type": "scatter", "name": safe(label), "legendgroup": safe(label), "cliponaxis": False}
    drawn = kind | {
        "mode": "lines+markers",
        "x": epochs,
        "y": values,
        "line": {"color": colour, "width": 1.8},
        "marker": {"symbol": symbol, "size": 6, "color": colour},
        "text": hover,
        "hovertemplate": f"<b>{safe(label)}</b><br>%{{text}}<extra></extra>",
    }
    return [*_band(line, kind, colour), drawn]


def _band(line: _Line, kind: Spec, colour: str) -> list[Spec]:
    """Intervals as one area: forth along the upper ends and back along the lower ones."""
    edges = [
        (epoch, one.low, one.high) for epoch, one in line.items() if one.low is not None and one.high is not None
    ]
    if len(edges) < 2:
        return []
    there = [(epoch, short(high)) for epoch, _, high in edges]
    back = [(epoch, short(low)) for epoch, low, _ in reversed(edges)]
    x, y = (list(side) for side in zip(*there, *back, strict=True))
    shape: Spec = {"mode": "lines", "x": x, "y": y, "fill": "toself", "fillcolor": colour, "opacity": 0.16}
    return [kind | shape | {"line": {"width": 0}, "hoverinfo": "skip", "showlegend": False}]


def _reference(model: ModelResult, reading: Reading, last: int, colour: str) -> Spec:
    value = short(reading.value or 0.0)
    return {
        "type": "scatter",
        "mode": "lines",
        "name": safe(model.label),
        "x": [0, last],
        "y": [value, value],
        "line": {"color": colour, "width": 1.4, "dash": _DASHES[model.role]},
        "hovertemplate": f"<b>{safe(model.label)}</b>: {decimal(value)}<extra></extra>",
    }


def _spec(panel: Panel, data: Sequence[Spec]) -> Spec:
    frame = layout(None, "epoch", panel.name, small=True)
    frame["xaxis"] |= {"dtick": 1 if len(data[0]["x"]) < 30 else None, "rangemode": "tozero"}
    frame |= {"margin": {"l": 52, "r": 10, "t": 8, "b": 44}}
    return {"data": list(data), "layout": frame, "labels": False}


def epoch_table(content: ReportContent) -> Table | None:
    """The numbers of the figures: one row a panel and method, one column an epoch."""
    found = panels_of(content)
    epochs = sorted({epoch for lines in found.values() for line in lines.values() for epoch in line})
    if not epochs:
        return None
    entries = (
        (Cell(label, panel.title), str(epoch), reading_cell(reading))
        for panel, lines in found.items()
        for label, line in lines.items()
        for epoch, reading in line.items()
    )
    return grid("Epoch", entries, [str(epoch) for epoch in epochs])
