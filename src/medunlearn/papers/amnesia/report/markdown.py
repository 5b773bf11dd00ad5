"""A sweep's report as Markdown that reads well in a terminal."""

from __future__ import annotations

from medunlearn.papers.amnesia.report import prose
from medunlearn.papers.amnesia.report.cases import Finding
from medunlearn.papers.amnesia.report.content import SweepContent
from medunlearn.papers.amnesia.report.findings import findings
from medunlearn.papers.amnesia.report.page import FIGURES, cases_table, facts, splits_table
from medunlearn.papers.amnesia.report.published import setting, statements
from medunlearn.papers.amnesia.report.tables import (
    LeakTable,
    analyses,
    leak_details,
    leak_tables,
    numbers_table,
    published_tables,
    search_table,
)
from medunlearn.reports.markdown import bullets, one_line, pipe_table, section
from medunlearn.reports.tables import Cell, Table
from medunlearn.reports.words import context_text


def to_markdown(content: SweepContent) -> str:
    """The whole report but for its figures, whose numbers stand in the tables."""
    search = search_table(content)
    parts = [
        f"# {one_line(content.title)}",
        bullets(f"{name}: {text}" for name, text in facts(content)),
        *section("Read this first", bullets(content.caveats) if content.caveats else ""),
        *section("Not in this report", bullets(f"{name}: {reason}" for name, reason in content.missing)),
        *section("Findings", *(_finding(one) for one in findings(content))),
        *section("How to read this", *prose.HOW_TO_READ, prose.STEPS_GROW, prose.NO_TEXT),
        *(part for context in content.contexts for part in _part(content, context)),
        *section("What the paper published", f"{setting()}: {prose.PUBLISHED}", *_published()),
        *section("Splits", pipe_table(splits_table(content))),
        *section("Learning rates tried", "" if search is None else pipe_table(search)),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _finding(found: Finding) -> str:
    head = f"### {found.verdict}: {one_line(found.claim)} ({found.context})"
    cases = pipe_table(cases_table(found)) if found.cases else ""
    return "\n\n".join(part for part in (head, found.summary, cases, f"Rule: {found.rule}") if part)


def _part(content: SweepContent, context: str) -> list[str]:
    details = leak_details(content, context)
    leaks = [_leak(table) for table in leak_tables(content, context)]
    mode = context_text(context)
    differences = [
        part
        for title, says, table in analyses(content, context)
        for part in (f"### {title}", says, pipe_table(table))
    ]
    return [
        *section(f"Utility, forgetting and degradation: {mode}", pipe_table(numbers_table(content, context))),
        *section(f"Leakage and degradation: {mode}", prose.TABLE_2, *leaks, _or_nothing(details)),
        *section(f"Differences: {mode}", *differences),
    ]


def _or_nothing(details: Table | None) -> str:
    return "The leakage score was not measured in this sweep." if details is None else pipe_table(details)


def _published() -> list[str]:
    said = [
        f"Figure {one.figure}: {', '.join(one.methods) + ': ' if one.methods else ''}{one.about}: {one.says}"
        for figure in FIGURES
        for one in statements(figure)
    ]
    return [bullets(said), "Table 2: LS and DS (%), factual / reasoning.", *(_leak(t) for t in published_tables())]


def _leak(table: LeakTable) -> str:
    """Lowest in bold, highest in italics: Markdown cannot underline."""
    columns = (Cell(table.scope), *(Cell(size) for size in table.sizes))
    rows = tuple((Cell(method), *(Cell(str(cell)) for cell in cells)) for method, cells in table.rows)
    return pipe_table(Table(columns, rows))
