"""Each measure by epoch, one line per method (LUME, Figures 2 to 4), as plotly specifications.

Panels from the table of epochs: every measure of a node (LUME: regurgitation and knowledge of each task), the
composites over all kinds, and every row whose measure has another name than its metric. So rows of additional
measures (membership, utility) are drawn automatically.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from medunlearn.reports.blocks import Cell, Spec, Table
from medunlearn.reports.content import ReportContent
from medunlearn.reports.figures import band, colours, layout, line, panels, plot, safe, short, symbols
from medunlearn.reports.formatting import ALL, decimal, interval
from medunlearn.reports.readings import Reading, reading_of, rows_of, value_text
from medunlearn.reports.table_blocks import grid, reading_cell

MEMBERSHIP, UTILITY = "membership_auc", "utility"
"""Measures of rows that are of no question: the area of a membership attack, and what general tasks found."""

_TITLES = {MEMBERSHIP: "membership AUC", UTILITY: "utility"}
_NOWHERE = {"side": "", "fold": "", "kind": ""}
_DASHES = {"target": "dash", "retrained": "dot"}
Line = Mapping[int, Reading]


class Panel(NamedTuple):
    """Measure of one panel, for a node, or for the whole split if ``node`` is empty."""

    node: str
    measure: str
    side: str
    fold: str
    kind: str
    metric: str

    @property
    def title(self) -> str:
        node = f"{self.node.replace('_', ' ')}: " if self.node else ""
        return f"{node}{self.name}" + (f", {self.fold} fold" if self.fold else "")

    @property
    def name(self) -> str:
        """The measure in words, with its side; with the attack for membership, with the metric for utility."""
        if self.measure in _TITLES:
            return f"{_TITLES[self.measure]}, {self.metric.replace('_', ' ')}"
        return f"{self.measure} on {self.side}" if self.side else self.measure


def panels_of(content: ReportContent) -> dict[Panel, dict[str, Line]]:
    """Panel -> label of a method -> epoch -> its reading; panels in table order."""
    panels: dict[Panel, dict[str, dict[int, Reading]]] = {}
    for row in rows_of(content.epochs):
        composite = row["parts"] and row["kind"] == ALL
        if row["node"] or row["measure"] != row["metric"] or composite:
            readings = panels.setdefault(_panel(row), {}).setdefault(str(row["model"]), {})
            readings[int(row["epoch"])] = reading_of(row)
    return {panel: {label: dict(sorted(of.items())) for label, of in panels[panel].items()} for panel in panels}


def _panel(row: Mapping[str, Any]) -> Panel:
    return Panel(*("" if row[name] is None or row[name] != row[name] else str(row[name]) for name in Panel._fields))


def epoch_figures(content: ReportContent) -> list[tuple[str, Spec]]:
    """Title and figure of each panel: methods as lines with interval bands, references dashed."""
    references, specs = _references(content), []
    for panel, lines in panels_of(content).items():
        data = _panel_traces(content, panel, lines, references)
        frame = layout(None, "epoch", panel.name, small=True)
        frame["xaxis"] |= {"dtick": 1 if len(data[0]["x"]) < 30 else None, "rangemode": "tozero"}
        specs.append((panel.title, plot(data, frame, (52, 10, 8, 44))))
    return specs


def epoch_row(content: ReportContent, chosen: Sequence[Panel], titles: Sequence[str], y: str) -> Spec | None:
    """Some panels side by side on one scale from 0 to 1, as a paper prints them; None without any."""
    if not chosen:
        return None
    references, every = _references(content), panels_of(content)
    groups = [
        (title, _panel_traces(content, panel, every[panel], references))
        for title, panel in zip(titles, chosen, strict=True)
    ]
    epochs = sorted({epoch for panel in chosen for readings in every[panel].values() for epoch in readings})
    return panels(groups, "epoch", y, epochs, named=False, span=[0.0, 1.0])


def _panel_traces(
    content: ReportContent,
    panel: Panel,
    lines: Mapping[str, Line],
    references: Mapping[tuple[str, Panel], Reading],
) -> list[Spec]:
    """Traces of one panel: methods as lines with interval bands, references dashed."""
    colour, symbol = colours(content.models), symbols(content.models)
    last = max(epoch for readings in lines.values() for epoch in readings)
    questions = {
        reading.n_scored + reading.n_unscored for readings in lines.values() for reading in readings.values()
    }
    data: list[Spec] = []
    for model in content.models:
        label, shade = model.label, colour[model.label]
        reading = references.get((label, panel))
        if label in lines:
            data += _method_traces(label, lines[label], shade, symbol[label][0])
        # A model that was asked more or fewer questions than the epochs is not a reference for them.
        elif reading and reading.value is not None and questions == {reading.n_scored + reading.n_unscored}:
            value = short(reading.value)
            hover = f"<b>{safe(label)}</b>: {decimal(value)}<extra></extra>"
            style: Spec = {"dash": _DASHES[model.role], "width": 1.4}
            data.append(line(label, shade, hover, x=[0, last], y=[value, value], **style))
    return data


def _references(content: ReportContent) -> dict[tuple[str, Panel], Reading]:
    """Readings of target and retrained model in each panel."""
    whole = [
        {**row, "model": model.label, "node": "", "metric": row["measure"]}
        for model in content.models
        for row in rows_of(model.summary)
    ]
    rows = [*rows_of(content.groups), *whole, *_areas(content), *_utilities(content)]
    reference_labels = {model.label for model in content.models if model.role in _DASHES}
    return {(str(row["model"]), _panel(row)): reading_of(row) for row in rows if row["model"] in reference_labels}


def _areas(content: ReportContent) -> Iterator[Mapping[str, Any]]:
    """AUCs of membership attacks in the format of the table of epochs."""
    for row in rows_of(content.membership.table):
        if row["measure"] == "auc":
            place = {"node": "" if row["group"] == "all" else row["group"], "metric": row["attack"]}
            counts = {"n_scored": row["n_members"] + row["n_nonmembers"], "n_unscored": 0, "n_subjects": 0}
            yield {**counts, **row, **_NOWHERE, **place, "measure": MEMBERSHIP}


def _utilities(content: ReportContent) -> Iterator[Mapping[str, Any]]:
    """Utility over all tasks in the format of the table of epochs."""
    for row in rows_of(content.utility):
        if row["name"] == UTILITY:
            yield {**row, **_NOWHERE, "node": "", "measure": UTILITY, "n_subjects": row["n_scored"]}


def _method_traces(label: str, readings: Line, colour: str, symbol: str) -> list[Spec]:
    common = {"type": "scatter", "name": safe(label), "legendgroup": safe(label), "cliponaxis": False}
    texts = [
        f"epoch {epoch}: {value_text(reading)} {interval(reading.low, reading.high)}"
        for epoch, reading in readings.items()
    ]
    trace = line(
        label,
        colour,
        f"<b>{safe(label)}</b><br>%{{text}}<extra></extra>",
        mode="lines+markers",
        x=list(readings),
        y=[None if reading.value is None else short(reading.value) for reading in readings.values()],
        marker={"symbol": symbol, "size": 6, "color": colour},
        text=texts,
    )
    return [
        *band([(epoch, reading.low, reading.high) for epoch, reading in readings.items()], common, colour),
        common | trace,
    ]


def epoch_table(content: ReportContent) -> Table | None:
    """The numbers of the figures: one row per panel and method, one column per epoch."""
    entries = [
        (Cell(label, panel.title), epoch, reading_cell(reading))
        for panel, lines in panels_of(content).items()
        for label, readings in lines.items()
        for epoch, reading in readings.items()
    ]
    epochs = sorted({epoch for _, epoch, _ in entries})
    return grid("Epoch", [(row, str(epoch), cell) for row, epoch, cell in entries], list(map(str, epochs)))
