"""Write a report's three files."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from medunlearn.data.folder_lock import lock_folder, patient
from medunlearn.data.storage import json_bytes, read_json, refuse_existing, write_files
from medunlearn.errors import InputError
from medunlearn.reports.blocks import Report
from medunlearn.reports.content import ReportContent
from medunlearn.reports.exports import export_files
from medunlearn.reports.html import to_html
from medunlearn.reports.json import to_data
from medunlearn.reports.markdown import to_markdown
from medunlearn.reports.unlearning import unlearning_report

PATIENCE = 30.0
PAGES = ("report.json", "report.md", "report.html")


def write_report(
    report: Report | ReportContent, folder: Path, *, tables: Sequence[str] = (), figures: Sequence[str] = ()
) -> Path:
    """Write ``report.html``, ``report.md`` and ``report.json`` into a folder, and return the first one's path.

    The HTML is one self-contained file.

    Args:
        tables, figures: formats in which every table (``tex``, ``csv``) and figure (``svg``, ``pdf``) is also
            written, into the folders ``tables`` and ``figures``.

    Raises:
        InputError: two models with one label.
        StorageError: the disk refused.
    """
    if isinstance(report, ReportContent):
        report = unlearning_report(report)
    # All three are made before the first is written: a mistake leaves no half of a report.
    page, text, data = to_html(report), to_markdown(report), to_data(report)
    files = {
        **dict(zip(PAGES, (json_bytes(data), text.encode(), page.encode()), strict=True)),
        **export_files(report, tables, figures),
    }
    with patient(PATIENCE), lock_folder(folder, "report"):
        if not _is_report(folder):
            refuse_existing(*(folder / name for name in files), why="it is no part of a report of ours")
        write_files(folder, files)
    return folder / "report.html"


def free_folder(out: Path) -> Path:
    """A folder into which a report may be written.

    Raises:
        InputError: it is a file, or contains a benchmark, a run, or a page of others.
    """
    if out.suffix in (".html", ".md", ".json"):
        raise InputError(f"A report is a folder of three files: use --out {out.with_suffix('')}, not {out}.")
    if out.exists() and not out.is_dir():
        raise InputError(f"{out} is a file, not a folder. Choose another --out.")
    if (out / "benchmark.yaml").exists() or (out / "run.json").exists():
        raise InputError(f"{out} contains a benchmark or a run. Choose another --out.")
    if not _is_report(out):
        refuse_existing(*(out / name for name in PAGES), why="it is no part of a report of ours")
    return out


def _is_report(folder: Path) -> bool:
    """True if a folder holds a report: its data are written first."""
    with suppress(InputError, AttributeError):
        return bool({"format", "title"} <= read_json(folder / PAGES[0]).keys())
    return False
