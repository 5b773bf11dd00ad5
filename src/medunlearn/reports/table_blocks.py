"""The tables of a report as plain cells, used for HTML and Markdown."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from medunlearn.reports.blocks import Cell as Cell
from medunlearn.reports.blocks import Table as Table
from medunlearn.reports.content import ModelResult, ReportContent
from medunlearn.reports.formatting import (
    ABSENT,
    UNSCORED,
    context_text,
    count,
    decimal,
    duration,
    flat,
    interval,
    interval_note,
    kind_text,
    p_text,
    place_text,
    signed,
)
from medunlearn.reports.readings import (
    Gap,
    Place,
    Plane,
    Reading,
    Results,
    Standing,
    number,
    panel_planes,
    reading_note,
    reading_of,
    rows_of,
    value_text,
)
from medunlearn.terminal import size

# More methods than this are counted on the first screen; the ranking below names them.
_MOST_NAMED = 8
_FILTERS = ("model", "side", "fold", "kind", "metric")
Key = TypeVar("Key")


def grid(
    head: str, entries: Iterable[tuple[Cell, str, Cell]], columns: Sequence[str], title: str = ""
) -> Table | None:
    """:func:`cross_table` of rows named by one cell, with plain names of columns."""
    lines = (((row,), column, cell) for row, column, cell in entries)
    return cross_table([head], lines, {name: Cell(name) for name in columns}, title)


def cross_table(
    heads: Iterable[str],
    entries: Iterable[tuple[tuple[Cell, ...], Key, Cell]],
    columns: Mapping[Key, Cell],
    title: str = "",
) -> Table | None:
    """A table of (row, column, cell) entries in order; a dash for missing cells. None without entries.

    Args:
        heads: titles of the cells that name a row.
        columns: a column's key in the entries -> its title.
    """
    rows: dict[tuple[Cell, ...], dict[Key, Cell]] = {}
    for row, column, cell in entries:
        rows.setdefault(row, {})[column] = cell
    lines = ((*row, *(of.get(column, Cell(ABSENT)) for column in columns)) for row, of in rows.items())
    return records((*map(Cell, heads), *columns.values()), lines, title)


def records(columns: Iterable[Cell], rows: Iterable[tuple[Cell, ...]], title: str = "") -> Table | None:
    """A table of rows; None without rows."""
    lines = tuple(rows)
    return Table(tuple(columns), lines, title) if lines else None


def value_cell(row: Mapping[str, Any], *notes: str) -> Cell:
    """A row's value with its interval and further notes; ``unscored`` if null."""
    value = number(row["value"])
    if value is None:
        return Cell(UNSCORED)
    return Cell(decimal(value), " ".join(filter(None, (_note(row), *notes))))


def gap_cell(row: Mapping[str, Any]) -> Cell:
    """A row's difference with its interval; a dash if null."""
    difference = number(row["difference"])
    if difference is None:
        return Cell(ABSENT)
    return Cell(signed(difference), _note(row))


def _note(row: Mapping[str, Any]) -> str:
    effective = number(row.get("n_effective"))
    return interval_note(number(row["low"]), number(row["high"]), row.get("n_subjects"), effective)


def reading_cell(reading: Reading | None) -> Cell:
    """A number with its interval and the number of unscored questions."""
    return Cell(value_text(reading), reading_note(reading))


def headline_table(ranked: Sequence[Standing], where: Plane) -> Table:
    """One row per model: utility, forgetting, degradation, and both gaps to the retrained model."""
    columns = (
        Cell("Model"),
        Cell("Utility", f"{where.utility or 'none'} on retain"),
        Cell("Forgetting", f"{where.forgetting or 'none'} on forget"),
        Cell("Degraded output", "DS on forget"),
        Cell("Utility − retrained", "difference"),
        Cell("Forgetting − retrained", "difference"),
        Cell("Distance", "to retrained"),
    )
    return Table(columns, tuple(map(_headline_row, ranked)))


