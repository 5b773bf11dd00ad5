"""Sheets for a person who checks the judges: a CSV to fill in, and a browser page with the same content.

Both show only the cases, in random order, without the judges' output: annotators are blinded (AMNESIA, F.3).
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from medunlearn.data.escaping import FORMULA
from medunlearn.data.storage import refuse_existing, sha256_of_json, write_text
from medunlearn.judging.tasks import JudgingCase, JudgingTask

CSV, PAGE = "labels.csv", "annotate.html"
NOTE = (
    "These files hold text from records of patients. Keep them where the records may be kept, do not mail or "
    "upload them, and delete them when the work is done. The page loads nothing and sends nothing; it keeps your "
    "labels and comments in this browser until you clear its data. What you save holds case ids, labels and "
    "comments: write nothing into a comment that names a patient."
)
_TEMPLATES = Path(__file__).parent / "templates"
_ON_SCREEN = {"category": "Assigned category", "reference": "Reference answer"}


def write_sheet(folder: Path, task: JudgingTask, cases: Sequence[JudgingCase]) -> tuple[Path, Path]:
    """Write ``labels.csv`` and ``annotate.html``, and return their paths.

    Raises:
        InputError: one exists already, and may contain labels.
    """
    refuse_existing(folder / CSV, folder / PAGE, why="it may contain labels")
    write_text(folder / CSV, as_csv(task, cases))
    write_text(folder / PAGE, as_page(task, cases))
    return folder / CSV, folder / PAGE


def as_csv(task: JudgingTask, cases: Sequence[JudgingCase]) -> str:
    """One row per case: case_id, annotator and label to fill in, comment, and the fields to judge."""
    return task.sheet.text((case.case_id, *(case.fields[name] for name in task.shows)) for case in cases)


def as_page(task: JudgingTask, cases: Sequence[JudgingCase]) -> str:
    """One self-contained HTML file; its content security policy forbids network access."""
    # Imported here: most commands write no page.
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(loader=FileSystemLoader(_TEMPLATES), autoescape=True, undefined=StrictUndefined)
    assets = {
        name: (_TEMPLATES / f"annotate.{suffix}").read_text(encoding="utf-8")
        for name, suffix in (("script", "js"), ("style", "css"))
    }
    hashes = {f"{name}_hash": _hash(content) for name, content in assets.items()}
    case_rows = [
        {
            "id": case.case_id,
            "fields": [[_ON_SCREEN.get(name, name.capitalize()), case.fields[name]] for name in task.shows],
        }
        for case in cases
    ]
    data = {
        "sheet": sha256_of_json([task.version, [case.case_id for case in cases]])[:16],
        "cases": case_rows,
        "task": task.name,
        "labels": list(task.sheet.labels),
        "formula": FORMULA,
    }
    page = environment.get_template("annotate.html.jinja")
    return page.render(task=task, note=NOTE, number=len(cases), data=for_script(data), **assets, **hashes)


def for_script(value: Any) -> str:
    """JSON that is safe inside a script element: it neither ends the element nor starts another."""
    text = json.dumps(value, ensure_ascii=True)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _hash(content: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
