"""The report of a sweep, looked up by the benchmark's builder, and the parts that papers share."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from medunlearn.data.benchmark import Benchmark
from medunlearn.data.storage import read_json
from medunlearn.errors import InputError
from medunlearn.papers.sweeps.models import SweepModels
from medunlearn.registry import names, resolve
from medunlearn.reports.blocks import Cell, Details, Notice, Report, Table, details
from medunlearn.reports.claims import Finding, findings_data, findings_text
from medunlearn.reports.json import plain
from medunlearn.reports.readings import number, rows_of
from medunlearn.reports.tables import records
from medunlearn.reports.words import ABSENT, decimal
from medunlearn.results.evaluated import Evaluated
from medunlearn.results.runs import Run
from medunlearn.statistics.bootstrap import REPLICATES

FILE = "sweep.json"
SWEEP_REPORTS: Mapping[str, str] = {
    "amnesia": "medunlearn.papers.amnesia.report:sweep_report",
    "medforget": "medunlearn.papers.medforget.report:sweep_report",
}
"""Builder of the benchmark -> its report; a benchmark of any other builder has AMNESIA's."""

PUBLISHED = "to compare with, not a target: another model, other patients, other questions."
ONE_SEED = (
    "Every model was trained with one seed. Intervals say how patients differ, not how another training run would "
    "come out."
)
_LOST = ("failed", "not run")
_SEARCH = ("method", "lr", "utility", "forgetting", "score", "chosen", "utility_name", "forgetting_name", "reason")


@dataclass(frozen=True)
class SweepFacts:
    """Facts of a sweep that every paper's report shows.

    Attributes:
        benchmark: name, builder, source, licence, data_use, levels, counts, fingerprint.
        methods: names of the unlearning methods.
        seeds: of training.
        caveats: sentences for the top of the page.
        missing: name and reason of what could not be run.
        search: method, lr, utility, forgetting, score, chosen; None where nothing was searched.
        replicates: of the bootstrap.
    """

    title: str
    benchmark: Mapping[str, Any]
    methods: tuple[str, ...]
    seeds: tuple[int, ...] = (0,)
    caveats: tuple[str, ...] = ()
    missing: tuple[tuple[str, str], ...] = ()
    search: pd.DataFrame | None = None
    replicates: int = REPLICATES

    @staticmethod
    def of(models: SweepModels, caveats: Iterator[str], request: SweepRequest) -> SweepFacts:
        facts = models.benchmark.facts()
        told = (*caveats, *((ONE_SEED,) if len(models.seeds) == 1 else ()))
        missing, search = tuple(request.missing), request.search
        return SweepFacts(
            request.title, facts, models.methods, models.seeds, told, missing, search, request.replicates
        )

    def first_screen(self, splits: str, contexts: tuple[str, str], drawn: str) -> tuple[tuple[str, str], ...]:
        """Facts below the title."""
        return (
            ("Methods", ", ".join(self.methods) or "none"),
            ("Splits", splits),
            ("Seeds", ", ".join(map(str, self.seeds))),
            ("Benchmark", f"{self.benchmark['name']}, data use: {self.benchmark['data_use']}"),
            contexts,
            ("Intervals", f"95%, {self.replicates:,} bootstrap draws of patients{drawn}"),
        )

    def notices(self) -> tuple[Notice, ...]:
        """Caveats, and what is missing."""
        lost = tuple(f"{name}: {reason}" for name, reason in self.missing)
        shown = (("Read this first", self.caveats), ("Not in this report", lost))
        return tuple(Notice(title, lines) for title, lines in shown if lines)

    def searched(self, *, opened: bool) -> Details | None:
        """The tried learning rates and the numbers that one was chosen by."""
        return details("Learning rates tried", search_table(self.search), opened=opened)

    def data(self, findings: Sequence[Finding], **more: Any) -> dict[str, Any]:
        """Everything that the report shows; tables are column -> values, a third of the size of a mapping a row."""
        shown = {
            "benchmark": self.benchmark,
            "methods": self.methods,
            "seeds": self.seeds,
            "replicates": self.replicates,
            "caveats": self.caveats,
            "missing": [{"name": name, "reason": reason} for name, reason in self.missing],
            "findings": findings_data(findings),
            "search": self.search,
            **more,
        }
        columns = {
            name: {str(column): value[column].tolist() for column in value.columns}
            for name, value in shown.items()
            if isinstance(value, pd.DataFrame)
        }
        data: dict[str, Any] = plain({**shown, **columns})
        return data


