"""The report as Markdown that reads well in a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby

from medunlearn.reports.content import Example, ReportContent
from medunlearn.reports.epochs import epoch_table
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
    group_table,
    headline_table,
    metric_rows,
    other_comparisons,
    run_facts,
    shared_facts,
)
from medunlearn.reports.words import interval, kind_text, signed_with_interval, value_text


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
        *_section(_grouping(content), _maybe_table(group_table(content))),
        *_section("By epoch", _maybe_table(epoch_table(content))),
        *_section("By fold and kind", _breakdown(results)),
        *_section("Every metric", *_metrics(results)),
        *_section("Other comparisons", _maybe_table(other_comparisons(content, results))),
        *_section("Examples", *_examples(content)),
        *_section("What was run", _table(cost_table(content.models)), *_runs(content)),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _grouping(content: ReportContent) -> str:
    return f"By {content.groups['level'].iloc[0]}" if len(content.groups) else "By group"


def _section(title: str, *parts: str) -> list[str]:
    found = [part for part in parts if part]
    return [f"## {title}", *found] if found else []


def _bullets(lines: Iterable[str]) -> str:
    return "\n".join(f"- {_line(line)}" for line in lines)


def _breakdown(results: Results) -> str:
    """The breakdown turned round: a terminal has room for the models, not for every fold and kind."""
    table = breakdown_table(results)
    names = [row[0] for row in table.rows]
    rows = [(column, *(row[place] for row in table.rows)) for place, column in enumerate(table.columns) if place]
    return _table(Table((Cell("Fold, kind"), *names), tuple(rows)), notes=False) if rows else ""


def _metrics(results: Results) -> list[str]:
    found = []
    for place, rows in groupby(metric_rows(results), key=lambda row: row.place):
        found += [
            f"### {place.side}, {_line(place.fold)}, {_line(kind_text(place.kind))}",
            _metric_table(list(rows)),
        ]
    meanings = {row.metric: f"`{row.metric}`: {row.title}. {row.meaning}." for row in metric_rows(results)}
    return [_bullets(meanings.values()), *found]


def _metric_table(rows: Sequence[MetricRow]) -> str:
    columns = ("Metric", "Model", "Value and interval", "− retrained", "Scored", "Unscored", "Subjects")
    return _table(Table(tuple(Cell(name) for name in columns), tuple(_metric_cells(row) for row in rows)))


def _metric_cells(row: MetricRow) -> tuple[Cell, ...]:
    reading = row.reading
    counts = (reading.n_scored, reading.n_unscored, reading.n_subjects)
    return (
        Cell(row.metric),
        Cell(row.model),
        Cell(value_text(reading), interval(reading.low, reading.high)),
        Cell("" if row.gap is None else signed_with_interval(row.gap)),
        *(Cell(f"{count:,}") for count in counts),
    )


def _maybe_table(table: Table | None) -> str:
    return "" if table is None else _table(table)


def _examples(content: ReportContent) -> list[str]:
    if not content.show_text:
        return [TEXT_WITHHELD]
    return [_example(example) for example in content.shown_examples()] or ["No examples were kept with this run."]


def _example(example: Example) -> str:
    said = [("Question", example.question), ("Reference answer", example.answer), *example.responses.items()]
    head = f"### {example.side}, {_line(example.fold)}, {_line(example.kind)}: {_line(example.question_id)}"
    return "\n\n".join([head, *(f"{_line(name)}:\n\n{_literal(text)}" for name, text in said)])


def _literal(text: str) -> str:
    """Text as an indented block: a viewer shows what a model said and never renders it."""
    return "\n".join(f"    {line}" for line in (text.splitlines() or [""]))


def _runs(content: ReportContent) -> list[str]:
    shared = shared_facts(content.models)
    found = ["### Benchmark and split", _definitions(benchmark_facts(content))]
    if shared:
        found += ["### The same in every run", _definitions(shared.items())]
    for model in content.models:
        own = [(key, text) for key, text in run_facts(model).items() if key not in shared]
        found += [f"### {_line(model.label)}", _definitions(own) or "Nothing else."]
    return found


def _definitions(lines: Iterable[tuple[str, str]]) -> str:
    return _bullets(f"{key}: {text}" for key, text in lines)


def _table(table: Table, *, notes: bool = True) -> str:
    """A pipe table with its columns aligned."""
    lines = [[_cell(str(cell)) for cell in table.columns]]
    lines += [[_cell(str(cell) if notes else cell.text) for cell in row] for row in table.rows]
    for row, source in zip(lines[1:], table.rows, strict=True):
        row[0] = _cell(str(source[0]))
    widths = [max(3, *(len(line[place]) for line in lines)) for place in range(len(table.columns))]
    lines.insert(1, ["-" * width for width in widths])
    return "\n".join(
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) + " |"
        for line in lines
    )


def _cell(text: str) -> str:
    return _line(text).replace("|", "\\|")


def _line(text: str) -> str:
    """One line that no viewer takes for a tag."""
    return " ".join(text.replace("<", "&lt;").split())