def _headline_row(standing: Standing) -> tuple[Cell, ...]:
    values = (standing.utility, standing.forgetting, standing.degradation)
    gaps, distance = (standing.utility_gap, standing.forgetting_gap), standing.distance
    compared = (
        *map(_gap_to_retrained, gaps),
        Cell(ABSENT if distance is None else decimal(distance), standing.doubt),
    )
    if standing.model.role == "retrained":
        compared = (Cell("reference"), Cell("reference"), Cell("0"))
    return (Cell(standing.model.label), *map(reading_cell, values), *compared)


def _gap_to_retrained(gap: Gap | None) -> Cell:
    if gap is None:
        return Cell(ABSENT)
    return Cell(signed(gap.difference), interval(gap.low, gap.high) or "no paired interval")


def breakdown_table(results: Results) -> Table | None:
    """One row per fold, kind and side, one column per model: utility on retain, forgetting on forget."""
    entries = (
        (
            Cell(place_text(where.fold, where.kind), f"{metric} on {place.side}"),
            model.label,
            reading_cell(results.reading(model, place, metric)),
        )
        for where in panel_planes(results)
        for place, metric in ((where.retain, where.utility), (where.forget, where.forgetting))
        for model in results.models
    )
    return grid("Fold, kind", entries, [model.label for model in results.models])


def group_table(content: ReportContent) -> Table | None:
    """The benchmark's measures: one row per node, measure and side, one column per model."""

    def name(row: Mapping[str, Any]) -> Cell:
        fold = "" if row["fold"] == "train" else f", {row['fold']}"
        return Cell(str(row["node"]).replace("_", " "), f"{row['measure']}, {row['side']}{fold}")

    rows = list(rows_of(content.groups))
    entries = ((name(row), str(row["model"]), reading_cell(reading_of(row))) for row in rows)
    levels = " or ".join(dict.fromkeys(str(row["level"]) for row in rows))
    return grid(levels.capitalize(), entries, [model.label for model in content.models])


def utility_table(content: ReportContent) -> Table | None:
    """One row per task and main metric, with the number of items; ``utility`` last."""
    rows = list(rows_of(content.utility))
    entries = (
        (Cell(str(row["name"]), f"{row['metric']}, {row['n_scored']} items"), str(row["model"]), value_cell(row))
        for row in rows
    )
    attended = {row["model"] for row in rows}
    return grid("Task", entries, [model.label for model in content.models if model.label in attended])


def metric_table(results: Results, where: Plane) -> Table | None:
    """Every number of every model: by group of questions, metric, and model, each with a filter."""
    groups: dict[tuple[Place, str], list[tuple[ModelResult, Reading]]] = {}
    for model, place, metric, reading in results.entries():
        groups.setdefault((place, metric), []).append((model, reading))
    if not groups:
        return None
    places = results.places()
    # Stable: within a place metrics stay as the first model lists them.
    entries = [
        (model, place, metric, reading)
        for place, metric in sorted(groups, key=lambda key: places.index(key[0]))
        for model, reading in groups[place, metric]
    ]
    columns = (
        Cell("Metric"),
        Cell("Model"),
        Cell("Questions"),
        Cell("Value", "95% interval"),
        Cell("− retrained", "95% interval"),
        *map(Cell, ("Scored", "Unscored", "Subjects")),
    )
    rows = ((m.label, p.side, p.fold, kind_text(p.kind), metric) for m, p, metric, _ in entries)
    return Table(
        columns,
        tuple(_metric_row(results, *entry) for entry in entries),
        filters=dict(zip(_FILTERS, zip(*rows, strict=True), strict=True)),
        selected={"fold": where.fold, "kind": kind_text(where.kind)},
    )


def _metric_row(
    results: Results, model: ModelResult, place: Place, metric: str, reading: Reading
) -> tuple[Cell, ...]:
    title, _ = results.describe(metric, place.side)
    gap = results.gap(model, place, metric)
    counts = (reading.n_scored, reading.n_unscored, reading.n_subjects)
    return (
        Cell(metric, title),
        Cell(model.label),
        Cell(place.side, place_text(place.fold, place.kind)),
        Cell(value_text(reading), interval(reading.low, reading.high)),
        Cell("") if gap is None else Cell(signed(gap.difference), interval(gap.low, gap.high)),
        *(Cell(f"{n:,}") for n in counts),
    )


