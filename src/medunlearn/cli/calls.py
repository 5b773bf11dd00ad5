"""Calls of the command line that do more than one call of :mod:`medunlearn.api`, or have no place there."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from medunlearn import api
from medunlearn.config.reading import without_prefix
from medunlearn.errors import ConfigError, InputError, UnknownNameError

Say = Callable[[str], None]
DEMOS = ("amnesia", "audit")


def demo(
    what: str = "amnesia",
    *,
    out: Path | str = "demo",
    synthetic: int = 60,
    texts: int = 4,
    epochs: int = 4,
    seed: int = 0,
    device: str = "auto",
    quiet: bool = False,
    say: Say | None = None,
) -> Any:
    """
    Args:
        what: amnesia (forgetting patients) or audit (memorized texts)
        out: folder of everything that the demo makes
        synthetic: patients to invent
        texts: audit: texts of a kind and number of copies
        epochs: audit: passes over the training set
        seed: seed of everything random
    """
    if what not in DEMOS:
        raise UnknownNameError("demo", what, DEMOS)
    low = {"--synthetic": (synthetic, 20), "--texts": (texts, 2), "--epochs": (epochs, 2)}
    if problems := [f"{flag} must be at least {least}" for flag, (value, least) in low.items() if value < least]:
        raise ConfigError(problems)
    if what == "audit":
        from medunlearn.papers.memorization.demo import demo_audit

        return demo_audit(Path(out), each=texts, epochs=epochs, seed=seed, quiet=quiet)
    from medunlearn.pipeline.experiment import demo_experiment, run_experiment

    experiment = demo_experiment(Path(out), seed=seed, patients=synthetic)
    more: dict[str, Any] = {} if say is None else {"say": say}
    return run_experiment(experiment, device=device, quiet=quiet, **more)


def inspect(folder: Path | str, *, tables: bool = False, tokenizer: str | None = None) -> Any:
    """
    Args:
        folder: a benchmark or a run
        tables: sizes, lengths and splits of a benchmark, as AMNESIA's Tables 1, 4, 5
        tokenizer: count the tokens of this folder, run or hub id in the tables; none: words
    """
    from medunlearn.data.benchmark import MANIFEST
    from medunlearn.data.storage import read_json

    where, wanted = Path(folder), tables or tokenizer is not None
    if (where / MANIFEST).exists():
        benchmark = api.load(where)
        return (benchmark, api.inspect(benchmark, tokenizer=tokenizer)) if wanted else benchmark
    if wanted:
        raise InputError(f"{where} is no benchmark (no {MANIFEST}); --tables and --tokenizer are for benchmarks.")
    if (where / "run.json").exists():
        return read_json(where / "run.json")
    raise InputError(f"{where} is neither a benchmark (no {MANIFEST}) nor a run (no run.json).")


def run(
    experiment: Path | str,
    *,
    plan: bool = False,
    device: str = "auto",
    quiet: bool = False,
    say: Say | None = None,
    **settings: Any,
) -> Any:
    """
    Args:
        experiment: YAML file of the experiment
        plan: print stages, tokens, FLOPs, memory and what is done; run nothing
    """
    if plan:
        return api.plan(experiment, device=device, **settings)
    return api.run(experiment, device=device, quiet=quiet, say=say, **settings)


def sweep(
    sweep: Path | str,
    *,
    plan: bool = False,
    jobs: int | None = None,
    device: str = "auto",
    quiet: bool = False,
    say: Say | None = None,
    **settings: Any,
) -> Any:
    """
    Args:
        sweep: YAML file of the sweep
        plan: print the cells, what is done and what is left; run nothing
        jobs: cells at the same time; none: one a GPU, or one a core
    """
    if jobs is not None and jobs < 1:
        raise ConfigError(["--jobs must be at least 1"])
    if "seed" in settings:
        settings["seeds"] = ()
    if plan:
        from medunlearn.config import merge, read_yaml
        from medunlearn.pipeline.sweep.plan import plan as checked
        from medunlearn.pipeline.sweep.survey import foresee

        return foresee(checked(merge(read_yaml(Path(sweep)), settings)))
    return api.sweep(sweep, jobs=jobs, device=device, quiet=quiet, say=say, **settings)


def report(
    runs: Sequence[Path],
    *,
    out: Path,
    benchmark: Path | None = None,
    split: str | None = None,
    title: str | None = None,
    show_text: bool = False,
    relations: Path | None = None,
    seed: int = 0,
) -> Any:
    """
    Args:
        runs: runs evaluated on one split, with runs of `judge` on their benchmark; a sweep's folder; or audits
        out: folder of the report
        benchmark: for examples of answers, LUME's findings, TOFU's measures
        split: which evaluation, if there are several
        title: title of the report
        show_text: show text of real records (invented ones are always shown)
        relations: audits: YAML that says which model is which to which (docs/audit.md)
        seed: seed of the bootstrap
    """
    folders, page = [Path(run) for run in runs], Path(out)
    _check_report(page)
    how = {"title": title, "show_text": show_text, "seed": seed}
    if any((run / "sweep.json").exists() for run in folders):
        if len(folders) > 1:
            raise InputError("A sweep is reported by itself: give its folder alone.")
        from medunlearn.papers.sweeps.report import folder_report
        from medunlearn.reports.write import write_report as write_sweep

        bench = api.load(benchmark) if benchmark else None
        swept = folder_report(folders[0], bench, **how)  # type: ignore[arg-type]
        return swept, write_sweep(swept.report, page)
    from medunlearn.papers.memorization.compare import audit_content, is_audit

    if any(is_audit(run) for run in folders):
        from medunlearn.papers.memorization.report import audit_report
        from medunlearn.reports.write import write_report as write_page

        audits = audit_content(folders, Path(relations) if relations else None, **how)  # type: ignore[arg-type]
        return audits, write_page(audit_report(audits), page)
    if relations is not None:
        raise InputError("--relations goes with runs of `medunlearn audit`, and there is none among the runs.")
    from medunlearn.judging.run import split_runs
    from medunlearn.pipeline.report.gather import gather
    from medunlearn.reports.write import write_report
    from medunlearn.results.evaluated import Evaluated
    from medunlearn.results.runs import Run

    trained, judged = split_runs([Run.open(run) for run in folders])
    models = [Evaluated.find(run, split) for run in trained]
    bench = api.load(benchmark) if benchmark else None
    content = gather(title or "Unlearning report", models, bench, judged=judged, show_text=show_text, seed=seed)
    return content, write_report(content, page)


def _check_report(out: Path) -> None:
    if out.suffix in (".html", ".md", ".json"):
        raise InputError(f"A report is a folder of three files: give --out {out.with_suffix('')}, not {out}.")
    if out.exists() and not out.is_dir():
        raise InputError(f"{out} is a file, not a folder. Choose another --out.")
    if (out / "benchmark.yaml").exists() or (out / "run.json").exists():
        raise InputError(f"{out} holds a benchmark or a run. Choose another --out.")


def judge(
    what: Path,
    *,
    llm: str | Mapping[str, Any],
    task: str | None = None,
    benchmark: Path | None = None,
    out: Path | None = None,
    dry_run: bool = False,
    again: bool = False,
    allow_missing: bool = False,
    allow_remote_llm: bool = False,
    quiet: bool = False,
    **settings: Any,
) -> Any:
    """
    Args:
        what: a benchmark, an evaluated run, or a table (.csv, .jsonl, .parquet)
        llm: a server's address, or a YAML file with several judges
        task: label, question or factuality; of a run always factuality
        benchmark: of a run: the benchmark that it was evaluated on
        out: folder of the result; of a run, its own folder is taken
        dry_run: count requests, tokens and cost; send and write nothing
        again: ask again what ended without a usable answer
        allow_missing: finish though judgements are missing
        allow_remote_llm: permit sending protected data to servers off this machine
    """
    from medunlearn.config import JudgeSettings, check
    from medunlearn.judging.judges import judges_of
    from medunlearn.judging.responses import job

    server = without_prefix("llm.", settings)
    judges = judges_of(str(llm), server.pop("model", None), server)
    work = job(what, judges, check(JudgeSettings, settings), task, benchmark, out)
    if dry_run:
        return work.plan(permitted=allow_remote_llm)
    return work.run(permitted=allow_remote_llm, again=again, allow_missing=allow_missing, quiet=quiet)


def _server(llm: object, settings: dict[str, Any], dry_run: bool) -> dict[str, Any]:
    """Settings of the judge's server, taken out of the others."""
    server = without_prefix("llm.", settings)
    if llm is None and (server or dry_run):
        raise ConfigError(["--llm is missing: the server whose model judges"])
    return server


