"""The report of a sweep from its folder, once more: from what ``sweep.json`` lists."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from medunlearn.data.benchmark import Benchmark
from medunlearn.data.storage import read_json
from medunlearn.errors import InputError
from medunlearn.papers.amnesia.swept.reporting import Content, gather_report
from medunlearn.results.evaluated import Evaluated
from medunlearn.results.runs import Run
from medunlearn.statistics.bootstrap import REPLICATES

FILE = "sweep.json"
_LOST = ("failed", "not run")


def gather_folder(
    folder: Path,
    benchmark: Benchmark | None = None,
    *,
    title: str | None = None,
    show_text: bool = False,
    replicates: int | None = None,
    seed: int = 0,
) -> Content:
    """Everything that a sweep's report shows, from the sweep's folder.

    Args:
        benchmark: that the sweep was run on; None: the one that its settings name, or that it built.
        title: None: the sweep's name.
        show_text: show text of real records, where the report has a place for it.
        replicates: None: as the sweep's own evaluations.

    Raises:
        InputError: the folder holds no sweep, or its benchmark is not found.
    """
    path = folder / FILE
    if not path.exists():
        raise InputError(f"{folder} holds no sweep (no {FILE}). `medunlearn sweep --help` says how to run one.")
    info = read_json(path)
    cells, settings = info.get("cells"), info.get("settings")
    if not isinstance(cells, list) or not isinstance(settings, Mapping):
        raise InputError(
            f"{path} lists no cells and settings. Give the sweep's command again: it writes the file anew."
        )
    loaded = benchmark if benchmark is not None else Benchmark.load(_benchmark_folder(folder, settings))
    asked = settings.get("evaluate") or {}
    return gather_report(
        title or str(info.get("name") or "Sweep"),
        _models(folder, cells),
        loaded,
        missing=[(str(cell["name"]), str(cell.get("reason"))) for cell in cells if cell.get("status") in _LOST],
        search=_search(info.get("search")),
        show_text=show_text,
        replicates=replicates or int(asked.get("replicates", REPLICATES)),
        seed=seed,
    )


def _models(folder: Path, cells: Sequence[Mapping[str, Any]]) -> list[Evaluated]:
    return [
        Evaluated(Run.open(_inside(folder, cell["folder"])), Run.open(_inside(folder, cell["evaluation"])))
        for cell in cells
        if cell.get("kind") == "evaluate" and cell.get("folder") and cell.get("evaluation")
    ]


def _inside(folder: Path, recorded: str) -> Path:
    """A cell's folder where it was recorded; or in the sweep's folder, if that was moved since."""
    path = Path(recorded)
    if path.exists():
        return path
    parts = path.parts
    for place in range(1, len(parts)):
        moved = folder.joinpath(*parts[place:])
        if moved.exists():
            return moved
    return path


def _benchmark_folder(folder: Path, settings: Mapping[str, Any]) -> Path:
    named = (settings.get("benchmark") or {}).get("folder")
    if named:
        return Path(named)
    built = sorted(path.parent for path in folder.glob("bench-*/benchmark.yaml"))
    if len(built) != 1:
        raise InputError(f"{folder} holds {len(built)} benchmarks. Name the sweep's own: --benchmark.")
    return built[0]


def _search(found: Any) -> pd.DataFrame | None:
    """The tried rates; a list of them, or a table with its rule."""
    rows = found.get("tried") if isinstance(found, Mapping) else found
    return pd.DataFrame(rows) if rows else None
