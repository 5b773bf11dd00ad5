"""Calls of the command line that combine several calls of :mod:`medunlearn.api`, or have no counterpart there."""

from __future__ import annotations

import inspect as inspection
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from medunlearn import api
from medunlearn.config import check
from medunlearn.config.clinical_notes import NoteColumnFields
from medunlearn.config.reading import without_prefix
from medunlearn.errors import ConfigError, InputError, SourceError, UnknownNameError
from medunlearn.paper import from_papers
from medunlearn.registry import load
from medunlearn.result_view import ResultView

Say = Callable[[str], None]
FORGET_DEMO = "medunlearn.request.forget_demo:run_demo"


def demo(
    what: str | None = None, *, out: Path | str = "demo", model: str | None = None, synthetic: int | None = None,
    texts: int | None = None, epochs: int | None = None, seed: int = 0, device: str = "auto", quiet: bool = False,
    open: bool = True, say: Say = lambda line: None  # noqa: A002
) -> Any:  # fmt: skip
    """
    Args:
        what: amnesia (methods that forget a tenth of the patients), audit (memorized texts) or forget (one request)
        out: folder of everything that the demo makes
        model: amnesia: the model that learns the hospital: tiny, smollm2, or a folder; its time is told
        synthetic: amnesia, forget: patients to invent; none: 60 (a pretrained model: 12), forget 12
        texts: audit: texts of a kind and number of copies; none: 4
        epochs: audit, forget: passes over the training set; none: 4, forget 30
        open: open the report in a browser; forget has none to open
    """
    demos = {**from_papers("demos"), "forget": FORGET_DEMO}
    what = next(iter(demos)) if what is None else what
    if what not in demos:
        raise UnknownNameError("demo", what, demos)
    run_demo = load(demos[what])
    flags = {"model": model, "synthetic": synthetic, "texts": texts, "epochs": epochs}
    flags = {name: value for name, value in flags.items() if value is not None}
    parameters = inspection.signature(run_demo).parameters
    if unknown := [f"--{name}" for name in flags if name not in parameters]:
        raise InputError(f"{', '.join(unknown)}: not of `medunlearn demo {what}`. See `medunlearn demo --help`.")
    how = {"seed": seed, "device": device, "quiet": quiet, "say": say}
    result = run_demo(Path(out), **flags, **{name: value for name, value in how.items() if name in parameters})
    # Without a screen the opener of Linux fails in several lines; the page's path is printed in any case.
    screen = sys.platform != "linux" or "DISPLAY" in os.environ or "WAYLAND_DISPLAY" in os.environ
    if open and screen and not quiet and demos[what] != FORGET_DEMO:
        import click

        click.launch(str(result.report))
    return result


def inspect(
    folder: Path | str, *, tables: bool = False, tokenizer: str | None = None,
    all: bool = False, **columns: Any  # noqa: A002
) -> Any:  # fmt: skip
    """
    Args:
        folder: a benchmark or a run; or notes: a table, FHIR, XML, a folder of them or of text files, hub:org/name
        tables: sizes, lengths and splits of a benchmark, as AMNESIA's Tables 1, 4, 5
        tokenizer: count the tokens of this folder, run or hub id in the tables; none: words
        all: of an audit also its settings and every measure
    """
    from medunlearn.data.benchmark import MANIFEST
    from medunlearn.data.storage import read_json
    from medunlearn.study.result_views import benchmark_view, description_view, run_view

    where, sized = Path(folder), tables or tokenizer is not None
    if (where / MANIFEST).exists():
        benchmark = api.load(where)
        if sized:
            return description_view(benchmark, api.inspect(benchmark, tokenizer=tokenizer))
        return benchmark_view(benchmark)
    if sized:
        raise InputError(
            f"{where} is not a benchmark (no {MANIFEST}); --tables and --tokenizer are for benchmarks."
        )
    if (where / "run.json").exists():
        return run_view(read_json(where / "run.json"), where, whole=all)
    from medunlearn.notes.note_inspection import inspect_notes

    try:
        return inspect_notes(folder, check(NoteColumnFields, columns))
    except SourceError as error:
        if where.is_dir():
            words = f"{where} is neither a benchmark (no {MANIFEST}) nor a run, nor notes: {error}"
            raise SourceError(words) from None
        raise


