"""The report of runs, of a sweep, of a tuning or of audits: `medunlearn report`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from medunlearn.data.benchmark import Benchmark
from medunlearn.errors import InputError
from medunlearn.reports.blocks import Report
from medunlearn.reports.content import ReportContent
from medunlearn.reports.exports import check_formats
from medunlearn.reports.view import ResultView
from medunlearn.reports.write import free_folder, write_report
from medunlearn.results.runs import Run

TUNING, SWEEP = "tune.json", "sweep.json"


def report_content(
    runs: Sequence[Run | Path | str],
    out: Path | str,
    benchmark: Benchmark | Path | str | None = None,
    split: str | None = None,
    relations: Path | None = None,
    *,
    tables: str | Sequence[str] = (),
    figures: str | Sequence[str] = (),
    **options: Any,
) -> tuple[ResultView, Path]:
    """A report for the terminal, and its page; arguments as in :func:`medunlearn.api.report`."""
    formats = {"tables": _words(tables), "figures": _words(figures)}
    check_formats(**formats)
    page = free_folder(Path(out))
    view, report = _report(runs, benchmark, split, relations, options)
    return view, write_report(report, page, **formats)


def report_view(
    runs: Sequence[Run | Path | str],
    out: Path | str,
    benchmark: Benchmark | Path | str | None = None,
    split: str | None = None,
    relations: Path | None = None,
    **options: Any,
) -> ResultView:
    """A report for the terminal, with the place of its page; arguments as in :func:`medunlearn.api.report`."""
    view, page = report_content(runs, out, benchmark, split, relations, **options)
    return replace(view, data={"report": str(page), **view.data}, notes=[f"report: {page}"])


def _words(names: str | Sequence[str]) -> tuple[str, ...]:
    """Names with commas, or a list of them."""
    parts = [names] if isinstance(names, str) else names
    return tuple(name.strip() for part in parts for name in part.split(",") if name.strip())


def _report(
    runs: Sequence[Run | Path | str],
    benchmark: Benchmark | Path | str | None,
    split: str | None,
    relations: Path | None,
    options: dict[str, Any],
) -> tuple[ResultView, Report | ReportContent]:
    if isinstance(benchmark, (Path, str)):
        benchmark = Benchmark.load(benchmark)
    folders = [Path(run) if isinstance(run, (str, Path)) else run.folder for run in runs]
    if any((folder / SWEEP).exists() for folder in folders):
        return _sweeps(folders, benchmark, options)
    if any((folder / TUNING).exists() for folder in folders):
        if len(folders) > 1:
            raise InputError("A tuning has its own report: give only its folder.")
        from medunlearn.reports.tune_report import tuning_report
        from medunlearn.study.tune.tune_result import read_content

        tuning = read_content(folders[0])
        tuning = replace(tuning, title=options.get("title") or tuning.title)
        return tuning.view(), tuning_report(tuning)
    from medunlearn.papers.memorization.compare import audit_content, is_audit

    if any(map(is_audit, folders)):
        from medunlearn.papers.memorization.report import audit_report
        from medunlearn.papers.memorization.report.claims import audit_view

        audits = audit_content(folders, Path(relations) if relations else None, **options)
        return audit_view(audits), audit_report(audits)
    if relations is not None:
        raise InputError("--relations is only for runs of `medunlearn audit`, and there are none among the runs.")
    from medunlearn.judging.panel_run import split_runs
    from medunlearn.results.evaluated import Evaluated
    from medunlearn.study.report.gather import gather

    trained, judged = split_runs([Run.of(run) for run in runs])
    models = [Evaluated.find(run, split) for run in trained]
    title = options.pop("title", None) or "Unlearning report"
    content = gather(title, models, benchmark, judged=judged, **options)
    return content.view(), content


def _sweeps(
    folders: Sequence[Path], benchmark: Benchmark | None, options: Mapping[str, Any]
) -> tuple[ResultView, Report]:
    """The report of a sweep, or of two sweeps beside each other."""
    if len(folders) > 2 or not all((folder / SWEEP).exists() for folder in folders):
        raise InputError("A sweep has its own report: give its folder alone, or two sweeps to compare.")
    if len(folders) == 2:
        from medunlearn.papers.sweeps.versus import versus_report

        first, second = folders
        compared = versus_report(first, second, benchmark, **options)
        return compared.view(), compared.report()
    from medunlearn.papers.sweeps.report import folder_report

    swept = folder_report(folders[0], benchmark, **options)
    return swept.view(), swept.report