def find_identifiers(
    responses: Path,
    *,
    records: Path | None = None,
    out: Path | None = None,
    llm: str | Mapping[str, Any] | None = None,
    dry_run: bool = False,
    again: bool = False,
    allow_missing: bool = False,
    allow_remote_llm: bool = False,
    show_text: bool = False,
    quiet: bool = False,
    **settings: Any,
) -> Any:
    """
    Args:
        responses: a table of responses (.csv, .jsonl, .parquet), or an audit's folder
        records: benchmark with the records; none: the table's own `text`
        out: folder of the tables; none: the audit's own
        llm: a judge's server as well, with /v1
        dry_run: count the judge's requests, tokens and cost; send and write nothing
        again: ask again what ended without a usable answer
        allow_missing: finish though the server left answers missing
        allow_remote_llm: permit sending text of records to a server off this machine
        show_text: show examples unmasked
    """
    from medunlearn.audit.identifiers.search import read_source
    from medunlearn.audit.identifiers.sensitive_judge import plan_sensitive
    from medunlearn.audit.judge import audit_judge
    from medunlearn.config import check
    from medunlearn.config.identifiers import IdentifierSettings

    server = _server(llm, settings, dry_run)
    model, checked = server.pop("model", None), check(IdentifierSettings, settings)
    bench, folder = (None if path is None else Path(path) for path in (records, out))
    search = read_source(Path(responses), bench, checked, folder, show_text=show_text, quiet=quiet)
    if llm is None:
        return search.run()
    judge = audit_judge(
        str(llm),
        model,
        search.folder,
        data_use=search.data_use,
        records=search.records,
        overrides=server,
        permitted=allow_remote_llm,
        again=again,
        allow_missing=allow_missing,
    )
    if dry_run:
        return plan_sensitive(search.outputs, search.records, checked, judge), judge.decision
    return search.run(judge)


