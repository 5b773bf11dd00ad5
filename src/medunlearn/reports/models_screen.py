"""The first screen of runs and sweeps: verdict, trade-off beside the ranks, and one table of every model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from medunlearn.reports.blocks import Block, Cell, Figure, Figures, Section, Table, Text, blocks, section
from medunlearn.reports.content import ModelResult, ReportContent
from medunlearn.reports.figures import Spec, colours, symbols
from medunlearn.reports.formatting import ABSENT, decimal, interval, place_text
from medunlearn.reports.headline import RANKING_NOTE, verdict
from medunlearn.reports.plots import SIZES, Dot, dot_plot, tradeoff
from medunlearn.reports.rank_tables import MEASURE
from medunlearn.reports.readings import (
    Plane,
    Reading,
    Results,
    Standing,
    drawable,
    main_plane,
    number,
    reading_of,
    rows_of,
    standings,
)
from medunlearn.reports.table_blocks import headline_table, reading_cell
from medunlearn.reports.wording import SIDES, metric_words

INSIDE = "The numbers are in the table below."
NO_POINT = "No model has a number on both the retain set and the forget set: nothing to draw."
NOT_RANKED, NOT_TRIED = "not ranked", "not tried"


class ModelsScreen:
    """The numbers of one split, training seed and context, as its first screen reads them."""

    def __init__(self, content: ReportContent) -> None:
        self.content, self.results = content, Results(content)
        self.where: Plane = main_plane(self.results)
        self.ranked: Sequence[Standing] = standings(self.results, self.where)

    @property
    def refused(self) -> bool:
        """True if nothing may be read against the retrained model."""
        refused = self.content.reference is not None and not self.content.reference.passed
        return refused or bool(self.results.undecided)

    def blocks(self) -> tuple[Block, ...]:
        """Verdict, figures and table."""
        _, headline = verdict(self.ranked, self.content.reference, self.results.undecided)
        unplaced = ", ".join(standing.model.label for standing in self.ranked if not standing.placed)
        drawn = drawable(self.results, self.where)
        missing = f"Not in the plot, because one of the two numbers is unscored: {unplaced}."
        return blocks(
            headline,
            self._figures(),
            None if drawn else Text(NO_POINT, "empty"),
            Text(missing, "aside") if unplaced and drawn else None,
            self.table(),
        )

    def _figures(self) -> Figures | None:
        figures = []
        if drawable(self.results, self.where):
            place = place_text(self.where.fold, self.where.kind)
            label = f"Scatter plot: utility on retain against forgetting on forget, one point a model. {INSIDE}"
            title = f"Utility against forgetting: {place}"
            figures.append(Figure(tradeoff(self.results, self.where), label, title, "large", "trade-off"))
        if spec := ranking(self.content, self.ranked):
            label = f"Dot plot: share of the forget set's facts that each model ranks first. {INSIDE}"
            figures.append(Figure(spec, label, "Facts of the forget set ranked first", "ranking", "ranked-first"))
        return Figures(tuple(figures), 2, lead=True) if figures else None

    def table(self) -> Table:
        """One row per model: utility, forgetting, ranked first, distance, CPU seconds, what brings it back."""
        utility, forgetting = (
            f"{metric_words(self.results, metric, side)}, {SIDES[side]}"
            for metric, side in ((self.where.utility, "retain"), (self.where.forgetting, "forget"))
        )
        columns = (
            Cell("Model"),
            Cell("Utility", utility),
            Cell("Forgetting", forgetting),
            Cell("Ranked first", "share of the facts to forget"),
            Cell("Distance", "to the retrained model"),
            Cell("CPU s", "to train or unlearn it"),
            Cell("What brings it back"),
        )
        return Table(columns, tuple(map(self._row, self.ranked)), name="models", cards=True)

    def _row(self, standing: Standing) -> tuple[Cell, ...]:
        model = standing.model
        ranks, seconds = ranked_first(model), cpu_seconds(model)
        return (
            Cell(model.label, "broken" if model.problems else ""),
            _cell(standing.utility),
            _cell(standing.forgetting),
            Cell(NOT_RANKED) if ranks is None else _cell(ranks),
            self._distance(standing),
            Cell(ABSENT if seconds is None else f"{seconds:.1f}"),
            self._brought_back(standing),
        )

    def _distance(self, standing: Standing) -> Cell:
        if standing.model.role == "retrained":
            return Cell("reference")
        if standing.distance is None:
            return Cell(ABSENT)
        return Cell(decimal(standing.distance), "no valid reference" if self.refused else standing.doubt)

    def _brought_back(self, standing: Standing) -> Cell:
        """Results of the attacks on an unlearned model, the one that brings back most first."""
        if standing.model.role != "unlearned":
            return Cell("")
        label = standing.model.label
        found = [part.outcomes[label] for part in self.content.attacks if label in part.outcomes]
        if not found:
            tried = any(part.brings_back for part in self.content.attacks)
            return Cell("no reading" if tried else NOT_TRIED)
        return Cell("; ".join(cell.text for cell in found), "; ".join(cell.note for cell in found if cell.note))

    def numbers(self) -> Iterator[tuple[str, str, float, str]]:
        """Each number of the table that has a value: its title, the model's label, the value and its interval."""
        for standing in self.ranked:
            label, distance = standing.model.label, standing.distance
            readings = {
                "Distance to the retrained model": None,
                "Facts ranked first": ranked_first(standing.model),
                "Utility": standing.utility,
                "Forgetting": standing.forgetting,
            }
            for title, reading in readings.items():
                if reading is not None and reading.value is not None:
                    yield title, label, reading.value, interval(reading.low, reading.high)
                elif title.startswith("Distance") and distance is not None:
                    yield title, label, distance, ""
            if (seconds := cpu_seconds(standing.model)) is not None:
                yield "CPU seconds", label, seconds, ""

    def rows(self) -> list[dict[str, Any]]:
        """The table as data."""
        return [
            {
                "model": standing.model.label,
                "role": standing.model.role,
                "utility": _data(standing.utility),
                "forgetting": _data(standing.forgetting),
                "ranked_first": _data(ranked_first(standing.model)),
                "distance": standing.distance,
                "cpu_seconds": cpu_seconds(standing.model),
                "brought_back": self._brought_back(standing).text,
            }
            for standing in self.ranked
        ]

    def gaps(self) -> Section | None:
        """Differences from the retrained model, and degraded output."""
        compared = any(standing.distance is not None for standing in self.ranked)
        return section(
            "Every model against the retrained model" if compared else "Every model",
            headline_table(self.ranked, self.where),
            Text(RANKING_NOTE, "aside") if compared else None,
            note=place_text(self.where.fold, self.where.kind),
            name="headline",
        )


