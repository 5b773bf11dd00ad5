"""The report of a sweep, by its benchmark's paper, and the page layout shared by papers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pandas as pd

from medunlearn.data.benchmark import Benchmark
from medunlearn.data.storage import read_json
from medunlearn.errors import InputError
from medunlearn.paper import paper_of
from medunlearn.papers.paper_files import paper_yaml
from medunlearn.papers.sweeps.neutral import neutral_report
from medunlearn.papers.sweeps.results import SweepReport, SweepRequest, SweepResults
from medunlearn.papers.sweeps.tables import search_table
from medunlearn.registry import load
from medunlearn.reports.blocks import Notice, Parts, Prose, Report, Table, Text, blocks, details, section
from medunlearn.reports.claims import (
    FAILS,
    HOLDS,
    OPEN,
    Case,
    Finding,
    findings_data,
    statements,
    without_broken,
)
from medunlearn.reports.formatting import context_text
from medunlearn.reports.json import plain
from medunlearn.reports.provenance import provenance_data, provenance_section, undecided, without_drawn
from medunlearn.reports.unlearning import judged_section
from medunlearn.results.evaluated import Evaluated
from medunlearn.results.runs import Run, find_benchmark
from medunlearn.statistics.bootstrap import REPLICATES
from medunlearn.study.judge_stage import judged_runs
from medunlearn.study.report.gather_ratings import panel_part

FILE = "sweep.json"
_LOST = ("failed", "not run")


def finding(paper: str, name: str, cases: Sequence[Case], context: str = "") -> Finding:
    """A paper's finding; its claim and rule are in the paper's ``report.yaml``."""
    words = paper_yaml(paper, "report")["findings"][name]
    of_collapse = bool(words.get("of_collapse"))
    return Finding(name, words["claim"], words["rule"], tuple(cases), context, of_collapse=of_collapse)


def reopened(paper: str, findings: Sequence[Finding], results: SweepResults) -> tuple[Finding, ...]:
    """Findings with decided cases set to open that cannot be read: a model is broken, a retrained model failed its
    reference check, or forgetting is said of a model whose forgetting is not shown.

    The paper's ``report.yaml`` lists what a finding needs: ``against_retrained``, and ``says_forgotten``, the
    verdict that says of a model that it forgot.
    """
    words = paper_yaml(paper, "report")["findings"]

    def unreadable(case: Case, finding: Finding) -> str:
        own, at = words[finding.name], (case.labels, finding.context)
        says_forgotten = case.verdict == own.get("says_forgotten")
        refused = results.refused_in(*at) if own.get("against_retrained") or says_forgotten else ""
        return refused or (results.unproven_in(*at) if says_forgotten else "")

    def case_of(case: Case, finding: Finding) -> Case:
        reason = unreadable(case, finding) if case.verdict in (HOLDS, FAILS) else ""
        return replace(case, verdict=OPEN, says=f"cannot be read: {reason}") if reason else case

    checked = (replace(own, cases=tuple(case_of(case, own) for case in own.cases)) for own in findings)
    healthy = without_broken(checked, lambda case, context: results.broken_in(case.labels, context))
    return without_drawn(healthy, undecided(results.benchmark))


def sweep_page(
    paper: str,
    results: SweepResults,
    findings: tuple[Finding, ...],
    sections: Parts,
    data: Mapping[str, Any],
    *,
    how_to_read: Sequence[str],
    published: Parts,
    splits: Table | None,
    split_names: str,
    mode: str,
    drawn_for: str = "",
    splits_open: bool = False,
    by: str = "",
) -> SweepReport:
    """A paper's report: findings, its sections, the paper's numbers, splits and learning rates.

    Args:
        data: the paper's own part of ``report.json``.
        published: blocks with the paper's published results.
        split_names, mode, drawn_for: for the first screen: the splits, the label of the context modes, and the unit
            of resampling.
        splits_open: expand the table of splits, else that of learning rates.
    """
    text, request = paper_yaml(paper, "report"), results.request
    findings = reopened(paper, findings, results)
    missing_runs = tuple(f"{name}: {reason}" for name, reason in request.missing)
    notices = (("Read this first", results.caveats), ("Not in this report", missing_runs))
    setting = str(paper_yaml(paper, "published")["setting"])
    to_compare = f"{setting}: to compare with, not a target: another model, other patients, other questions."
    rates = details("Learning rates tried", search_table(request.search), opened=not splits_open)
    parts = blocks(
        (Notice(title, lines) for title, lines in notices if lines),
        section("Findings", Text(text["findings_about"]), statements(findings)),
        section("How to read this", Prose(tuple(how_to_read))),
        sections,
        judged_section(request.judged),
        section(
            "What the paper published",
            *(Text(to_compare), published),
            note=setting,
            name="published",
            raised=True,
        ),
        provenance_section(results.provenance, results.extractor),
        section("Appendix", details("Splits", splits, opened=splits_open), rates),
    )
    first = (
        ("Methods", ", ".join(results.methods) or "none"),
        ("Splits", split_names),
        ("Seeds", ", ".join(map(str, results.seeds))),
        ("Benchmark", f"{results.benchmark['name']}, data use: {results.benchmark['data_use']}"),
        (mode, "; ".join(map(context_text, results.contexts))),
        ("Intervals", f"95%, {request.replicates:,} bootstrap draws of patients{drawn_for}"),
    )
    content = {
        **{name: getattr(results, name) for name in ("benchmark", "methods", "seeds", "caveats", "contrasts")},
        "replicates": request.replicates,
        "splits": [asdict(split) for split in results.splits],
        "missing": [{"name": name, "reason": reason} for name, reason in request.missing],
        "findings": findings_data(findings),
        "provenance": provenance_data(results.provenance),
        "search": request.search,
        **data,
    }
    data, drawn = plain({k: _columns(v) for k, v in content.items()}), undecided(results.benchmark)
    page = Report(request.title, parts, "Sweep report", first, data, drawn=drawn)
    return SweepReport(page, findings, results, by)


def _columns(value: Any) -> Any:
    """A table as column -> values, a third of the size of a mapping per row; other values unchanged."""
    return {str(n): value[n].tolist() for n in value.columns} if isinstance(value, pd.DataFrame) else value


Builder = Callable[[Sequence[Evaluated], Benchmark, SweepRequest], SweepReport]


def sweep_report(models: Sequence[Evaluated], benchmark: Benchmark, **options: Any) -> SweepReport:
    """The report of a sweep: the page of its benchmark's paper, else the neutral one.

    Args:
        models: target on every split, retrained models on their own, unlearned ones; of one or several seeds and
            contexts.
        options: fields of :class:`~medunlearn.papers.sweeps.results.SweepRequest`.

    Raises:
        InputError: see :class:`~medunlearn.papers.sweeps.models.SweepModels`.
    """
    page = paper_of(benchmark.builder).sweep_page
    report: Builder = load(page) if page else neutral_report
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
    """The report of a sweep's folder, from the entries of its ``sweep.json``.

    Args:
        benchmark: the sweep's benchmark; None: that of its settings, or the one that it built.
        title: None: the sweep's name.
        replicates: None: as in the sweep's evaluations.

    Raises:
        InputError: the folder has no sweep, or its benchmark is not found.
    """
    path = folder / FILE
    if not path.exists():
        raise InputError(f"{folder} holds no sweep (no {FILE}). `medunlearn sweep --help` says how to run one.")
    info = read_json(path)
    cells, settings = info.get("cells"), info.get("settings")
    if not isinstance(cells, list) or not isinstance(settings, Mapping):
        raise InputError(f"{path} lists no cells and settings. Run the sweep's command again to rewrite the file.")
    models = [
        Evaluated(Run.open(_inside(folder, cell["folder"])), Run.open(_inside(folder, cell["evaluation"])))
        for cell in cells
        if cell.get("kind") == "evaluate" and cell.get("folder") and cell.get("evaluation")
    ]
    evaluated, trials = settings.get("evaluate") or {}, (info.get("search") or {}).get("tried")
    return sweep_report(
        models,
        benchmark if benchmark is not None else _benchmark(folder, settings, models),
        title=title or str(info.get("name") or "Sweep"),
        missing=[(str(cell["name"]), str(cell.get("reason"))) for cell in cells if cell.get("status") in _LOST],
        search=pd.DataFrame(trials) if trials else None,
        show_text=show_text,
        replicates=replicates or int(evaluated.get("replicates", REPLICATES)),
        seed=seed,
        judged=[panel_part(run) for run in judged_runs(folder)],
    )


def _inside(folder: Path, recorded: str) -> Path:
    """A cell's recorded folder, or the corresponding one if the sweep's folder was moved."""
    path = Path(recorded)
    moved = (folder.joinpath(*path.parts[place:]) for place in range(1, len(path.parts)))
    return next((place for place in (*moved, path) if place.exists()), path)


def _benchmark(folder: Path, settings: Mapping[str, Any], models: Sequence[Evaluated]) -> Benchmark:
    """The benchmark that the sweep's models were asked about, by its fingerprint."""
    recorded = (settings.get("benchmark") or {}).get("folder")
    if recorded:
        asked = next((model.record.info.benchmark for model in models), None)
        benchmark = find_benchmark(str(recorded), folder, asked)
        return benchmark if benchmark is not None else Benchmark.load(Path(recorded))
    built = sorted(path.parent for path in folder.glob("bench-*/benchmark.yaml"))
    if len(built) != 1:
        raise InputError(f"{folder} holds {len(built)} benchmarks. Name the sweep's own: --benchmark.")
    return Benchmark.load(built[0])
