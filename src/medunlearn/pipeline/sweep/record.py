"""``sweep.json``: what became of every cell, written again whenever one ends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from medunlearn.data.storage import write_json
from medunlearn.pipeline.sweep.board import Board
from medunlearn.pipeline.sweep.cells import Cell, Made
from medunlearn.pipeline.sweep.plan import Sweep
from medunlearn.pipeline.sweep.search import RULE, Tried, search_facts
from medunlearn.results.machine import code, hardware, packages

FILE = "sweep.json"


class SweepRecord:
    """Writes ``sweep.json`` in the sweep's folder.

    Args:
        jobs: worker processes.
    """

    def __init__(self, sweep: Sweep, jobs: int) -> None:
        self._sweep = sweep
        self._info: dict[str, Any] = {
            "name": sweep.settings.name,
            "status": "running",
            "settings": sweep.settings.model_dump(mode="json"),
            "notes": list(sweep.notes),
            "jobs": jobs,
            "started": datetime.now(UTC).isoformat(timespec="seconds"),
            "code": code(),
            "packages": packages(),
            "hardware": hardware(),
        }

    def write(self, board: Board, made: Mapping[str, Made], rows: Sequence[Tried], status: str = "running") -> None:
        """The state of all cells, and every rate that was tried."""
        self._info["status"] = status
        self._info["cells"] = [
            cell_facts(cell, board.state[cell.name], made.get(cell.name, Made()), board.reason.get(cell.name))
            for cell in self._sweep.cells
        ]
        if self._sweep.search:
            self._info["search"] = {
                "rule": RULE,
                "split": self._sweep.search.split,
                "chosen": {row.method: row.lr for row in rows if row.chosen},
                "tried": search_facts(rows),
            }
        write_json(self._sweep.settings.out / FILE, self._info)


def cell_facts(cell: Cell, status: str, made: Made, reason: str | None) -> dict[str, Any]:
    """One cell for JSON."""
    return {
        "name": cell.name,
        "kind": cell.kind,
        "status": status,
        "method": cell.method,
        "split": cell.split,
        "seed": cell.seed,
        "context": cell.context,
        "lr": made.lr if cell.lr is None else cell.lr,
        "folder": _text(made.folder),
        "evaluation": _text(made.evaluation),
        "seconds": made.seconds,
        "reason": reason,
    }


def _text(path: Path | None) -> str | None:
    return None if path is None else str(path)
