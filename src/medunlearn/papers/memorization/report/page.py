"""An audit report as one HTML page that loads nothing from anywhere."""

from __future__ import annotations

from typing import Any

from medunlearn.papers.memorization.report import figures, prose, tables, tables_of_text
from medunlearn.papers.memorization.report.content import AuditContent
from medunlearn.papers.memorization.report.findings import findings
from medunlearn.papers.memorization.report.published import contradictions, published_tables, setting
from medunlearn.papers.memorization.report.recommendations import recommendations
from medunlearn.reports import prose as shared_prose
from medunlearn.reports.page import asset, plotly_source, script_hash, templates
from medunlearn.reports.words import count


def to_html(content: AuditContent) -> str:
    """The page, its style, its scripts and plotly in one string."""
    return templates().get_template("audit.html.jinja").render(_context(content))


def _context(content: AuditContent) -> dict[str, Any]:
    scripts = [plotly_source(), asset("report.js")]
    found = findings(content)
    shortest = content.prefixes[0] if content.prefixes else 0
    return {
        "content": content,
        "prose": shared_prose,
        "audit_prose": prose,
        "facts": facts(content),
        "findings": [(one, tables.cases_table(one)) for one in found],
        "recommendations": recommendations(content, found),
        "legend": figures.legend(content),
        "shortest": shortest,
        "table_2": tables.table_2(content, shortest),
        "meanings": list(tables.meanings(content)),
        "figure_1": figures.figure_1(content),
        "table_8": [(corpus, tables.table_8(content, corpus)) for corpus in content.corpora],
        "figure_2": figures.figure_2(content),
        "decodings": tables.decoding_table(content),
        "figure_copies": figures.figure_copies(content),
        "copies": tables.copies_table(content),
        "figure_3": figures.figure_3(content),
        "positions": tables_of_text.position_tables(content),
        "kinds": tables_of_text.kinds_table(content),
        "agreement": tables_of_text.agreement_table(content),
        "table_5": tables_of_text.table_5(content),
        "figure_5": figures.figure_5(content),
        "table_7": tables_of_text.table_7(content),
        "figure_7": figures.figure_7(content),
        "epochs": tables_of_text.epoch_table(content),
        "table_9": tables_of_text.identifier_table(content, "table_9"),
        "table_10": tables_of_text.identifier_table(content, "table_10"),
        "trends": tables.trend_table(content),
        "differences": tables.difference_table(content),
        "setting": setting(),
        "published": published_tables(),
        "contradictions": contradictions(),
        "style": asset("report.css") + asset("sweep.css") + asset("audit.css"),
        "scripts": scripts,
        "script_hashes": " ".join(f"'{script_hash(script)}'" for script in scripts),
    }


def facts(content: AuditContent) -> list[tuple[str, str]]:
    """The lines of the first screen."""
    prefixes = ", ".join(map(str, content.prefixes))
    decodings = dict.fromkeys(content.ratios["decoding"]) if len(content.ratios) else {}
    return [
        ("Models", ", ".join(model.label for model in content.models)),
        ("Corpora", ", ".join(content.corpora) or "none"),
        ("Prefixes", f"{prefixes} {'/'.join(dict.fromkeys(model.unit for model in content.models))}"),
        ("Decodings", ", ".join(map(str, decodings)) or "none"),
        ("Records of patients", ", ".join(content.clinical) or "no corpus was declared so"),
        ("Intervals", f"95%, {count(content.replicates, 'bootstrap draw')} of subjects"),
    ]
