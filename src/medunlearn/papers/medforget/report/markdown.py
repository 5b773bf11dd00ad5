"""The report as Markdown that reads well in a terminal."""

from __future__ import annotations

from medunlearn.papers.amnesia.report.tables import search_table
from medunlearn.papers.medforget.report import prose
from medunlearn.papers.medforget.report.cases import Finding
from medunlearn.papers.medforget.report.content import LevelContent
from medunlearn.papers.medforget.report.findings import findings
from medunlearn.papers.medforget.report.page import facts, said_table
from medunlearn.papers.medforget.report.published import contradictions, setting, statements
from medunlearn.papers.medforget.report.tables import (
    attack_table,
    cases_table,
    identity_table,
    measures_text,
    published_table,
    retrained_table,
    scopes_table,
    table_3,
    table_5,
)
from medunlearn.reports.markdown import bullets, one_line, pipe_table, section
from medunlearn.reports.tables import Cell, Table


def to_markdown(content: LevelContent) -> str:
    """The whole report but for its figures, whose numbers stand in the tables, and images."""
    figure_7 = [
        part
        for one in content.said
        for part in (f"### {one.level}: {one_line(one.question)}", pipe_table(said_table(one)))
    ]
    search = search_table(content)
    parts = [
        f"# {one_line(content.title)}",
        bullets(f"{name}: {text}" for name, text in facts(content)),
        *section("Read this first", bullets(content.caveats) if content.caveats else ""),
        *section("Not in this report", bullets(f"{name}: {reason}" for name, reason in content.missing)),
        *section("Findings", *(_finding(one) for one in findings(content))),
        *section("How to read this", *prose.HOW_TO_READ, bullets(measures_text(content)), prose.NO_TEXT),
        *section("Four sets at each level (Table 3)", pipe_table(_joined(table_3(content)))),
        *section("Generation, its parts apart (Table 5)", pipe_table(_joined(table_5(content)))),
        *section("Against the retrained model, percent points", _table(retrained_table(content))),
        *section("Reconstruction from identifiers (Figure 6)", _table(attack_table(content))),
        *section("Along the hierarchy and flat", prose.FLAT, _table(identity_table(content))),
        *section("What models say (Figure 7)", *((prose.FIGURE_7, *figure_7) if figure_7 else ())),
        *section("What the paper published", f"{setting()}: {prose.PUBLISHED}", *_published()),
        *section("Splits", pipe_table(scopes_table(content))),
        *section("Learning rates tried", _table(search)),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _finding(found: Finding) -> str:
    head = f"### {found.verdict}: {one_line(found.claim)}"
    cases = pipe_table(cases_table(found)) if found.cases else ""
    return "\n\n".join(part for part in (head, found.summary, cases, f"Rule: {found.rule}") if part)


def _published() -> list[str]:
    said = [f"Figure {figure}: {says}" for figure, says in statements()]
    tables = [
        part for number in (3, 5) for part in (f"Table {number}, %", pipe_table(_joined(published_table(number))))
    ]
    return [bullets(said), *tables, "Where it does not agree with itself:", bullets(contradictions())]


def _table(found: Table | None) -> str:
    return "" if found is None else pipe_table(_joined(found))


def _joined(found: Table) -> Table:
    """A head and its note as one text: Markdown has no smaller type."""
    return Table(
        tuple(Cell(f"{one.text}, {one.note}" if one.note else one.text) for one in found.columns), found.rows
    )