def _cell(reading: Reading | None) -> Cell:
    """A number with its interval; without one, why."""
    cell = reading_cell(reading)
    bounds = "" if reading is None or reading.value is None else interval(reading.low, reading.high)
    return Cell(cell.text, bounds or cell.note)


def _data(reading: Reading | None) -> dict[str, Any] | None:
    return None if reading is None else {name: getattr(reading, name) for name in ("value", "low", "high")}


def cpu_seconds(model: ModelResult) -> float | None:
    """Processor time of the run that made a model; None if it is not known."""
    return number(model.info.get("cpu_seconds"))


def ranked_first(model: ModelResult) -> Reading | None:
    """Share of the forget set's facts that a model ranks first, over all kinds, else of records; None without."""
    rows = [
        row
        for row in rows_of(model.summary)
        if row["measure"] == MEASURE and row["side"] == "forget" and row["kind"] in ("all", "record")
    ]
    rows.sort(key=lambda row: (row["fold"] != "train", row["kind"] != "all"))
    return next((reading_of(row) for row in rows if number(row["value"]) is not None), None)


def ranking(content: ReportContent, ranked: Sequence[Standing]) -> Spec | None:
    """Dot plot of the facts ranked first: a line per model with its interval, on the retrained model's band."""
    readings = {entry.model.label: ranked_first(entry.model) for entry in ranked}
    known = {label: reading for label, reading in readings.items() if reading is not None}
    if not known:
        return None
    dots = [
        Dot(entry.model.label, known[entry.model.label], SIZES[entry.model.role])
        for entry in ranked
        if entry.model.label in known
    ]
    most = max(0.05, *(edge or 0.0 for dot in dots for edge in (dot.reading.value, dot.reading.high)))
    title = "Share of facts ranked first (further left: knows less)"
    looks = {
        label: (colour, symbols(content.models)[label][0]) for label, colour in colours(content.models).items()
    }
    return dot_plot(dots, looks, title, [-0.02 * most, 1.06 * most], _reference_band(content, known))


def _reference_band(content: ReportContent, known: dict[str, Reading]) -> list[Spec]:
    """The retrained model's interval: a model within it knows as little as one that never saw the facts."""
    retrained = [
        known[model.label] for model in content.models if model.role == "retrained" and model.label in known
    ]
    if len(retrained) != 1:
        return []
    reading = retrained[0]
    low, high = (reading.value if edge is None else edge for edge in (reading.low, reading.high))
    band = {"type": "rect", "xref": "x", "yref": "paper", "x0": low, "x1": high, "y0": 0, "y1": 1}
    middle = {
        "type": "line",
        "xref": "x",
        "yref": "paper",
        "x0": reading.value,
        "x1": reading.value,
        "y0": 0,
        "y1": 1,
    }
    style = {"color": "--muted", "width": 1, "dash": "dot"}
    return [band | {"fillcolor": "--muted", "opacity": 0.14}, middle | {"line": style}]
