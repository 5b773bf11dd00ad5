"""Writing a report's three files."""

from __future__ import annotations

from pathlib import Path

from medunlearn.data.storage import write_json, write_text
from medunlearn.reports.content import ReportContent
from medunlearn.reports.markdown import to_markdown
from medunlearn.reports.page import to_html
from medunlearn.reports.payload import payload


def write_report(content: ReportContent, folder: Path) -> Path:
    """Write ``report.html``, ``report.md`` and ``report.json`` into a folder.

    The HTML is one file that loads nothing from a network. Text of records, questions and responses is in
    none of the three unless ``content.show_text``; what a model said is escaped.

    Returns:
        The path of the HTML file.

    Raises:
        InputError: two models with one label.
        StorageError: the disk refused.
    """
    # All three are made before the first is written: a mistake leaves no half of a report.
    page, text, data = to_html(content), to_markdown(content), payload(content)
    write_json(folder / "report.json", data)
    write_text(folder / "report.md", text)
    write_text(folder / "report.html", page)
    return folder / "report.html"
