"""An audit report as Markdown that reads well in a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from medunlearn.papers.memorization.report import prose, tables, tables_of_text
from medunlearn.papers.memorization.report.cases import Finding
from medunlearn.papers.memorization.report.content import AuditContent
from medunlearn.papers.memorization.report.findings import findings
from medunlearn.papers.memorization.report.page import facts
from medunlearn.papers.memorization.report.published import contradictions, published_tables, setting
from medunlearn.papers.memorization.report.recommendations import Recommendation, recommendations
from medunlearn.reports.markdown import bullets, literal, one_line, pipe_table, section
from medunlearn.reports.tables import Table


def to_markdown(content: AuditContent) -> str:
    """The whole report but for its figures, whose numbers stand in the tables."""
    found = findings(content)
    parts = [
        f"# {one_line(content.title)}",
        bullets(f"{name}: {text}" for name, text in facts(content)),
        *section("Read this first", bullets(content.caveats) if content.caveats else ""),
        *section("Recommendations", *(_recommended(one) for one in recommendations(content, found))),
        *section("Findings", *(_finding(one) for one in found)),
        *section(
            "How to read this", *prose.HOW_TO_READ, prose.STATISTICS, "" if content.show_text else prose.NO_TEXT
        ),
        *_numbers(content),
        *_contents(content),
        *section("Not in this report", bullets(f"{name}: {how}" for name, how in content.missing)),
        *section("What the paper published", f"{setting()}: {prose.PUBLISHED}", *_titled(published_tables())),
        *section("Where the paper contradicts itself", bullets(f"{at}: {says}" for at, says in contradictions())),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _numbers(content: AuditContent) -> list[str]:
    shortest = content.prefixes[0] if content.prefixes else 0
    by_prefix = [(corpus, tables.table_8(content, corpus)) for corpus in content.corpora]
    lines = bullets(tables.meanings(content)) if len(content.ratios) else ""
    return [
        *_part(
            f"Memorization at a prefix of {shortest} (Table 2)",
            prose.TABLE_2,
            tables.table_2(content, shortest),
            lines,
        ),
        *section("By prefix length (Figure 1, Table 8)", *_titled([(c, t) for c, t in by_prefix if t is not None])),
        *_part("By decoding (Figure 2)", prose.FIGURE_2, tables.decoding_table(content)),
        *_part("By copies in the training text", prose.COPIES, tables.copies_table(content)),
        *_several("By position (Figure 3)", prose.FIGURE_3, tables_of_text.position_tables(content)),
        *_part("Trends", "", tables.trend_table(content)),
        *_part("Differences between models", "", tables.difference_table(content)),
    ]


def _contents(content: AuditContent) -> list[str]:
    agreed = tables_of_text.agreement_table(content)
    return [
        *_part("Kinds of what was memorized (Table 3)", prose.KINDS, tables_of_text.kinds_table(content)),
        *_part("Agreement on kinds", "", agreed),
        *_part("Answer options (Table 5)", prose.TABLE_5, tables_of_text.table_5(content)),
        *_several("After further fine-tuning (Figure 5, Table 7)", prose.TABLE_7, tables_of_text.table_7(content)),
        *_part("By epoch (Figure 7)", prose.FIGURE_7, tables_of_text.epoch_table(content)),
        *_part("Identifiers (Table 9)", prose.TABLE_9, tables_of_text.identifier_table(content, "table_9")),
        *_part(
            "Further sensitive content (Table 10)",
            prose.TABLE_10,
            tables_of_text.identifier_table(content, "table_10"),
        ),
        *section("Examples", *_examples(content)),
    ]


def _part(title: str, says: str, table: Table | None, more: str = "") -> list[str]:
    return [] if table is None else section(title, says, pipe_table(table), more)


def _several(title: str, says: str, found: Sequence[tuple[str, Table]]) -> list[str]:
    return section(title, says, *_titled(found)) if found else []


def _titled(found: Sequence[tuple[str, Table]]) -> list[str]:
    return [part for title, table in found for part in (f"### {one_line(title)}", pipe_table(table))]


def _recommended(one: Recommendation) -> str:
    head = f"**{one.group.capitalize()}: {one_line(one.name)}.**"
    return f"{head} Found: {one_line(one.observed)}. {one_line(one.advice)}"


def _finding(found: Finding) -> str:
    head = f"### {found.verdict}: {one_line(found.claim)}"
    cases = pipe_table(tables.cases_table(found)) if found.cases else ""
    paper = f"In the paper: {found.published}" if found.published else ""
    return "\n\n".join(part for part in (head, found.summary, cases, f"Rule: {found.rule}", paper) if part)


def _examples(content: AuditContent) -> list[str]:
    return [
        f"{one_line(one.model)} on {one_line(one.corpus)}, prefix {one.prefix_tokens}, run of {one.length}, "
        f"{one_line(one.kind)}:\n\n{literal(one.text)}"
        for one in content.shown_examples()
    ]
