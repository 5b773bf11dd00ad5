"""A sweep's report as one HTML page that loads nothing from anywhere."""

from __future__ import annotations

from typing import Any

from medunlearn.papers.amnesia.report import prose
from medunlearn.papers.amnesia.report.bars import bar_rows
from medunlearn.papers.amnesia.report.cases import Finding
from medunlearn.papers.amnesia.report.content import UNLEARNED, SweepContent
from medunlearn.papers.amnesia.report.findings import findings
from medunlearn.papers.amnesia.report.marks import REFERENCES, colour, symbol
from medunlearn.papers.amnesia.report.published import setting, statements
from medunlearn.papers.amnesia.report.tables import (
    analyses,
    leak_details,
    leak_tables,
    numbers_table,
    published_tables,
    search_table,
)
from medunlearn.papers.amnesia.report.traces import disease_figure, tradeoff_panels
from medunlearn.reports import prose as shared_prose
from medunlearn.reports.page import asset, plotly_source, script_hash, templates
from medunlearn.reports.tables import Cell, Table
from medunlearn.reports.words import ABSENT, context_text

FIGURES = (2, 3, 4)


def to_html(content: SweepContent) -> str:
    """The page, its style, its scripts and plotly in one string."""
    environment = templates()
    environment.filters["context"] = context_text
    return environment.get_template("sweep.html.jinja").render(_context(content))


def _context(content: SweepContent) -> dict[str, Any]:
    # Scopes are folded before figures are drawn, so that only those in sight are drawn at once.
    scripts = [plotly_source(), asset("sweep.js"), asset("report.js")]
    return {
        "content": content,
        "prose": shared_prose,
        "sweep_prose": prose,
        "facts": facts(content),
        "findings": [(found, cases_table(found)) for found in findings(content)],
        "legend": _legend(content),
        "contexts": [_part(content, context) for context in content.contexts],
        "setting": setting(),
        "statements": [(figure, statements(figure)) for figure in FIGURES],
        "published": published_tables(),
        "splits": splits_table(content),
        "search": search_table(content),
        "style": asset("report.css") + asset("findings.css") + asset("sweep.css"),
        "scripts": scripts,
        "script_hashes": " ".join(f"'{script_hash(script)}'" for script in scripts),
    }


def _part(content: SweepContent, context: str) -> dict[str, Any]:
    """Everything of one context mode."""
    bars = [(scope, bar_rows(content, context, scope)) for scope in content.scopes]
    traces = [
        (scope, tradeoff_panels(content, context, scope)) for scope in content.scopes if _traced(content, scope)
    ]
    diseases = [(scope, disease_figure(content, context, scope)) for scope in content.scopes]
    return {
        "context": context,
        "bars": [(scope, rows) for scope, rows in bars if rows],
        "traces": [(scope, panels) for scope, panels in traces if panels],
        "diseases": [(scope, spec) for scope, spec in diseases if spec],
        "leaks": leak_tables(content, context),
        "leak_details": leak_details(content, context),
        "analyses": analyses(content, context),
        "numbers": numbers_table(content, context),
    }


def _traced(content: SweepContent, scope: str) -> bool:
    """A split whose name has no size is a scope of its own, and has no trace."""
    return all(step.percent is not None for step in content.steps_of(scope))


def facts(content: SweepContent) -> list[tuple[str, str]]:
    """The lines of the first screen."""
    return [
        ("Methods", ", ".join(content.methods) or "none"),
        ("Splits", ", ".join(_spread(content, scope) for scope in content.scopes)),
        ("Seeds", ", ".join(map(str, content.seeds))),
        ("Benchmark", f"{content.benchmark['name']}, data use: {content.benchmark['data_use']}"),
        ("Context modes", "; ".join(map(context_text, content.contexts))),
        ("Intervals", f"95%, {content.replicates:,} bootstrap draws of patients for differences and groups"),
    ]


def _spread(content: SweepContent, scope: str) -> str:
    sizes = [step.percent for step in content.steps_of(scope) if step.percent is not None]
    if not sizes:
        return scope
    return f"{scope} {sizes[0]}%" if len(sizes) == 1 else f"{scope} {sizes[0]}-{sizes[-1]}%"


def cases_table(found: Finding) -> Table:
    """One row a case: where, verdict, what it says, and its numbers."""
    columns = tuple(Cell(name) for name in ("Split", "Method", "Case", "What the numbers show", "Numbers"))
    rows = tuple(
        (
            Cell(case.split),
            Cell(case.method),
            Cell(case.verdict),
            Cell(case.says),
            Cell("; ".join(map(str, case.evidence))),
        )
        for case in found.cases
    )
    return Table(columns, rows)


def splits_table(content: SweepContent) -> Table:
    """One row a split: how many are forgotten and retained, and who shares the disease."""
    names = ("Split", "Level", "Forget", "Retain", "Disease", "Retained with it")
    rows = tuple(
        tuple(
            Cell(text)
            for text in (
                step.split,
                step.level,
                f"{step.forget:,}",
                f"{step.retain:,}",
                step.disease or ABSENT,
                f"{step.same:,}" if step.disease else ABSENT,
            )
        )
        for step in content.steps
    )
    return Table(tuple(Cell(name) for name in names), rows)


def _legend(content: SweepContent) -> list[tuple[str, str, str]]:
    """Label, symbol and CSS variable of each model."""
    everyone = [*((UNLEARNED, method) for method in content.methods), *REFERENCES]
    return [
        (who[1] or who[0], symbol(content.methods, who)[1], colour(content.methods, who))
        for who in everyone
        if any(content.has(context, step.split, who) for context in content.contexts for step in content.steps)
    ]
