"""The tables of a report as plain cells, for HTML and Markdown alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from medunlearn.reports.blocks import Cell as Cell
from medunlearn.reports.blocks import Table as Table
from medunlearn.reports.content import ModelResult, ReportContent
from medunlearn.reports.headline import Plane, Standing, panel_planes
from medunlearn.reports.readings import Gap, Place, Reading, Results, number, reading_of, rows_of
from medunlearn.reports.words import (
    ABSENT,
    context_text,
    count,
    decimal,
    duration,
    flat,
    interval,
    kind_text,
    place_text,
    reading_note,
    signed,
    size,
    value_text,
)

# More methods than this are counted on the first screen; the ranking below names them.
_MOST_NAMED = 8


@dataclass(frozen=True, slots=True)
class MetricRow:
    """One number of the full table."""

    model: str
    place: Place
    metric: str
    title: str
    meaning: str
    reading: Reading
    gap: Gap | None


def headline_table(ranked: Sequence[Standing], where: Plane) -> Table:
    """One row a model: utility, forgetting, degradation, and both gaps to the retrained model."""
    columns = (
        Cell("Model"),
        Cell("Utility", f"{where.utility or 'none'} on retain"),
        Cell("Forgetting", f"{where.forgetting or 'none'} on forget"),
        Cell("Degraded output", "DS on forget"),
        Cell("Utility − retrained", "difference"),
        Cell("Forgetting − retrained", "difference"),
        Cell("Distance", "to retrained"),
    )
    return Table(columns, tuple(_headline_row(standing) for standing in ranked))


def _headline_row(standing: Standing) -> tuple[Cell, ...]:
    values = (standing.utility, standing.forgetting, standing.degradation)
    reference = standing.model.role == "retrained"
    gaps = (standing.utility_gap, standing.forgetting_gap)
    return (
        Cell(standing.model.label),
        *(Cell(value_text(found), reading_note(found)) for found in values),
        *(Cell("reference") if reference else _gap_cell(found) for found in gaps),
        Cell("0" if reference else ABSENT if standing.distance is None else decimal(standing.distance)),
    )


def _gap_cell(gap: Gap | None) -> Cell:
    if gap is None:
        return Cell(ABSENT)
    return Cell(signed(gap.difference), interval(gap.low, gap.high) or "no paired interval")


def breakdown_table(results: Results) -> Table:
    """One row a model: utility and forgetting of each fold and kind."""
    planes = panel_planes(results)
    columns = [Cell("Model")]
    for where in planes:
        for side, metric in (("retain", where.utility), ("forget", where.forgetting)):
            columns.append(Cell(place_text(where.fold, where.kind), f"{metric} on {side}"))
    rows = []
    for model in results.models:
        cells = [Cell(model.label)]
        for where in planes:
            for place, metric in ((where.retain, where.utility), (where.forget, where.forgetting)):
                found = results.reading(model, place, metric)
                cells.append(Cell(value_text(found), reading_note(found)))
        rows.append(tuple(cells))
    return Table(tuple(columns), tuple(rows))


def group_table(content: ReportContent) -> Table | None:
    """The benchmark's own measures: one row a node, measure and side, one column a model."""
    found: dict[tuple[str, str, str, str], dict[str, Reading]] = {}
    for row in rows_of(content.groups):
        key = (str(row["node"]), str(row["measure"]), str(row["side"]), str(row["fold"]))
        found.setdefault(key, {})[str(row["model"])] = reading_of(row)
    if not found:
        return None
    labels = [model.label for model in content.models]
    levels = " or ".join(dict.fromkeys(str(level) for level in content.groups["level"]))
    columns = (Cell(levels.capitalize()), *(Cell(label) for label in labels))
    rows = []
    for (node, measure, side, fold), readings in found.items():
        cells = [readings.get(label) for label in labels]
        name = Cell(node.replace("_", " "), f"{measure}, {side}" + ("" if fold == "train" else f", {fold}"))
        rows.append((name, *(Cell(value_text(one), reading_note(one)) for one in cells)))
    return Table(columns, tuple(rows))


