"""Writing a sweep's report."""

from __future__ import annotations

from pathlib import Path

from medunlearn.data.storage import write_json, write_text
from medunlearn.papers.amnesia.report.content import SweepContent
from medunlearn.papers.amnesia.report.markdown import to_markdown
from medunlearn.papers.amnesia.report.page import to_html
from medunlearn.papers.amnesia.report.payload import payload


def write_sweep_report(content: SweepContent, folder: Path) -> Path:
    """Write ``report.html``, ``report.md`` and ``report.json`` into a folder.

    The HTML is one file that loads nothing from a network. No text of a record, question or response is in any.

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