def audit(
    model: Path | str | None = None, corpus: Sequence[Path | str] | Path | str = (), *, out: Path | str,
    responses: Path | str | None = None, references: Path | str | None = None,
    baseline: Sequence[Path | str] | Path | str = (), model_name: str | None = None,
    llm: Mapping[str, Any] | None = None, allow_remote_llm: bool = False,
    label: str | None = None, device: str = "auto", quiet: bool = False, **settings: Any
) -> Any:  # fmt: skip
    """Measure what a model repeats verbatim of texts that it may have been trained on. Resumes.

    Args:
        model: run, model folder, hub id, or a server's address with /v1
        corpus: texts, PATH or NAME=PATH: text files or a folder of them, CSV, JSONL, Parquet, or a benchmark folder
        out: folder of the audit
        responses: stored responses instead of MODEL and CORPUS: a table, Inspect log, lm-eval samples, batch output
        references: table with custom_id (or record_id), prefix and suffix, for responses without them
        baseline: model, NAME@http://HOST/v1, table of responses or audit to compare with; repeatable
        model_name: the model as the server calls it
        llm: settings of the server: llm.concurrency, ... (docs/servers.md)
        label: name of the model in tables

    Raises:
        ConfigError: wrong settings, all at once.
        InputError: a corpus, file or model that cannot be used.
    """
    from medunlearn.audit.audit_run import audit

    server = {**(llm or {}), **without_prefix("llm.", settings)}
    return audit(
        model, corpus, out=out, responses=responses, references=references, baseline=baseline,
        model_name=model_name, llm=server or None,
        allow_remote_llm=allow_remote_llm, label=label, device=device, quiet=quiet, **settings,
    )  # fmt: skip


def keywords(
    benchmark: Path | str, *, extractor: str = "offline", out: Path | str | None = None, quiet: bool = False
) -> Any:  # fmt: skip
    """Find each question's disease keywords, which the leakage score (LS) looks for in responses. Resumes.

    Args:
        extractor: offline, scispacy (en_core_sci_lg), or module:Class
        out: the Parquet file; none: keywords/ in the benchmark folder
    """
    from medunlearn.metrics.leakage.keywords import keywords
    from medunlearn.study.result_views import keywords_view

    return keywords_view(keywords(api.load(benchmark), extractor=extractor, out=out, quiet=quiet), extractor)


def plan_training(
    benchmark: Path | str, *, model: str, out: Path | str | None = None, preset: str | None = None,
    device: str = "auto", **settings: Any
) -> Any:  # fmt: skip
    """Price of a `train` run."""
    from medunlearn.study.plans.run_forecast import forecast_training
    from medunlearn.study.presets import train_settings

    checked = train_settings({"model": model, **({"preset": preset} if preset else {}), **settings})
    return forecast_training(api.load(benchmark), checked, None if out is None else Path(out), device)


def plan_unlearning(
    target: Path | str, benchmark: Path | str, *, split: str, method: str, out: Path | str | None = None,
    preset: str | None = None, device: str = "auto", **settings: Any
) -> Any:  # fmt: skip
    """Price of an `unlearn` run."""
    from medunlearn.config.reading import flat
    from medunlearn.results.runs import Run
    from medunlearn.study.plans.run_forecast import forecast_unlearning
    from medunlearn.study.presets import tiny_preset, unlearn_settings
    from medunlearn.study.sized_defaults import fit_to_model

    values = {"method": method, "split": split, **({"preset": preset} if preset else {}), **flat(settings, method)}
    checked = unlearn_settings(values, tiny=tiny_preset(target), shared=False)
    folder = None if out is None else Path(out)
    run, bench = Run.open(target), api.load(benchmark)
    checked = fit_to_model(checked, run.info.results.get("parameters"), bench)
    return forecast_unlearning(run, bench, checked, folder, device)


