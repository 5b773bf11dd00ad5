"""Writing the diagnosis report: a page that loads nothing from anywhere, and Markdown."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from medunlearn.data.storage import write_text
from medunlearn.papers.memorization.diagnosis.report import prose
from medunlearn.papers.memorization.diagnosis.report.content import DiagnosisContent
from medunlearn.papers.memorization.diagnosis.report.figures import accuracy_figure, epochs_figure, specialty_figure
from medunlearn.papers.memorization.diagnosis.report.tables import (
    accuracy_cells,
    difference_cells,
    epoch_cells,
    rise_cells,
)
from medunlearn.reports import prose as shared_prose
from medunlearn.reports.markdown import bullets, one_line, pipe_table, section
from medunlearn.reports.page import asset, plotly_source, script_hash, templates


def write_diagnosis_report(content: DiagnosisContent, folder: Path) -> Path:
    """Write ``report.html`` and ``report.md`` into a folder; returns the path of the page.

    Raises:
        StorageError: the disk refused.
    """
    page, text = to_html(content), to_markdown(content)
    write_text(folder / "report.md", text)
    write_text(folder / "report.html", page)
    return folder / "report.html"


def facts(content: DiagnosisContent) -> list[tuple[str, str]]:
    """The lines of the first screen."""
    return [
        ("Models", ", ".join(content.models)),
        ("Benchmark", f"{content.benchmark['name']}, data use: {content.benchmark['data_use']}"),
        ("Asked about", f"the {content.part} part"),
        ("Right is", "the principal diagnosis" if content.gold == "principal" else "any diagnosis"),
    ]


def to_html(content: DiagnosisContent) -> str:
    """The page with its style, its scripts and plotly in one string."""
    scripts = [plotly_source(), asset("report.js")]
    context: dict[str, Any] = {
        "content": content,
        "prose": shared_prose,
        "own": prose,
        "facts": facts(content),
        "counted": prose.counted(content),
        "specialties": prose.specialties(content),
        "stop": prose.stop(content),
        "accuracy": accuracy_figure(content),
        "by_specialty": specialty_figure(content),
        "epochs": epochs_figure(content),
        "accuracy_table": accuracy_cells(content),
        "differences": difference_cells(content),
        "epoch_table": epoch_cells(content),
        "rise": rise_cells(content),
        "style": asset("report.css"),
        "scripts": scripts,
        "script_hashes": " ".join(f"'{script_hash(script)}'" for script in scripts),
    }
    return templates().get_template("diagnosis.html.jinja").render(context)


def to_markdown(content: DiagnosisContent) -> str:
    """The whole report but for its figures, whose numbers stand in the tables."""
    differences, epochs, rise = difference_cells(content), epoch_cells(content), rise_cells(content)
    parts = [
        f"# {one_line(content.title)}",
        bullets(f"{name}: {text}" for name, text in facts(content)),
        *section(
            "Top-k accuracy",
            prose.counted(content),
            pipe_table(accuracy_cells(content)),
            prose.specialties(content),
        ),
        *section("Differences", "" if differences is None else pipe_table(differences)),
        *section(
            "Memorization while training", "" if rise is None else prose.RISE, pipe_table(rise) if rise else ""
        ),
        *section("Epoch by epoch", prose.stop(content), "" if epochs is None else pipe_table(epochs)),
        prose.NO_TEXT,
    ]
    return "\n\n".join(part for part in parts if part) + "\n"
