"""``medunlearn report``: tables and figures of what is in runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from medunlearn.cli.common import Json, Quiet, ending, print_json, sayer
from medunlearn.errors import InputError

EPILOG = (
    "Example: `medunlearn report runs/target runs/retrained runs/npo --benchmark bench/ --out report/`\n\n"
    "Of a sweep: `medunlearn report runs/sweep --out report/`\n\n"
    "Of audits: `medunlearn report runs/audit runs/audit-base --relations relations.yaml --out report/`"
)


@ending
def command(
    runs: Annotated[
        list[Path],
        typer.Argument(
            help="Runs evaluated on one split, and runs of `judge` on their benchmark; the folder of a sweep; or "
            "runs of `audit`."
        ),
    ],
    out: Annotated[Path, typer.Option("--out", help="Folder of the report.")],
    benchmark: Annotated[
        Path | None,
        typer.Option(
            "--benchmark", help="The benchmark: for examples of answers, LUME's findings, TOFU's measures."
        ),
    ] = None,
    split: Annotated[str | None, typer.Option("--split", help="Which evaluation, if there are several.")] = None,
    title: Annotated[str | None, typer.Option("--title", help="Title of the report.")] = None,
    show_text: Annotated[
        bool, typer.Option("--show-text", help="Show text of real records (invented ones are always shown).")
    ] = False,
    relations: Annotated[
        Path | None,
        typer.Option(
            "--relations", help="Of audits: YAML that says which model is what to which (docs/audit_report.md)."
        ),
    ] = None,
    seed: Annotated[int, typer.Option("--seed", help="Seed of the bootstrap.")] = 0,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Write report.html, report.md and report.json from evaluated runs."""
    from medunlearn.data.benchmark import Benchmark
    from medunlearn.judging.run import split_runs
    from medunlearn.papers.memorization.compare import is_audit
    from medunlearn.pipeline.report.gather import gather
    from medunlearn.reports.claims import findings_text
    from medunlearn.reports.write import write_report
    from medunlearn.results.evaluated import Evaluated
    from medunlearn.results.runs import Run

    _check_out(out)
    if any((run / "sweep.json").exists() for run in runs):
        _report_sweep(runs, out, benchmark, title, seed, show_text=show_text, quiet=quiet, as_json=json)
        return
    if any(is_audit(run) for run in runs):
        _report_audits(runs, out, relations, title, seed, show_text=show_text, quiet=quiet, as_json=json)
        return
    if relations is not None:
        raise InputError("--relations goes with runs of `medunlearn audit`, and there is none among the runs.")
    trained, judged = split_runs([Run.open(run) for run in runs])
    models = [Evaluated.find(run, split) for run in trained]
    loaded = Benchmark.load(benchmark) if benchmark else None
    title = title or "Unlearning report"
    content = gather(title, models, loaded, judged=judged, show_text=show_text, seed=seed)
    page = write_report(content, out)
    if json:
        found = [{"finding": one.name, "verdict": one.verdict} for one in content.paper.findings]
        print_json({"report": str(page), **({"findings": found} if found else {})})
        return
    if not quiet and (said := findings_text(content.paper.findings)):
        print(said)
    sayer(quiet, json)(f"report: {page}")


def _report_sweep(
    runs: list[Path],
    out: Path,
    benchmark: Path | None,
    title: str | None,
    seed: int,
    *,
    show_text: bool,
    quiet: bool,
    as_json: bool,
) -> None:
    from medunlearn.data.benchmark import Benchmark
    from medunlearn.papers.amnesia.swept.folder import gather_folder
    from medunlearn.papers.amnesia.swept.reporting import findings_text, verdicts, write_report

    if len(runs) > 1:
        raise InputError("A sweep is reported by itself: give its folder alone.")
    loaded = Benchmark.load(benchmark) if benchmark else None
    content = gather_folder(runs[0], loaded, title=title, show_text=show_text, seed=seed)
    page = write_report(content, out)
    if as_json:
        print_json({"report": str(page), "findings": verdicts(content)})
        return
    say = sayer(quiet, as_json)
    if not quiet:
        print(findings_text(content))
    say(f"report: {page}")


def _report_audits(
    runs: list[Path],
    out: Path,
    relations: Path | None,
    title: str | None,
    seed: int,
    *,
    show_text: bool,
    quiet: bool,
    as_json: bool,
) -> None:
    from medunlearn.papers.memorization.compare import audit_content
    from medunlearn.papers.memorization.report import findings, findings_text, write_audit_content

    content = audit_content(runs, relations, title=title, show_text=show_text, seed=seed)
    page = write_audit_content(content, out)
    if as_json:
        verdicts = [{"finding": one.name, "verdict": one.verdict, **one.counts} for one in findings(content)]
        print_json({"report": str(page), "findings": verdicts})
        return
    if not quiet:
        print(findings_text(content))
    sayer(quiet, as_json)(f"report: {page}")


def _check_out(out: Path) -> None:
    if out.suffix in (".html", ".md", ".json"):
        raise InputError(f"A report is a folder of three files: give --out {out.with_suffix('')}, not {out}.")
    if out.exists() and not out.is_dir():
        raise InputError(f"{out} is a file, not a folder. Choose another --out.")
    if (out / "benchmark.yaml").exists() or (out / "run.json").exists():
        raise InputError(f"{out} holds a benchmark or a run. Choose another --out.")