def plan_evaluation(
    run: Path | str, benchmark: Path | str, *, split: str | None = None, against: Sequence[Path | str] = (),
    epoch: int | None = None, out: Path | str | None = None, device: str = "auto", **settings: Any
) -> Any:  # fmt: skip
    """Price of what `evaluate` has not done yet."""
    from medunlearn.config import EvaluateSettings, check
    from medunlearn.results.runs import Run
    from medunlearn.study.plans.run_forecast import forecast_evaluation

    checked = check(EvaluateSettings, {**({} if split is None else {"split": split}), **settings})
    models = [Run.open(model) for model in (run, *against)]
    models[0] = models[0] if epoch is None else models[0].epoch(epoch)
    return forecast_evaluation(models, api.load(benchmark), checked, device)


def plan_sweep(sweep: Path | str, *, jobs: int | None = None, device: str = "auto", **settings: Any) -> Any:
    """Pending cells of a sweep and their cost, whatever ``jobs`` is."""
    from medunlearn.study.sweep.survey import foresee
    from medunlearn.study.sweep.sweep_plan import plan_from

    return foresee(plan_from(sweep, jobs, settings), device=device)


def plan_tuning(tuning: Path | str, *, jobs: int | None = None, device: str = "auto", **settings: Any) -> Any:
    """Trials, models and questions of a tuning, whatever ``jobs`` is."""
    from medunlearn.study.tune.tune_cost import foresee
    from medunlearn.study.tune.tune_plan import plan_from

    return foresee(plan_from(tuning, jobs, settings), device=device)


def plan_request(
    model: Path | str, notes: Path | str, *, out: Path | str, device: str = "auto", **settings: Any
) -> Any:
    """Stages, questions, tokens and FLOPs of a deletion request."""
    from medunlearn.config import ForgetSettings, check
    from medunlearn.config.reading import merge
    from medunlearn.request.verifying_attacks import with_battery

    checked = with_battery(check(ForgetSettings, merge({}, settings)))
    from medunlearn.request.forget_plan import foresee

    return foresee(model, Path(notes), checked, Path(out), device=device)


def plan_judging(
    what: Path, *, llm: str, task: str | None = None, benchmark: Path | None = None, out: Path | None = None,
    allow_remote_llm: bool = False, again: bool = False, allow_missing: bool = False, **settings: Any
) -> Any:  # fmt: skip
    """Requests, tokens and cost of ``judge``, whatever ``allow_missing`` is."""
    from medunlearn.study.judging_jobs import job_of

    job = job_of(what, llm, None, task, benchmark, out, **settings)
    return job.plan(permitted=allow_remote_llm, again=again)


def _judge_options(
    settings: dict[str, Any], llm: object, dry_run: bool, **options: Any
) -> tuple[str | None, dict[str, Any]]:
    """The judge server's model, and the judge's options; its settings are removed from ``settings``."""
    server = without_prefix("llm.", settings)
    if llm is None and (server or dry_run):
        raise ConfigError(["--llm is missing: the server whose model judges"])
    return server.pop("model", None), {"overrides": server, **options}