@dataclass(frozen=True)
class SweepRequest:
    """Options of a sweep's report.

    Attributes:
        missing, search: as of :class:`SweepFacts`.
        show_text: show text of real records, where the report has a place for it; an invented benchmark's is
            always shown.
        replicates, seed: of the bootstrap.
    """

    title: str = "Sweep"
    missing: Sequence[tuple[str, str]] = ()
    search: pd.DataFrame | None = None
    show_text: bool = False
    replicates: int = REPLICATES
    seed: int = 0


@dataclass(frozen=True)
class SweepReport:
    """A sweep's report, and its findings for a terminal.

    Attributes:
        results: the paper's own tables behind the report.
        by: label by which a terminal counts cases; every case is shown where it is empty.
    """

    report: Report
    findings: tuple[Finding, ...]
    results: Any = None
    by: str = ""

    def text(self) -> str:
        """The findings for a terminal."""
        return findings_text(self.findings, self.by)

    def verdicts(self) -> list[dict[str, str]]:
        """The findings for programs: name, context, verdict."""
        return [{"finding": f.name, "context": f.context, "verdict": f.verdict} for f in self.findings]


Builder = Callable[[Sequence[Evaluated], Benchmark, SweepRequest], SweepReport]


def sweep_report(models: Sequence[Evaluated], benchmark: Benchmark, **options: Any) -> SweepReport:
    """The report that fits a sweep's benchmark.

    Args:
        models: target on every split, retrained models on their own, unlearned ones; of one or several seeds and
            contexts.
        options: fields of :class:`SweepRequest`.

    Raises:
        InputError: see :class:`~medunlearn.papers.sweeps.models.SweepModels`.
    """
    known = names("sweep_reports", SWEEP_REPORTS)
    builder = benchmark.builder if benchmark.builder in known else "amnesia"
    report: Builder = resolve("sweep_reports", builder, known)
    return report(models, benchmark, SweepRequest(**options))


def folder_report(
    folder: Path,
    benchmark: Benchmark | None = None,
    *,
    title: str | None = None,
    show_text: bool = False,
    replicates: int | None = None,
    seed: int = 0,
) -> SweepReport:
    """The report of a sweep's folder, from what its ``sweep.json`` lists.

    Args:
        benchmark: that the sweep was run on; None: the one that its settings name, or that it built.
        title: None: the sweep's name.
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
    models = [
        Evaluated(Run.open(_inside(folder, cell["folder"])), Run.open(_inside(folder, cell["evaluation"])))
        for cell in cells
        if cell.get("kind") == "evaluate" and cell.get("folder") and cell.get("evaluation")
    ]
    evaluated, search = settings.get("evaluate") or {}, info.get("search")
    tried = search.get("tried") if isinstance(search, Mapping) else search
    return sweep_report(
        models,
        benchmark if benchmark is not None else Benchmark.load(_benchmark_folder(folder, settings)),
        title=title or str(info.get("name") or "Sweep"),
        missing=[(str(cell["name"]), str(cell.get("reason"))) for cell in cells if cell.get("status") in _LOST],
        search=pd.DataFrame(tried) if tried else None,
        show_text=show_text,
        replicates=replicates or int(evaluated.get("replicates", REPLICATES)),
        seed=seed,
    )


def _inside(folder: Path, recorded: str) -> Path:
    """A cell's folder where it was recorded; or in the sweep's folder, if that was moved since."""
    path = Path(recorded)
    moved = (folder.joinpath(*path.parts[place:]) for place in range(1, len(path.parts)))
    return next((place for place in (path, *moved) if place.exists()), path)


def _benchmark_folder(folder: Path, settings: Mapping[str, Any]) -> Path:
    named = (settings.get("benchmark") or {}).get("folder")
    if named:
        return Path(named)
    built = sorted(path.parent for path in folder.glob("bench-*/benchmark.yaml"))
    if len(built) != 1:
        raise InputError(f"{folder} holds {len(built)} benchmarks. Name the sweep's own: --benchmark.")
    return built[0]


def search_table(search: pd.DataFrame | None) -> Table | None:
    """The tried learning rates, one row each."""
    if search is None:
        return None
    columns = [name for name in _SEARCH if name in search.columns]
    rows = (tuple(Cell(_plain(row[name])) for name in columns) for row in rows_of(search))
    return records(map(Cell, columns), rows)


def _plain(value: Any) -> str:
    if isinstance(value, str):
        return value
    if type(value).__name__ in ("bool", "bool_"):
        return "chosen" if value else ""
    known = number(value)
    if known is None:
        return ABSENT
    return decimal(known) if abs(known) >= 0.001 or known == 0 else f"{known:.0e}"
