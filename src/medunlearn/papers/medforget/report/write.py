"""Writing the report of a sweep over levels."""

from __future__ import annotations

from pathlib import Path

from medunlearn.data.storage import write_json, write_text
from medunlearn.papers.medforget.report.content import LevelContent
from medunlearn.papers.medforget.report.markdown import to_markdown
from medunlearn.papers.medforget.report.page import to_html
from medunlearn.papers.medforget.report.payload import payload


def write_level_report(content: LevelContent, folder: Path) -> Path:
    """Write ``report.html``, ``report.md`` and ``report.json`` into a folder.

    The HTML is one file that loads nothing from a network.

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