def review_identifiers(
    folder: Path, *, out: Path, limit: int = 200, least_rouge: float = 0.2, seed: int = 0
) -> Any:
    """
    Args:
        folder: folder that `audit identifiers find` wrote
        out: folder of the review
        limit: responses to review at most
        least_rouge: ROUGE-L with the record above this
        seed: seed of the sample
    """
    from medunlearn.audit.identifiers.search import IdentifierSearch

    _at_least(1, limit)
    return IdentifierSearch.open(Path(folder)).review(Path(out), number=limit, least_rouge=least_rouge, seed=seed)


def correct_identifiers(folder: Path, sheets: Sequence[Path] = ()) -> Any:
    """
    Args:
        folder: folder of the review
        sheets: sheets that were filled in; none: the folder's
    """
    from medunlearn.audit.identifiers.review import read_review

    return read_review(Path(folder), [Path(sheet) for sheet in sheets])


def detector_recall(
    *, detector: str = "patterns", labelled: Path | None = None, synthetic: int = 200, seed: int = 0
) -> Any:
    """
    Args:
        detector: patterns, presidio, tagger:FOLDER, module:Class
        labelled: labelled text: rows of text and spans; none: invented notes
        synthetic: notes to invent
        seed: seed of the notes and of the bootstrap
    """
    from medunlearn.audit.identifiers.detectors import make_detector
    from medunlearn.audit.identifiers.recall import detector_recall, invented_notes, read_labelled

    if not 2 <= synthetic <= 8000:
        raise ConfigError(["--synthetic must be from 2 to 8000"])
    texts = read_labelled(Path(labelled)) if labelled else invented_notes(synthetic, seed=seed)
    return detector_recall(make_detector(detector), texts, seed=seed), len(texts)


def find_kinds(
    audit: Path,
    *,
    corpus: Sequence[str] = (),
    llm: str | Mapping[str, Any] | None = None,
    dry_run: bool = False,
    again: bool = False,
    allow_missing: bool = False,
    allow_remote_llm: bool = False,
    quiet: bool = False,
    **settings: Any,
) -> Any:
    """
    Args:
        audit: folder of an audit
        corpus: PATH or NAME=PATH: count set phrases in the whole corpus; repeatable
        llm: a judge's server as well, with /v1
        dry_run: count the judge's requests, tokens and cost; send and write nothing
        again: ask again what ended without a usable answer
        allow_missing: finish though the server left answers missing
        allow_remote_llm: permit sending text of records to a server off this machine
    """
    from medunlearn.audit.kinds.sorting import plan_kinds
    from medunlearn.audit.kinds.summary import find_kinds, kind_settings, kinds_judge
    from medunlearn.audit.tables import read_tables

    server = _server(llm, settings, dry_run)
    folder, judge, model = Path(audit), None, server.pop("model", None)
    checked = kind_settings(folder, settings)
    if llm is not None:
        how = {"permitted": allow_remote_llm, "again": again, "allow_missing": allow_missing}
        judge = kinds_judge(folder, str(llm), model, overrides=server, **how)
    if judge is not None and dry_run:
        return plan_kinds(read_tables(folder), checked, judge), judge.decision
    return find_kinds(folder, checked, corpora=list(corpus), judge=judge, quiet=quiet)


def review_kinds(audit: Path, *, out: Path, limit: int | None = None, seed: int = 0) -> Any:
    """
    Args:
        audit: folder of an audit
        out: the CSV
        limit: spans to draw at most; none: all
        seed: seed of the sample
    """
    from medunlearn.audit.kinds.sorting import settings_of, span_sheet
    from medunlearn.audit.tables import read_tables

    _at_least(1, limit)
    folder = Path(audit)
    return Path(out), span_sheet(read_tables(folder), settings_of(folder), Path(out), sample=limit, seed=seed)


def correct_kinds(audit: Path, sheets: Sequence[Path]) -> Any:
    """
    Args:
        audit: folder of an audit
        sheets: sheets that were filled in
    """
    from medunlearn.audit.kinds.sorting import read_spans, settings_of
    from medunlearn.audit.kinds.summary import KindSummary
    from medunlearn.audit.tables import read_tables

    folder = Path(audit)
    read_spans(read_tables(folder), settings_of(folder), *map(Path, sheets))
    return KindSummary.open(folder)


def listed(what: str) -> Any:
    """
    Args:
        what: methods, measures, attacks, benchmarks, sources, papers, tasks or presets
    """
    from medunlearn.cli.listing import TABLES

    if what not in TABLES:
        raise UnknownNameError("list", what, TABLES)
    return what, TABLES[what]()


def _at_least(least: int, limit: int | None) -> None:
    if limit is not None and limit < least:
        raise ConfigError([f"--limit must be at least {least}"])
