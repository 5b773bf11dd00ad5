"""The report as Markdown that reads well in a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby

from medunlearn.reports.content import Example, ReportContent
from medunlearn.reports.headline import main_plane, standings, verdict
from medunlearn.reports.prose import HOW_TO_READ, RANKING_NOTE, TEXT_WITHHELD
from medunlearn.reports.readings import Results
from medunlearn.reports.tables import (
    Cell,
    MetricRow,
    Table,
    benchmark_facts,
    breakdown_table,
    cost_table,
    facts,
    headline_table,
    metric_rows,
    other_comparisons,
    run_facts,
    shared_facts,
)
from medunlearn.reports.words import kind_text, reading_note, signed_with_interval, value_text


def to_markdown(content: ReportContent) -> str:
    """The whole report; text of records only where ``show_text``."""
    results = Results(content)
    where = main_plane(results)
    ranked = standings(results, where)
    closest = verdict(ranked)
    parts = [
        f"# {_line(content.title)}",
        _bullets(f"{name}: {text}" for name, text in facts(content)),
        f"**Closest to the retrained model: {_line(closest.name)}.** {_line(' '.join(closest.sentences))}",
        *_section("Read this first", _bullets(content.caveats) if content.caveats else ""),
        *_section("Utility and forgetting", _table(headline_table(ranked, where)), RANKING_NOTE, *HOW_TO_READ),
        *_section("By fold and kind", _breakdown(results)),
        *_section("Every metric", *_metrics(results)),
        *_section("Other comparisons", _maybe_table(other_comparisons(content, results))),
        *_section("Examples", *_examples(content)),
        *_section("What was run", _table(cost_table(content.models)), *_runs(content)),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _section(title: str, *parts: str) -> list[str]:
    found = [part for part in parts if part]
    return [f"## {title}", *found] if found else []


def _bullets(lines: Iterable[str]) -> str:
    return "\n".join(f"- {_line(line)}" for line in lines)


def _breakdown(results: Results) -> str:
    """The breakdown turned round: a terminal has room for the models, not for every fold and kind."""
    table = breakdown_table(results)
    names = [row[0] for row in table.rows]
    rows = [
        (column, *(row[place] for row in table.rows)) for place, column in enumerate(table.columns) if place
    ]
    return _table(Table((Cell("Fold, kind"), *names), tuple(rows)), notes=False) if rows else ""


def _metrics(results: Results) -> list[str]:
    found = []
    for place, rows in groupby(metric_rows(results), key=lambda row: row.place):
        found += [f"### {place.side}, {_line(place.fold)}, {_line(kind_text(place.kind))}", _metric_table(list(rows))]
    meanings = {row.metric: f"`{row.metric}`: {row.title}. {row.meaning}." for row in metric_rows(results)}
    return [_bullets(meanings.values()), *found]


def _metric_table(rows: Sequence[MetricRow]) -> str:
    columns = ("Metric", "Model", "Value and interval", "− retrained", "Scored", "Unscored", "Subjects")
    return _table(Table(tuple(Cell(name) for name in columns), tuple(_metric_cells(row) for row in rows)))


def _metric_cells(row: MetricRow) -> tuple[Cell, ...]:
    reading = row.reading
    counts = (reading.n_scored, reading.n_unscored, reading.n_subjects)
    # The unscored questions have a column of their own here.
    interval = reading_note(reading).split(", ")[0] if reading.low is not None else ""
    return (
        Cell(row.metric),
        Cell(row.model),
        Cell(value_text(reading), f"{interval}{reading_note(reading).removeprefix(interval)}" and _interval(row)),
        Cell("" if row.gap is None else signed_with_interval(row.gap)),
        *(Cell(f"{count:,}") for count in counts),
    )