def measure_meanings(results: Results) -> tuple[tuple[str, str], ...]:
    """Each measure of :func:`metric_table` with its title, range and direction."""
    sides = {metric: place.side for _, place, metric, _ in results.entries()}
    described = {metric: results.describe(metric, side) for metric, side in sides.items()}
    return tuple((metric, f"{title}: {meaning}") for metric, (title, meaning) in described.items())


def other_comparisons(content: ReportContent, results: Results) -> Table | None:
    """Comparisons with models other than the retrained one, whose comparisons are shown with each metric."""
    reference = results.retrained.label if results.retrained else None
    columns = [
        *map(Cell, ("Model", "Against", "Side", "Fold", "Kind", "Measure", "Difference")),
        Cell("p", "and Holm's"),
    ]
    rows = (_comparison(row) for row in rows_of(content.comparisons) if row["against"] != reference)
    return records((*columns, Cell("Pairs"), Cell("Subjects")), rows)


def _comparison(row: Mapping[str, Any]) -> tuple[Cell, ...]:
    texts = (
        *(row[name] for name in ("model", "against", "side", "fold")),
        kind_text(str(row["kind"])),
        row["measure"],
    )
    counts = (Cell(f"{int(row[name]):,}") for name in ("n_pairs", "n_subjects"))
    return (*(Cell(str(text)) for text in texts), gap_cell(row), _p_cell(row), *counts)


def _p_cell(row: Mapping[str, Any]) -> Cell:
    """A p-value, and its correction for all comparisons of the two models."""
    corrected = number(row.get("p_holm"))
    return Cell(p_text(number(row["p"])), "" if corrected is None else p_text(corrected))


def facts(content: ReportContent) -> list[tuple[str, str]]:
    """Forget set, benchmark and models, as lines of the first screen."""
    benchmark, split = content.benchmark, content.split
    level = str(split["level"])
    methods = [model.label for model in content.models if model.role == "unlearned"]
    return [
        ("Forget set", count(split["forget"], level)),
        ("Retain set", count(split["retain"], level)),
        ("Split", f"{split['name']}, drawn by {level}"),
        ("Benchmark", f"{benchmark['name']}, data use: {benchmark['data_use']}"),
        *([("Probes", str(benchmark["probes"]))] if benchmark.get("probes") else []),
        ("Methods", str(len(methods)) if len(methods) > _MOST_NAMED else ", ".join(methods) or "none"),
        ("Context mode", context_text(content.context)),
    ]


def run_facts(model: ModelResult) -> dict[str, str]:
    """A run's record as dotted keys, without its results, which are the report's numbers."""
    return flat({key: value for key, value in model.info.items() if key != "results"})


def cost_table(models: Sequence[ModelResult]) -> Table:
    """One row per model: steps, tokens, time and memory of its run."""
    columns = ("Model", "Method", "Steps", "Tokens", "Time", "Peak memory")
    return Table(tuple(map(Cell, columns)), tuple(map(_cost_row, models)))


def _cost_row(model: ModelResult) -> tuple[Cell, ...]:
    history = model.history
    tokens = number(history["tokens"].sum()) if "tokens" in history.columns else None
    seconds, peak = _total(model.info.get("seconds"), sum), _total(model.info.get("peak_memory_bytes"), max)
    texts = (
        model.label,
        model.method or ABSENT,
        f"{len(history):,}" if len(history) else ABSENT,
        ABSENT if tokens is None else f"{tokens:,.0f}",
        ABSENT if seconds is None else duration(seconds),
        ABSENT if peak is None else size(peak),
    )
    return tuple(map(Cell, texts))


def _total(value: Any, combine: Callable[[list[float]], float]) -> float | None:
    """A number, or the sum or maximum over stages."""
    if not isinstance(value, Mapping):
        return number(value)
    parts = [part for part in map(number, value.values()) if part is not None]
    return float(combine(parts)) if parts else None
