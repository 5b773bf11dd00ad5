"""The report as Markdown that reads well in a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby

from medunlearn.papers.lume.report import findings
from medunlearn.papers.lume.report.tables import cases_table
from medunlearn.reports.content import Example, ReportContent
from medunlearn.reports.epochs import epoch_table
from medunlearn.reports.headline import main_plane, standings, verdict
from medunlearn.reports.judged import judged_tables
from medunlearn.reports.markdown import bullets, literal, one_line, pipe_table, section
from medunlearn.reports.membership import (
    NOTES,
    difference_table,
    membership_reasons,
    membership_tables,
    privacy_table,
    semeval_table,
)
from medunlearn.reports.prose import HOW_TO_READ, JUDGED, LUME_FINDINGS, RANKING_NOTE, TEXT_WITHHELD
from medunlearn.reports.published import published_table
from medunlearn.reports.readings import Results
from medunlearn.reports.reconstruction import NOTES as RECONSTRUCTION_NOTES
from medunlearn.reports.reconstruction import reconstruction_differences, reconstruction_tables
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
from medunlearn.reports.utility import NOTE as UTILITY_NOTE
from medunlearn.reports.utility import utility_table
from medunlearn.reports.words import interval, kind_text, signed_with_interval, value_text


def to_markdown(content: ReportContent) -> str:
    """The whole report; text of records only where ``show_text``."""
    results = Results(content)
    where = main_plane(results)
    ranked = standings(results, where)
    closest = verdict(ranked)
    parts = [
        f"# {one_line(content.title)}",
        bullets(f"{name}: {text}" for name, text in facts(content)),
        f"**Closest to the retrained model: {one_line(closest.name)}.** {one_line(' '.join(closest.sentences))}",
        *section("Read this first", bullets(content.caveats) if content.caveats else ""),
        *section("Utility and forgetting", pipe_table(headline_table(ranked, where)), RANKING_NOTE, *HOW_TO_READ),
        *section(_grouping(content), _maybe_table(group_table(content))),
        *section("By epoch", _maybe_table(epoch_table(content))),
        *section("LUME's findings", *_findings(content)),
        *section(*_published(content)),
        *section("Utility on general tasks", *_utility(content)),
        *section("Membership inference", *_membership(content)),
        *section("Reconstruction", *_reconstruction(content)),
        *section("By fold and kind", _breakdown(results)),
        *section("Every metric", *_metrics(results)),
        *section("Other comparisons", _maybe_table(other_comparisons(content, results))),
        *section("Judged by panels", *_judged(content)),
        *section("Examples", *_examples(content)),
        *section("What was run", pipe_table(cost_table(content.models)), *_runs(content)),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _grouping(content: ReportContent) -> str:
    return f"By {content.groups['level'].iloc[0]}" if len(content.groups) else "By group"


def _utility(content: ReportContent) -> list[str]:
    table = utility_table(content)
    return [] if table is None else [UTILITY_NOTE, pipe_table(table)]


def _membership(content: ReportContent) -> list[str]:
    tables = [f"### {one_line(title)}\n\n{pipe_table(table)}" for title, table in membership_tables(content)]
    more = [
        _maybe_table(difference_table(content)),
        _maybe_table(privacy_table(content)),
        bullets(membership_reasons(content)),
    ]
    return [*(NOTES if tables else ()), *tables, *(more if tables else ()), _maybe_table(semeval_table(content))]


def _reconstruction(content: ReportContent) -> list[str]:
    tables = [f"### {one_line(title)}\n\n{pipe_table(table)}" for title, table in reconstruction_tables(content)]
    return [*RECONSTRUCTION_NOTES, *tables, _maybe_table(reconstruction_differences(content))] if tables else []


def _findings(content: ReportContent) -> list[str]:
    found = []
    for one in findings(content):
        cases = pipe_table(cases_table(one)) if one.cases else ""
        found += [f"### {one.verdict}: {one_line(one.claim)}", one.summary, cases, f"Rule: {one.rule}"]
    return [LUME_FINDINGS, *found] if found else []


def _published(content: ReportContent) -> list[str]:
    """Title, then sentences and the table; nothing behind the title where there are none."""
    if content.published is None:
        return [""]
    return [content.published.name, *content.published.about, _maybe_table(published_table(content))]


def _breakdown(results: Results) -> str:
    """The breakdown turned round: a terminal has room for the models, not for every fold and kind."""
    table = breakdown_table(results)
    names = [row[0] for row in table.rows]
    rows = [(column, *(row[place] for row in table.rows)) for place, column in enumerate(table.columns) if place]
    return pipe_table(Table((Cell("Fold, kind"), *names), tuple(rows)), notes=False) if rows else ""


def _metrics(results: Results) -> list[str]:
    found = []
    for place, rows in groupby(metric_rows(results), key=lambda row: row.place):
        found += [
            f"### {place.side}, {one_line(place.fold)}, {one_line(kind_text(place.kind))}",
            _metric_table(list(rows)),
        ]
    meanings = {row.metric: f"`{row.metric}`: {row.title}. {row.meaning}." for row in metric_rows(results)}
    return [bullets(meanings.values()), *found]


def _metric_table(rows: Sequence[MetricRow]) -> str:
    columns = ("Metric", "Model", "Value and interval", "− retrained", "Scored", "Unscored", "Subjects")
    return pipe_table(Table(tuple(Cell(name) for name in columns), tuple(_metric_cells(row) for row in rows)))


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
    return "" if table is None else pipe_table(table)


def _judged(content: ReportContent) -> list[str]:
    found = [JUDGED] if content.judged else []
    for panel in content.judged:
        found += [f"### {one_line(panel.title)}", one_line(panel.about)]
        for one in judged_tables(panel):
            found += [f"#### {one_line(one.title)}", _maybe_table(one.table), one_line(one.aside)]
    return found


def _examples(content: ReportContent) -> list[str]:
    if not content.show_text:
        return [TEXT_WITHHELD]
    return [_example(example) for example in content.shown_examples()] or ["No examples were kept with this run."]


def _example(example: Example) -> str:
    said = [("Question", example.question), ("Reference answer", example.answer), *example.responses.items()]
    head = (
        f"### {example.side}, {one_line(example.fold)}, {one_line(example.kind)}: {one_line(example.question_id)}"
    )
    return "\n\n".join([head, *(f"{one_line(name)}:\n\n{literal(text)}" for name, text in said)])


def _runs(content: ReportContent) -> list[str]:
    shared = shared_facts(content.models)
    found = ["### Benchmark and split", _definitions(benchmark_facts(content))]
    if shared:
        found += ["### The same in every run", _definitions(shared.items())]
    for model in content.models:
        own = [(key, text) for key, text in run_facts(model).items() if key not in shared]
        found += [f"### {one_line(model.label)}", _definitions(own) or "Nothing else."]
    return found


def _definitions(lines: Iterable[tuple[str, str]]) -> str:
    return bullets(f"{key}: {text}" for key, text in lines)
