"""The report as one HTML page that loads nothing from anywhere."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from medunlearn.papers.lume.report import findings
from medunlearn.papers.lume.report.tables import cases_table
from medunlearn.reports import curves, figures, membership, prose, reconstruction, utility
from medunlearn.reports.content import ReportContent
from medunlearn.reports.epochs import epoch_figures, epoch_table
from medunlearn.reports.headline import Plane, Standing, drawable, main_plane, panel_planes, standings, verdict
from medunlearn.reports.judged import judged_tables
from medunlearn.reports.published import published_table
from medunlearn.reports.readings import Results
from medunlearn.reports.tables import (
    MetricRow,
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
from medunlearn.reports.words import interval, kind_text, place_text, signed, value_text

if TYPE_CHECKING:
    from jinja2 import Environment


def to_html(content: ReportContent) -> str:
    """The page, its style, its scripts and plotly in one string."""
    return templates().get_template("report.html.jinja").render(_context(content))


def templates() -> Environment:
    """The pages' templates, which escape what they are given, with the filters that write numbers."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("medunlearn.reports"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"interval": lambda one: interval(one.low, one.high), "value": value_text}
    environment.filters |= {"signed": signed, "kind": kind_text, "json": script_json}
    environment.filters["templated"] = lambda spec: (
        spec | {"layout": {"template": figures.TEMPLATE, **spec["layout"]}}
    )
    return environment


def _context(content: ReportContent) -> dict[str, Any]:
    results = Results(content)
    where = main_plane(results)
    ranked = standings(results, where)
    rows = metric_rows(results)
    scripts = [plotly_source(), asset("report.js")]
    return {
        "content": content,
        "prose": prose,
        "facts": facts(content),
        "verdict": verdict(ranked),
        "ranking": _ranking(ranked),
        "unplaced": [one.model.label for one in ranked if not one.placed],
        "where": where,
        "place": place_text(where.fold, where.kind),
        "headline": headline_table(ranked, where),
        "breakdown": breakdown_table(results),
        "groups": group_table(content),
        "legend": _legend(content),
        "lume_findings": [(one, cases_table(one)) for one in findings(content)],
        "published": published_table(content),
        "judged": [(one, judged_tables(one)) for one in content.judged],
        "membership": _membership(content),
        "reconstruction": _reconstruction(content),
        "utility": utility.utility_table(content),
        "utility_note": utility.NOTE,
        "rows": rows,
        "filters": _filters(rows),
        "others": other_comparisons(content, results),
        "examples": content.shown_examples(),
        "cost": cost_table(content.models),
        "benchmark_facts": benchmark_facts(content),
        **_runs(content),
        **_figures(content, results, where),
        "style": asset("report.css") + asset("findings.css"),
        "scripts": scripts,
        "script_hashes": " ".join(f"'{script_hash(script)}'" for script in scripts),
    }


def _figures(content: ReportContent, results: Results, where: Plane) -> dict[str, Any]:
    planes = panel_planes(results)
    return {
        "tradeoff": figures.tradeoff(results, where) if drawable(results, where) else None,
        "panels": figures.panels(results, planes),
        # A row a fold, where its kinds fit side by side.
        "panel_columns": min(3, len({one.kind for one in planes}) or 1),
        "epochs": epoch_figures(content),
        "epoch_table": epoch_table(content),
        "curves": curves.training_curves(content.models),
    }


def _membership(content: ReportContent) -> dict[str, Any]:
    return {
        "tables": membership.membership_tables(content),
        "notes": membership.NOTES,
        "reasons": membership.membership_reasons(content),
        "differences": membership.difference_table(content),
        "semeval": membership.semeval_table(content),
        "privacy": membership.privacy_table(content),
        "figures": membership.roc_figures(content),
    }


def _reconstruction(content: ReportContent) -> dict[str, Any]:
    return {
        "tables": reconstruction.reconstruction_tables(content),
        "notes": reconstruction.NOTES,
        "differences": reconstruction.reconstruction_differences(content),
        "figures": reconstruction.reconstruction_figures(content),
    }


def _runs(content: ReportContent) -> dict[str, Any]:
    shared = shared_facts(content.models)
    own = [
        (model, [(key, text) for key, text in run_facts(model).items() if key not in shared])
        for model in content.models
    ]
    return {"shared": shared, "runs": own}


def _ranking(ranked: Sequence[Standing]) -> list[tuple[str, float, float, bool]]:
    """Label, distance, share of the longest bar, and whether it is the target model, shortest first."""
    found = [(one.model.label, one.distance, one.model.role == "target") for one in ranked]
    known = [(label, distance, target) for label, distance, target in found if distance is not None]
    longest = max((distance for _, distance, _ in known), default=0.0) or 1.0
    known.sort(key=lambda one: one[1])
    return [(label, distance, distance / longest, target) for label, distance, target in known]


def _legend(content: ReportContent) -> list[tuple[str, str, str]]:
    """Label, symbol and CSS variable of each model."""
    colour, symbol = figures.colours(content.models), figures.symbols(content.models)
    return [(model.label, symbol[model.label][1], colour[model.label]) for model in content.models]


def _filters(rows: Sequence[MetricRow]) -> dict[str, list[str]]:
    """Each filter's choices, in the order that the rows have them."""
    return {
        "model": list(dict.fromkeys(row.model for row in rows)),
        "side": list(dict.fromkeys(row.place.side for row in rows)),
        "fold": list(dict.fromkeys(row.place.fold for row in rows)),
        "kind": list(dict.fromkeys(row.place.kind for row in rows)),
        "metric": list(dict.fromkeys(row.metric for row in rows)),
    }


def script_json(value: Any) -> Any:
    """JSON for a script element: no ``<`` in it can end the element or start another."""
    from markupsafe import Markup

    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return Markup(text.replace("<", "\\u003c").replace("&", "\\u0026"))


def script_hash(script: str) -> str:
    """The script's hash as a content security policy takes it: the page runs these scripts and no other."""
    return f"sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}"


@cache
def plotly_source() -> str:
    """plotly.js, line ends as a browser reads them (its hash is of those)."""
    from plotly.offline import get_plotlyjs

    return str(get_plotlyjs()).replace("\r\n", "\n").replace("\r", "\n")


def asset(name: str) -> str:
    """A style sheet or script of the pages."""
    return files("medunlearn.reports").joinpath("templates", name).read_text(encoding="utf-8")
