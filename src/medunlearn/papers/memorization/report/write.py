"""Writing an audit report."""

from __future__ import annotations

from pathlib import Path

from medunlearn.data.storage import write_json, write_text
from medunlearn.papers.memorization.report.content import AuditContent
from medunlearn.papers.memorization.report.markdown import to_markdown
from medunlearn.papers.memorization.report.page import to_html
from medunlearn.papers.memorization.report.payload import payload


def write_audit_content(content: AuditContent, folder: Path) -> Path:
    """Write ``report.html``, ``report.md`` and ``report.json`` into a folder.

    The HTML is one file that loads nothing from a network. Text of records and responses is in none of the three
    unless ``content.show_text``, and is then escaped.

    Returns:
        The path of the HTML file.

    Raises:
        StorageError: the disk refused.
    """
    # All three are made before the first is written: a mistake leaves no half of a report.
    page, text, data = to_html(content), to_markdown(content), payload(content)
    write_json(folder / "report.json", data)
    write_text(folder / "report.md", text)
    write_text(folder / "report.html", page)
    return folder / "report.html"