def find_identifiers(
    responses: Path, *, records: Path | None = None, out: Path | None = None,
    llm: str | Mapping[str, Any] | None = None, dry_run: bool = False, again: bool = False,
    allow_missing: bool = False, allow_remote_llm: bool = False, show_text: bool = False, quiet: bool = False,
    **settings: Any
) -> Any:  # fmt: skip
    """
    Args:
        responses: a table of responses (.csv, .jsonl, .parquet), or an audit's folder
        records: benchmark with the records; none: the table's own `text`
        out: folder of the tables; none: the audit's own
        show_text: show examples unmasked
    """
    from medunlearn.audit.identifiers.search import read_source
    from medunlearn.audit.identifiers.sensitive_judge import plan_sensitive
    from medunlearn.audit.judge import JudgePreview, audit_judge
    from medunlearn.config import check
    from medunlearn.config.audit import IdentifierSettings

    how = {"permitted": allow_remote_llm, "again": again, "allow_missing": allow_missing}
    model, options = _judge_options(settings, llm, dry_run, **how)
    checked = check(IdentifierSettings, settings)
    bench, folder = (None if path is None else Path(path) for path in (records, out))
    search = read_source(Path(responses), bench, checked, folder, show_text=show_text, quiet=quiet)
    if llm is None:
        return search.run()
    source: dict[str, Any] = {"data_use": search.data_use, "records": search.records}
    judge = audit_judge(str(llm), model, search.folder, **source, **options)
    if dry_run:
        return JudgePreview(plan_sensitive(search.outputs, search.records, checked, judge), judge.decision)
    return search.run(judge)


def review_identifiers(
    folder: Path, *, out: Path, limit: int = 200, least_rouge: float = 0.2, seed: int = 0
) -> ResultView:
    """
    Args:
        folder: folder that `audit identifiers find` wrote, or an audit with --identifiers
        out: folder of the review
        limit: responses to review at most
        least_rouge: ROUGE-L with the record above this
        seed: seed of the sample
    """
    from medunlearn.audit.audit_tables import is_audit
    from medunlearn.audit.identifiers.review import refuse_sheet
    from medunlearn.audit.identifiers.search import FILE, IdentifierSearch
    from medunlearn.audit.optional_stages import review_audit

    _refuse_zero(limit)
    refuse_sheet(Path(out))
    sampling: dict[str, Any] = {"number": limit, "least_rouge": least_rouge, "seed": seed}
    if is_audit(Path(folder)) and not (Path(folder) / FILE).exists():
        return _sheet(review_audit(Path(folder), Path(out), **sampling))
    return _sheet(IdentifierSearch.open(Path(folder)).review(Path(out), **sampling))


def _sheet(path: Path, **facts: int) -> ResultView:
    """The place of a sheet for people, and the number of its parts."""
    numbers = "".join(f" {number} {what};" for what, number in facts.items())
    return ResultView(
        {"sheet": str(path), **facts},
        notes=[f"{path}:{numbers} it holds text of records; keep it where those may be"],
    )


def correct_identifiers(folder: Path, sheets: Sequence[Path] = ()) -> ResultView:
    """
    Args:
        folder: folder of the review
        sheets: sheets that were filled in; none: the folder's
    """
    from medunlearn.audit.identifiers.recall import share_table
    from medunlearn.audit.identifiers.review import read_review

    counts = read_review(Path(folder), list(map(Path, sheets)))
    columns = ("kind", "found", "confirmed", "rejected", "open", "missed", "corrected")
    return ResultView(counts, [share_table("corrected counts", counts, columns)])


def detector_recall(
    *, detector: Sequence[str] = ("patterns",), labelled: str | None = None, synthetic: int = 200, seed: int = 0
) -> ResultView:
    """
    Args:
        detector: patterns, presidio, tagger:FOLDER, gliner:FOLDER, module:Class; several (a,b): also together
        labelled: rows of text and spans; fresh, held-out or development: ours in styles; none: invented notes
        synthetic: notes to invent
        seed: seed of the notes and of the bootstrap
    """
    from medunlearn.audit.identifiers.detectors import cached, make_detector, parts_of
    from medunlearn.audit.identifiers.labelled_notes import half_of, invented_notes, labelled_texts
    from medunlearn.audit.identifiers.recall import (
        detector_overlap,
        detector_recall,
        recall_by_style,
        recall_view,
    )

    if not 2 <= synthetic <= 8000:
        raise ConfigError(["--synthetic must be from 2 to 8000"])
    texts = labelled_texts(str(labelled)) if labelled else invented_notes(synthetic, seed=seed)
    united = cached(make_detector(",".join([detector] if isinstance(detector, str) else detector)))
    detectors = {**parts_of(united), united.name: united}
    tables = {name: detector_recall(part, texts, seed=seed) for name, part in detectors.items()}
    versions = {name: part.version for name, part in detectors.items()}
    half = half_of(labelled or "")
    styles = None if half is None else recall_by_style(united, half)
    return recall_view(tables, versions, detector_overlap(united, texts), styles, len(texts))


