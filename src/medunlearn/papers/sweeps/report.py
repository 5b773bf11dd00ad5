"""The report of a sweep: the shared page, with the part of its benchmark's paper."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from medunlearn.data.benchmark import Benchmark
from medunlearn.data.storage import read_json
from medunlearn.errors import InputError
from medunlearn.paper import paper_of
from medunlearn.papers.sweeps.page import neutral_report
from medunlearn.papers.sweeps.parts import sweep_parts
from medunlearn.papers.sweeps.results import SweepReport, SweepRequest
from medunlearn.registry import load
from medunlearn.results.evaluated import Evaluated
from medunlearn.results.runs import Run, find_benchmark
from medunlearn.statistics.bootstrap import REPLICATES
from medunlearn.study.judge_stage import judged_runs
from medunlearn.study.report.gather_ratings import panel_part

FILE = "sweep.json"
_LOST = ("failed", "not run")


Builder = Callable[[Sequence[Evaluated], Benchmark, SweepRequest], SweepReport]


def sweep_report(models: Sequence[Evaluated], benchmark: Benchmark, **options: Any) -> SweepReport:
    """The report of a sweep: the shared page, and the part of its benchmark's paper.

    Args:
        models: target on every split, retrained models on their own, unlearned ones; of one or several seeds and
            contexts.
        options: fields of :class:`~medunlearn.papers.sweeps.results.SweepRequest`.

    Raises:
        InputError: see :class:`~medunlearn.papers.sweeps.models.SweepModels`.
    """
    request = SweepRequest(**options)
    request = replace(request, parts=tuple(sweep_parts(models, benchmark, request)))
    page = paper_of(benchmark.builder).sweep_page
    report: Builder = load(page) if page else neutral_report
    return report(models, benchmark, request)


def folder_report(
    folder: Path,
    benchmark: Benchmark | None = None,
    *,
    title: str | None = None,
    show_text: bool = False,
    replicates: int | None = None,
    seed: int = 0,
) -> SweepReport:
    """The report of a sweep's folder, from the entries of its ``sweep.json``.

    Args:
        benchmark: the sweep's benchmark; None: that of its settings, or the one that it built.
        title: None: the sweep's name.
        replicates: None: as in the sweep's evaluations.

    Raises:
        InputError: the folder has no sweep, or its benchmark is not found.
    """
    info = read_sweep(folder)
    models, settings = evaluated_models(folder, info), info["settings"]
    evaluated, trials = settings.get("evaluate") or {}, (info.get("search") or {}).get("tried")
    return sweep_report(
        models,
        benchmark if benchmark is not None else sweep_benchmark(folder, settings, models),
        title=title or str(info.get("name") or "Sweep"),
        missing=[
            (str(cell["name"]), str(cell.get("reason"))) for cell in info["cells"] if cell.get("status") in _LOST
        ],
        search=pd.DataFrame(trials) if trials else None,
        show_text=show_text,
        replicates=replicates or int(evaluated.get("replicates", REPLICATES)),
        seed=seed,
        judged=[panel_part(run) for run in judged_runs(folder)],
    )


def read_sweep(folder: Path) -> Mapping[str, Any]:
    """The ``sweep.json`` of a folder, with its cells and settings.

    Raises:
        InputError: the folder has no sweep, or its file lists none.
    """
    path = folder / FILE
    if not path.exists():
        raise InputError(f"{folder} holds no sweep (no {FILE}). `medunlearn sweep --help` says how to run one.")
    info: Mapping[str, Any] = read_json(path)
    if not isinstance(info.get("cells"), list) or not isinstance(info.get("settings"), Mapping):
        raise InputError(f"{path} lists no cells and settings. Run the sweep's command again to rewrite the file.")
    return info


def evaluated_models(folder: Path, info: Mapping[str, Any]) -> list[Evaluated]:
    """The evaluated models that a sweep's file lists."""
    return [
        Evaluated(Run.open(_inside(folder, cell["folder"])), Run.open(_inside(folder, cell["evaluation"])))
        for cell in info["cells"]
        if cell.get("kind") == "evaluate" and cell.get("folder") and cell.get("evaluation")
    ]


def _inside(folder: Path, recorded: str) -> Path:
    """A cell's recorded folder, or the corresponding one if the sweep's folder was moved."""
    path = Path(recorded)
    moved = (folder.joinpath(*path.parts[place:]) for place in range(1, len(path.parts)))
    return next((place for place in (*moved, path) if place.exists()), path)


def sweep_benchmark(folder: Path, settings: Mapping[str, Any], models: Sequence[Evaluated]) -> Benchmark:
    """The benchmark that a sweep's models were asked about: that of its settings, by its fingerprint, or the one
    that it built.

    Raises:
        InputError: it built none, or several.
    """
    recorded = (settings.get("benchmark") or {}).get("folder")
    if recorded:
        asked = next((model.record.info.benchmark for model in models), None)
        benchmark = find_benchmark(str(recorded), folder, asked)
        return benchmark if benchmark is not None else Benchmark.load(Path(recorded))
    built = sorted(path.parent for path in folder.glob("bench-*/benchmark.yaml"))
    if len(built) != 1:
        raise InputError(f"{folder} holds {len(built)} benchmarks. Name the sweep's own: --benchmark.")
    return Benchmark.load(built[0])