def metric_rows(results: Results) -> list[MetricRow]:
    """Every number of every model: by group of questions, then metric, then model, so that models compare."""
    found: dict[tuple[Place, str], list[MetricRow]] = {}
    for model, place, metric, reading in results.entries():
        title, meaning = results.describe(metric, place.side)
        line = MetricRow(model.label, place, metric, title, meaning, reading, results.gap(model, place, metric))
        found.setdefault((place, metric), []).append(line)
    places = results.places()
    # Stable: within a place metrics stay as the first model lists them.
    ordered = sorted(found, key=lambda key: places.index(key[0]))
    return [line for key in ordered for line in found[key]]


def other_comparisons(content: ReportContent, results: Results) -> Table | None:
    """Comparisons with another model than the retrained one; those stand beside each metric."""
    reference = results.retrained.label if results.retrained else None
    others = [row for row in rows_of(content.comparisons) if row["against"] != reference]
    columns = ("Model", "Against", "Side", "Fold", "Kind", "Metric", "Difference", "p", "Pairs", "Subjects")
    rows = tuple(map(_comparison, others))
    return Table(tuple(Cell(name) for name in columns), rows) if rows else None


def _comparison(row: Mapping[str, Any]) -> tuple[Cell, ...]:
    difference, low, high, p = (number(row[name]) for name in ("difference", "low", "high", "p"))
    return (
        *(Cell(str(row[name])) for name in ("model", "against", "side", "fold")),
        Cell(kind_text(str(row["kind"]))),
        Cell(str(row["metric"])),
        Cell(ABSENT) if difference is None else Cell(signed(difference), interval(low, high)),
        Cell(ABSENT if p is None else decimal(p)),
        *(Cell(f"{int(row[name]):,}") for name in ("n_pairs", "n_subjects")),
    )


def facts(content: ReportContent) -> list[tuple[str, str]]:
    """What was forgotten, of what: the lines of the first screen."""
    benchmark, split = content.benchmark, content.split
    level = str(split["level"])
    methods = [model.label for model in content.models if model.role == "unlearned"]
    return [
        ("Forget set", count(split["forget"], level)),
        ("Retain set", count(split["retain"], level)),
        ("Split", f"{split['name']}, drawn by {level}"),
        ("Benchmark", f"{benchmark['name']}, data use: {benchmark['data_use']}"),
        ("Methods", str(len(methods)) if len(methods) > _MOST_NAMED else ", ".join(methods) or "none"),
        ("Context mode", context_text(content.context)),
    ]


def benchmark_facts(content: ReportContent) -> list[tuple[str, str]]:
    """The benchmark and the split as they were recorded."""
    found = flat(content.benchmark, "benchmark.") | flat(content.split, "split.")
    return [*found.items(), ("context", content.context)]


def shared_facts(models: Sequence[ModelResult]) -> dict[str, str]:
    """What was the same in every run: shown once. Nothing, where there is one run only."""
    runs = [run_facts(model) for model in models]
    if len(runs) < 2:
        return {}
    first, others = runs[0], runs[1:]
    return {key: text for key, text in first.items() if all(other.get(key) == text for other in others)}


def run_facts(model: ModelResult) -> dict[str, str]:
    """A run's record as dotted keys. Its results are left out: they are the numbers of this report."""
    return flat({key: value for key, value in model.info.items() if key != "results"})


def cost_table(models: Sequence[ModelResult]) -> Table:
    """One row a model: steps, tokens, time and memory of its run."""
    columns = tuple(Cell(name) for name in ("Model", "Method", "Steps", "Tokens", "Time", "Peak memory"))
    return Table(columns, tuple(_cost_row(model) for model in models))


def _cost_row(model: ModelResult) -> tuple[Cell, ...]:
    history = model.history
    tokens = number(history["tokens"].sum()) if "tokens" in history.columns else None
    seconds, peak = (
        _total(model.info.get(name), how) for name, how in (("seconds", sum), ("peak_memory_bytes", max))
    )
    return (
        Cell(model.label),
        Cell(model.method or ABSENT),
        Cell(f"{len(history):,}" if len(history) else ABSENT),
        Cell(ABSENT if tokens is None else f"{tokens:,.0f}"),
        Cell(ABSENT if seconds is None else duration(seconds)),
        Cell(ABSENT if peak is None else size(peak)),
    )


def _total(value: Any, combine: Any) -> float | None:
    """A number, or the sum or maximum of a number a stage."""
    if isinstance(value, Mapping):
        parts = [found for found in map(number, value.values()) if found is not None]
        return float(combine(parts)) if parts else None
    return number(value)