def find_kinds(
    audit: Path, *, corpus: Sequence[str] = (), llm: str | Mapping[str, Any] | None = None,
    dry_run: bool = False, again: bool = False, allow_missing: bool = False, allow_remote_llm: bool = False,
    quiet: bool = False, **settings: Any
) -> Any:  # fmt: skip
    """
    Args:
        corpus: PATH or NAME=PATH: count set phrases in the whole corpus; repeatable
    """
    from medunlearn.audit.audit_tables import read_tables
    from medunlearn.audit.judge import JudgePreview
    from medunlearn.audit.kinds.kind_summary import find_kinds, kind_settings, kinds_judge
    from medunlearn.audit.kinds.sorting import plan_kinds

    how = {"permitted": allow_remote_llm, "again": again, "allow_missing": allow_missing}
    model, options = _judge_options(settings, llm, dry_run, **how)
    folder, checked = Path(audit), kind_settings(Path(audit), settings)
    judge = None if llm is None else kinds_judge(folder, str(llm), model, **options)
    if judge is not None and dry_run:
        return JudgePreview(plan_kinds(read_tables(folder), checked, judge), judge.decision)
    return find_kinds(folder, checked, corpora=list(corpus), judge=judge, quiet=quiet)


def review_kinds(audit: Path, *, out: Path, limit: int | None = None, seed: int = 0) -> ResultView:
    """
    Args:
        out: the CSV
        limit: spans to draw at most; none: all
        seed: seed of the sample
    """
    from medunlearn.audit.audit_tables import read_tables
    from medunlearn.audit.kinds.sorting import settings_of, span_sheet

    _refuse_zero(limit)
    folder = Path(audit)
    spans = span_sheet(read_tables(folder), settings_of(folder), Path(out), sample=limit, seed=seed)
    return _sheet(Path(out), spans=spans)


def correct_kinds(audit: Path, sheets: Sequence[Path]) -> Any:
    """
    Args:
        sheets: sheets that were filled in
    """
    from medunlearn.audit.audit_tables import read_tables
    from medunlearn.audit.kinds.kind_summary import KindSummary
    from medunlearn.audit.kinds.sorting import read_spans, settings_of

    folder = Path(audit)
    read_spans(read_tables(folder), settings_of(folder), *map(Path, sheets))
    return KindSummary.open(folder)


def export(source: Path | str, **options: Any) -> ResultView:
    """:func:`medunlearn.api.export`, which asks at a terminal before it pushes a model of unrecorded data."""
    confirm = _confirm if sys.stdin.isatty() and sys.stderr.isatty() else None
    folder, push = api.export(source, **options, confirm=confirm), options.get("push")
    place = f"{folder}: model and tokenizer" + (f", pushed to {push}" if push else "")
    return ResultView({"folder": str(folder), "pushed": push}, notes=[place])


def _confirm(question: str) -> bool:
    import click

    return click.confirm(question, err=True)


def listed(what: str, name: str | None = None) -> ResultView:
    """
    Args:
        what: methods, measures, attacks, benchmarks, sources, papers, exhibits, tasks or presets
        name: one of them: everything about it
    """
    from medunlearn.cli.listing import TABLES, list_view, named_view

    if what not in TABLES:
        raise UnknownNameError("list", what, TABLES)
    rows = TABLES[what]()
    if name is None:
        return list_view(what, rows)
    own = [row for row in rows if row["name"] == name]
    if not own:
        raise UnknownNameError(what.removesuffix("s"), name, [row["name"] for row in rows])
    return named_view(name, own)


def _refuse_zero(limit: int | None) -> None:
    if limit is not None and limit < 1:
        raise ConfigError(["--limit must be at least 1"])
