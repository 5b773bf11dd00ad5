"""The report as one HTML page that loads nothing from anywhere."""

from __future__ import annotations

from typing import Any

from medunlearn.papers.amnesia.report.content import UNLEARNED
from medunlearn.papers.amnesia.report.marks import colour, symbol
from medunlearn.papers.amnesia.report.tables import search_table
from medunlearn.papers.medforget.report import prose
from medunlearn.papers.medforget.report.content import LevelContent, Said
from medunlearn.papers.medforget.report.figures import figure_5, figure_6, published_figure_5
from medunlearn.papers.medforget.report.findings import findings
from medunlearn.papers.medforget.report.published import contradictions, methods, setting, statements
from medunlearn.papers.medforget.report.tables import (
    attack_table,
    cases_table,
    everyone,
    identity_table,
    measures_text,
    published_table,
    retrained_table,
    scopes_table,
    table_3,
    table_5,
)
from medunlearn.reports import prose as shared_prose
from medunlearn.reports.page import asset, plotly_source, script_hash, templates
from medunlearn.reports.tables import Cell, Table
from medunlearn.reports.words import context_text

Legend = list[tuple[str, str, str]]


def to_html(content: LevelContent) -> str:
    """The page, its style, its scripts and plotly in one string."""
    scripts = [plotly_source(), asset("report.js")]
    return (
        templates()
        .get_template("medforget.html.jinja")
        .render(
            content=content,
            prose=shared_prose,
            own=prose,
            facts=facts(content),
            findings=[(found, cases_table(found)) for found in findings(content)],
            measures=list(measures_text(content)),
            legend=_legend(content),
            **_numbers(content),
            **_published(),
            style=asset("report.css") + asset("findings.css") + asset("sweep.css") + asset("medforget.css"),
            scripts=scripts,
            script_hashes=" ".join(f"'{script_hash(script)}'" for script in scripts),
        )
    )


def _numbers(content: LevelContent) -> dict[str, Any]:
    return {
        "figure_5": figure_5(content),
        "figure_6": figure_6(content),
        "figure_7": [(one, said_table(one)) for one in content.said],
        "table_3": table_3(content),
        "table_5": table_5(content),
        "retrained": retrained_table(content),
        "attacked": attack_table(content),
        "identity": identity_table(content),
        "splits": scopes_table(content),
        "search": search_table(content),
    }


def _published() -> dict[str, Any]:
    everybody = [*((UNLEARNED, method) for method in methods()), ("target", "")]
    return {
        "setting": setting(),
        "statements": statements(),
        "contradictions": contradictions(),
        "published_figure_5": published_figure_5(),
        "published_legend": [
            (who[1] or "target (vanilla)", symbol(methods(), who)[1], colour(methods(), who)) for who in everybody
        ],
        "published": [(number, published_table(number)) for number in (3, 5)],
    }


def facts(content: LevelContent) -> list[tuple[str, str]]:
    """The lines of the first screen."""
    return [
        ("Methods", ", ".join(content.methods) or "none"),
        ("Splits", ", ".join(scope.split for scope in content.scopes)),
        ("Seeds", ", ".join(map(str, content.seeds))),
        ("Benchmark", f"{content.benchmark['name']}, data use: {content.benchmark['data_use']}"),
        ("Context mode", context_text(content.context)),
        ("Intervals", f"95%, {content.replicates:,} bootstrap draws of patients"),
    ]


def said_table(one: Said) -> Table:
    """The right answer, and what every model says."""
    rows = ((Cell("answer"), Cell(one.answer)), *((Cell(name), Cell(text)) for name, text in one.outputs.items()))
    return Table((Cell("Model"), Cell("Says")), rows)


def _legend(content: LevelContent) -> Legend:
    there = [who for who in everyone(content) if any(content.has(scope.split, who) for scope in content.scopes)]
    return [(who[1] or who[0], symbol(content.methods, who)[1], colour(content.methods, who)) for who in there]
