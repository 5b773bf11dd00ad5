"""Writing a report's three files."""

from __future__ import annotations

from pathlib import Path

from medunlearn.data.storage import write_json, write_text
from medunlearn.reports import content_markdown, html, markdown, page, payload
from medunlearn.reports.blocks import Report
from medunlearn.reports.content import ReportContent
from medunlearn.reports.json import to_data


def write_report(report: Report | ReportContent, folder: Path) -> Path:
    """Write ``report.html``, ``report.md`` and ``report.json`` into a folder.

    The HTML is one file that loads nothing from a network. Text of records, questions and responses is in
    none of the three unless the report was made so.

    Returns:
        The path of the HTML file.

    Raises:
        InputError: two models with one label.
        StorageError: the disk refused.
    """
    # All three are made before the first is written: a mistake leaves no half of a report.
    if isinstance(report, Report):
        shown, text, data = html.to_html(report), markdown.to_markdown(report), to_data(report)
    else:
        shown, text, data = page.to_html(report), content_markdown.to_markdown(report), payload.payload(report)
    write_json(folder / "report.json", data)
    write_text(folder / "report.md", text)
    write_text(folder / "report.html", shown)
    return folder / "report.html"
