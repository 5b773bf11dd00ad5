"""``import medunlearn as mu``: one typed call for each command, under the same name.

Settings are keywords, the same as the flags of ``medunlearn VERB --help``: nested ones as a dictionary
(``npo={"beta": 0.2}``) or by their dotted key. Parameters without a description mean the same in every call:
``run`` and ``against`` are runs of models or their folders, ``benchmark`` a benchmark or its folder, ``preset`` a
name of ``medunlearn list presets``; ``say`` is called with each line of progress. Without ``out``, a run is stored
in ``runs/`` under a name derived from its kind and key, so that the same call finds it again. Imports are inside
the functions, since the command line reads their parameters before anything is loaded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from medunlearn.config import (
    AdoptSettings,
    EvaluateSettings,
    ForgetSettings,
    TaskExportSettings,
    UtilitySettings,
    check,
)
from medunlearn.config.reading import flat, merged, without_prefix
from medunlearn.errors import ConfigError

if TYPE_CHECKING:
    from medunlearn.attacks.attacked import Attacks
    from medunlearn.data.benchmark import Benchmark
    from medunlearn.data.describe import Description
    from medunlearn.judging.annotators import PeopleAgreement
    from medunlearn.judging.judges import Llm
    from medunlearn.judging.panel_run import JudgingRun
    from medunlearn.probes.respondents import RespondentRun
    from medunlearn.probes.utility.numbers import Utilities
    from medunlearn.probes.utility.tasks import ExportedTasks
    from medunlearn.request.case.answer_letter import PatientLetter
    from medunlearn.request.case.case_checks import BatteryRunner
    from medunlearn.request.case.purge import Purge
    from medunlearn.request.case.signing_keys import KeyFiles
    from medunlearn.request.case.timestamp_checks import Timestamp
    from medunlearn.request.forget_stages import Forgotten
    from medunlearn.request.holders.holder_log import Holders
    from medunlearn.results.evaluated import Evaluation
    from medunlearn.results.runs import Run
    from medunlearn.results.verify import Verification
    from medunlearn.study.experiment import Finished
    from medunlearn.study.plans.forecast import Forecast
    from medunlearn.study.sweep.result import Swept
    from medunlearn.study.tune.tune_result import Tuned

    RunOrFolder = Run | Path | str
    BenchmarkOrFolder = Benchmark | Path | str
else:
    RunOrFolder = BenchmarkOrFolder = Path | str

Folder = Path | str
RUNS = Path("runs")
Say = Callable[[str], None]


def load(folder: Folder) -> Benchmark:
    """Load a benchmark from its folder.

    Raises:
        BenchmarkError: the folder does not match its manifest.
    """
    from medunlearn.data.benchmark import Benchmark

    return Benchmark.load(folder)


def train(
    benchmark: BenchmarkOrFolder, *, model: str, out: Folder | None = None, preset: str | None = None,
    device: str = "auto", quiet: bool = False, say: Say | None = None, **settings: Any
) -> Run:  # fmt: skip
    """Train the target model, or with ``without`` the retrained model. Resumes.

    Args:
        out: folder of the run
    """
    from medunlearn.study.experiment import run_folder
    from medunlearn.study.plans.forecast import announce
    from medunlearn.study.plans.run_forecast import forecast_training
    from medunlearn.study.presets import train_settings
    from medunlearn.study.train import train

    checked = train_settings({"model": model, **({"preset": preset} if preset else {}), **settings})
    bench = _benchmark(benchmark)
    label = "target" if checked.without is None else "retrained"
    folder = Path(out) if out is not None else run_folder(bench, checked, label, model, RUNS)
    announce(say, lambda: forecast_training(bench, checked, folder, device), folder)
    return train(bench, checked, folder, device=device, quiet=quiet)


def adopt(
    model: Folder, benchmark: BenchmarkOrFolder, *, out: Folder | None = None, device: str = "auto",
    quiet: bool = False, **settings: Any
) -> Run:  # fmt: skip
    """Record a model that was trained elsewhere as a run; nothing is trained.

    Args:
        model: Hugging Face folder, hub id (org/name), or LoRA adapter
        benchmark: benchmark of the texts that it was trained on, or its folder
        out: folder of the run

    Raises:
        ModelError: two models in one folder, a part is missing, or a broken model.
    """
    from medunlearn.study.adopt import adopt

    checked = check(AdoptSettings, settings)
    bench, folder = _benchmark(benchmark), None if out is None else Path(out)
    return adopt(model, bench, checked, folder, beside=RUNS, device=device, quiet=quiet)


def forget(
    model: RunOrFolder, notes: Folder, *, out: Folder, device: str = "auto", quiet: bool = False,
    say: Say = lambda line: None, **settings: Any
) -> Forgotten:  # fmt: skip
    """Carry out a deletion request: adopt the model, unlearn, verify, and write the signed case. Resumes.

    Args:
        model: Hugging Face folder, LoRA adapter, hub id (org/name), or run
        notes: notes that it was trained on, in a form that `build notes` reads; or a benchmark's folder
        out: folder of the case; OUT-model holds the model that came out, OUT-work what was made on the way

    Raises:
        InputError: a patient who is not there or was forgotten before; no key; a folder that cannot be used.
        ModelError: two models in one folder, a part is missing, or a broken model.
    """
    from medunlearn.request.verifying_attacks import with_battery

    checked = with_battery(check(ForgetSettings, merged({}, settings)))
    from medunlearn.request.graph import forget
    from medunlearn.results.runs import Run

    source = model.folder if isinstance(model, Run) else model
    return forget(source, Path(notes), checked, Path(out), device=device, quiet=quiet, say=say)


def unlearn(
    target: RunOrFolder, benchmark: BenchmarkOrFolder, *, split: str, method: str, out: Folder | None = None,
    preset: str | None = None, device: str = "auto", quiet: bool = False, say: Say | None = None,
    **settings: Any
) -> Run:  # fmt: skip
    """Make a trained model forget one split's forget set. Resumes.

    Args:
        target: run of the target model, or a Hugging Face folder, which is adopted
        out: folder of the run
    """
    from medunlearn.study.presets import tiny_preset, unlearn_settings, unlearning_method

    values = {"method": method, "split": split, **({"preset": preset} if preset else {}), **flat(settings, method)}
    checked = unlearn_settings(values, tiny=tiny_preset(target), shared=False)
    unlearning_method(checked)  # its mistakes are told before torch is loaded and a model is read

    from medunlearn.study.experiment import run_folder
    from medunlearn.study.plans.forecast import announce
    from medunlearn.study.plans.run_forecast import forecast_unlearning
    from medunlearn.study.sized_defaults import fit_to_model
    from medunlearn.study.unlearn import unlearn

    bench = _benchmark(benchmark)
    trained = _run_of(target, bench, split, out, device, quiet, settings)
    checked = fit_to_model(checked, trained.info.results.get("parameters"), bench)
    folder = Path(out) if out is not None else run_folder(bench, checked, method, trained.folder, RUNS)
    announce(say, lambda: forecast_unlearning(trained, bench, checked, folder, device), folder)
    return unlearn(trained, bench, checked, folder, device=device, quiet=quiet)


def evaluate(
    run: RunOrFolder, benchmark: BenchmarkOrFolder, *, split: str | None = None,
    against: Sequence[RunOrFolder] = (), epoch: int | None = None, model_name: str | None = None,
    llm: Mapping[str, Any] | None = None, allow_remote_llm: bool = False, allow_missing: bool = False,
    out: Folder | None = None, overwrite: bool = False, device: str = "auto", quiet: bool = False,
    **settings: Any
) -> Evaluation:  # fmt: skip
    """Ask a model the benchmark's questions and score its responses; ``.table()`` is a DataFrame.

    Args:
        run: run of a model, or a Hugging Face folder, which is adopted; a server's address with /v1; a table of
            responses
        against: run to compare with, such as the target or the retrained model; or a model like RUN, a server as
            NAME@http://HOST/v1; repeatable
        model_name: the model as the server calls it
        llm: settings of the server: llm.concurrency, ... (docs/servers.md)
        allow_missing: finish though a server left questions without a response
        out: also write the table to this CSV file
        overwrite: replace that file if it exists
    """
    from medunlearn.probes.evaluate import evaluate
    from medunlearn.probes.respondent_runs import respondent_run

    server = {**(llm or {}), **without_prefix("llm.", settings)}
    file, checked = _csv_file(out, overwrite), check(EvaluateSettings, _with_split(split, settings))
    if (model_name or server) and "http" not in str(run):
        raise ConfigError([f"{run} is no server: --model-name and --llm.KEY are for http://HOST:PORT/v1"])
    bench, beside = _benchmark(benchmark), RUNS if out is None else Path(out).parent
    how = {"permitted": allow_remote_llm, "allow_missing": allow_missing}

    def asked(model: RunOrFolder, name: str | None = None) -> Run | RespondentRun:
        word = str(model) if isinstance(model, Path | str) else ""
        return respondent_run(word, bench, beside, name, server, **how) or _run_of(
            model, bench, checked.split, out, device, quiet, settings
        )

    model, *others = asked(run, model_name), *map(asked, against)
    if epoch is not None:
        model = (model.run if isinstance(model, tuple) else model).epoch(epoch)
    evaluation = evaluate(model, bench, checked, against=others, device=device, quiet=quiet)
    _write_csv(file, evaluation.table)
    return evaluation


def inspect(benchmark: BenchmarkOrFolder, *, tokenizer: Folder | None = None) -> Description:
    """Sizes, lengths and splits of a benchmark, as AMNESIA's Tables 1, 4 and 5; ``.tables()`` gives DataFrames.

    Args:
        tokenizer: count tokens of this folder, run or hub id; none: words
    """
    from medunlearn.study.describing import described

    return described(_benchmark(benchmark), tokenizer)


def attack(
    run: RunOrFolder, benchmark: BenchmarkOrFolder, *, split: str | None = None,
    attacks: str | Sequence[str] | None = None, against: Sequence[RunOrFolder] = (),
    out: Folder | None = None, overwrite: bool = False, device: str = "auto", quiet: bool = False,
    **settings: Any
) -> Attacks:  # fmt: skip
    """Attack a model to measure what an adversary can still learn from it; ``.table()`` is a DataFrame.

    Args:
        run: run of a model, or a Hugging Face folder, which is adopted
        out: also write the table to this CSV file; a folder: the page "what brings it back"
        overwrite: replace that file if it exists
        settings: as `medunlearn attack --help` lists them; an attack's own as ``min_k={"k": 0.4}``

    Raises:
        InputError: the benchmark has no documents that no model is trained on.
    """
    import pandas as pd

    from medunlearn.attacks.attack_settings import attack_settings
    from medunlearn.reports.write import free_folder, write_report

    page = None if out is None or Path(out).suffix == ".csv" else free_folder(Path(out))
    file = _csv_file(None if page else out, overwrite)
    named = {} if attacks is None else {"attacks": attacks}
    checked = attack_settings(_with_split(split, {**named, **flat(settings, *settings)}))
    from medunlearn.attacks.attack_run import attack
    from medunlearn.attacks.brought_back import BroughtBack

    bench = _benchmark(benchmark)
    runs = (_run_of(source, bench, checked.split, out, device, quiet, settings) for source in (run, *against))
    model, *others = runs
    attacked = attack(model, bench, checked, against=others, device=device, quiet=quiet)

    def table() -> pd.DataFrame:
        tables = [own.table() for own in attacked.by_family.values()]
        return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame()

    _write_csv(file, table)
    if page is not None:
        write_report(BroughtBack.of(attacked).page(attacked, f"{bench.name}: what brings it back"), page)
    return attacked


def utility(
    run: RunOrFolder, *, tasks: str | Sequence[str], against: Sequence[RunOrFolder] = (),
    epoch: int | None = None, out: Folder | None = None, overwrite: bool = False, device: str = "auto",
    quiet: bool = False, **settings: Any
) -> Utilities:  # fmt: skip
    """Measure a model's utility with tasks of lm-evaluation-harness; ``.table()`` is a DataFrame.

    Args:
        out: also write the table to this CSV file
        overwrite: replace that file if it exists

    Raises:
        InputError: the harness is not installed; a task that there is not, or whose data cannot be had.
    """
    from medunlearn.probes.utility.harness_run import utility

    file, checked = _csv_file(out, overwrite), check(UtilitySettings, {"tasks": tasks, **settings})
    models = [_run(run), *map(_run, against)]
    model = models[0] if epoch is None else models[0].epoch(epoch)
    measured = utility(model, checked, against=models[1:], device=device, quiet=quiet)
    _write_csv(file, measured.table)
    return measured


def export_tasks(
    benchmark: BenchmarkOrFolder, out: Folder | None = None, *, split: str | None = None, **settings: Any
) -> ExportedTasks:  # fmt: skip
    """Write a benchmark as tasks of lm-evaluation-harness, scored by our measures.

    Args:
        out: folder of the tasks, for lm_eval's --include_path

    Raises:
        InputError: an unknown split or measure; a folder that is not empty.
    """
    from medunlearn.probes.utility.tasks import export_tasks

    if out is None:
        raise ConfigError(["--out is missing: folder of the tasks"])
    return export_tasks(_benchmark(benchmark), check(TaskExportSettings, _with_split(split, settings)), Path(out))


def judge(
    what: Run | BenchmarkOrFolder, *, llm: Llm | Mapping[str, Any], llm_model: str | None = None,
    task: str | None = None, benchmark: Benchmark | Path | None = None, out: Folder | None = None,
    allow_remote_llm: bool = False, again: bool = False, allow_missing: bool = False, quiet: bool = False,
    **settings: Any
) -> JudgingRun:  # fmt: skip
    """Judge labels or questions of a benchmark or table, or the responses of an evaluated run. Resumes.

    Args:
        what: a benchmark, an evaluated run, or a table (.csv, .jsonl, .parquet)
        llm: a server's address, a YAML file with several judges, or ``rehearsal`` (verdicts are drawn at random)
        task: label, question or factuality; of a run always factuality
        benchmark: of a run: the benchmark that it was evaluated on
        out: folder of the result; of a run, its own folder is taken
        settings: as `medunlearn judge --help` lists them; ``llm.KEY`` sets a key of every judge's server
    """
    from medunlearn.study.judging_jobs import job_of

    job = job_of(what, llm, llm_model, task, benchmark, out, **settings)
    return job.run(permitted=allow_remote_llm, again=again, allow_missing=allow_missing, quiet=quiet)


def annotate(
    judged: JudgingRun | Folder, *, out: Folder, limit: int | None = None, seed: int = 0
) -> tuple[Path, Path]:  # fmt: skip
    """Write a CSV and a local page on which a person labels the judged cases; returns both paths.

    Args:
        out: folder of the sheet
        limit: cases to draw at most, evenly over groups; none: all
        seed: seed of the draw
    """
    from medunlearn.judging.annotators import annotate

    return annotate(_judging_run(judged), Path(out), number=limit, seed=seed)


def agree(judged: JudgingRun | Folder, labels: Sequence[Folder]) -> PeopleAgreement:
    """Compare judges with people's labels, and people with each other.

    Args:
        labels: labelled CSV files
    """
    from medunlearn.judging.annotators import agree

    return agree(_judging_run(judged), list(map(Path, labels)))


def report(
    runs: Sequence[RunOrFolder], *, out: Folder, benchmark: BenchmarkOrFolder | None = None,
    split: str | None = None, title: str | None = None, show_text: bool = False, relations: Path | None = None,
    tables: str | Sequence[str] = (), figures: str | Sequence[str] = (), seed: int = 0
) -> Path:  # fmt: skip
    """Write report.html, report.md and report.json; returns the HTML file's path.

    Args:
        runs: runs evaluated on one split, with runs of `judge` on their benchmark; a sweep; two sweeps to
            compare; a tuning; or audits
        out: folder of the report
        benchmark: for examples of answers, LUME's findings, TOFU's measures
        split: which evaluation, if there are several
        title: title of the report
        show_text: show text of real records (invented ones are always shown)
        relations: audits: YAML that says which model is which to which (docs/audit.md)
        tables: also write every table into OUT/tables: csv, tex (with commas)
        figures: also write every figure into OUT/figures: svg, pdf (pdf: pip install 'medunlearn[figures]')
        seed: seed of the bootstrap
    """
    from medunlearn.papers.reporting import report_content

    how: dict[str, Any] = {"title": title, "show_text": show_text, "seed": seed}
    how |= {"tables": tables, "figures": figures}
    return report_content(runs, Path(out), benchmark, split, relations, **how)[1]


def export(
    source: RunOrFolder, out: Folder | None = None, *, push: str | None = None, public: bool = False,
    allow_push: bool = False, benchmark: BenchmarkOrFolder | None = None, split: str | None = None,
    show_text: bool = False, say: Say = lambda line: None, confirm: Callable[[str], bool] | None = None
) -> Path:  # fmt: skip
    """Export a model as a full Hugging Face folder: LoRA is merged, a delta is applied to its base.

    Args:
        source: run, or model folder
        out: folder of the exported model
        push: also push to this hub id (org/name), under your own login; private unless --public
        public: anybody may see the repository that --push sends to
        allow_push: permit pushing a model of credentialed data, or of data that nobody recorded
        benchmark: say, and write into README.md, how many strings of the tokenizer are in one subject's texts alone
        split: and how many in its forget set's alone; none: the run's own
        show_text: print those strings and whose they are; README.md never has them
        confirm: asks a person whether a model of unrecorded data may be pushed; none: it is refused
    """
    from medunlearn.results.runs import Run
    from medunlearn.study.export import export

    if out is None:
        raise ConfigError(["--out is missing: folder of the exported model"])
    folder = source.folder if isinstance(source, Run) else source
    bench = None if benchmark is None else _benchmark(benchmark)
    whose: dict[str, Any] = {"benchmark": bench, "split": split, "show_text": show_text, "say": say}
    push_how: dict[str, Any] = {"push": push, "public": public, "permitted": allow_push, "confirm": confirm}
    return export(folder, Path(out), **push_how, **whose)


def verify(
    folders: Sequence[Folder], *, subject: str | None = None, benchmark: BenchmarkOrFolder | None = None,
    identifiers: Folder | None = None, out: Folder | None = None, public_key: Folder | None = None,
    authority: Folder | None = None, work: Folder | None = None, overwrite: bool = False, device: str = "auto",
    quiet: bool = False, say: Say = lambda line: None
) -> Holders | Verification:  # fmt: skip
    """Check runs against their records, or a model against its case; with a subject, list the files that hold it.

    Args:
        folders: runs; or a case, with the model that it is about before it; with a subject folders or files to look
            through, with everything below
        subject: who: level=node,node of the benchmark (patient=patient-0007)
        benchmark: the subject's benchmark: tells records, identifiers, and which weights were trained on them
        identifiers: file with names and numbers of the subject, one a line
        out: also write the log to this file (.parquet, .csv or .json); it holds no text of the subject
        public_key: of a case: the owner's public key, from another source than the case
        authority: of a case: certificates (PEM) that you trust; one must vouch for the time stamp's authority
        work: of a case and its model: the folder that `forget` wrote beside the case; the battery is run again on
            the model as it is now
        overwrite: replace the file of the log if it exists
    """
    if subject is None and identifiers is None:
        if benchmark is not None or out is not None:
            raise ConfigError(["no subject is named: --benchmark and --out need --subject or --identifiers"])
        rerun = None if work is None else partial(_rerun, Path(work), device=device, quiet=quiet, say=say)
        return _check(list(map(Path, folders)), public_key, authority, rerun)
    from medunlearn.data.storage import refuse_existing
    from medunlearn.request.holders.file_search import find_holders
    from medunlearn.request.holders.holder_log import LOGS
    from medunlearn.request.holders.traces import read_identifiers

    for name, value in (("--public-key", public_key), ("--authority", authority), ("--work", work)):
        if value is not None:
            raise ConfigError([f"{name} is for a case: leave --subject and --identifiers out"])
    if out is not None and Path(out).suffix.lower() not in LOGS:
        raise ConfigError([f"--out {out}: the log is written as {', '.join(LOGS)}"])
    refuse_existing(*([] if out is None else [Path(out)]), overwrite=overwrite)
    names = [] if identifiers is None else read_identifiers(Path(identifiers))
    bench = None if benchmark is None else _benchmark(benchmark)
    log = find_holders(list(map(Path, folders)), bench, subject, identifiers=names, quiet=quiet)
    if out is not None:
        log.write(Path(out))
    return log


def _rerun(work: Path, case: Path, *, device: str, quiet: bool, say: Say) -> BatteryRunner:
    """Rerun a case's test battery from its work folder."""
    from medunlearn.request.battery_rerun import BatteryRerun

    return BatteryRerun.of(case, work, device=device, quiet=quiet, say=say)


def _check(
    folders: list[Path],
    public_key: Folder | None,
    authority: Folder | None,
    rerun: Callable[[Path], BatteryRunner] | None,
) -> Verification:
    """Checks of runs, or of a case and the model given with it."""
    from medunlearn.request.case.case_checks import looks_like_case, verify_case
    from medunlearn.results.verify import verify_runs

    cases = [folder for folder in folders if looks_like_case(folder)]
    if not cases:
        for name, value in (("--public-key", public_key), ("--authority", authority), ("--work", rerun)):
            if value is not None:
                raise ConfigError([f"{name} is for a case, and none of these folders is one"])
        return verify_runs(folders)
    models = [folder for folder in folders if folder not in cases]
    if len(cases) > 1 or len(models) > 1:
        raise ConfigError(["a case is checked alone or with one model: medunlearn verify MODEL case/"])
    if rerun is not None and not models:
        raise ConfigError(["--work runs the battery again on a model: medunlearn verify MODEL case/ --work WORK"])
    from medunlearn.request.case.signing_keys import read_public_key
    from medunlearn.request.case.timestamp_checks import read_certificates

    key = None if public_key is None else read_public_key(Path(public_key))
    trusted = () if authority is None else read_certificates(Path(authority))
    battery = None if rerun is None else rerun(cases[0])
    model = models[0] if models else None
    return verify_case(cases[0], model, public_key=key, authority=trusted, run_battery=battery)


def case_key(*, out: Folder) -> KeyFiles:
    """Make an Ed25519 key pair that signs cases, and the secret for pseudonyms where its folder has none.

    Args:
        out: the private key; OUT.pub and pseudonyms.key stand beside it
    """
    from medunlearn.request.case.signing_keys import make_key

    return make_key(Path(out))


def case_timestamp(
    case: Folder, *, url: str | None = None, command: str | None = None, authority: Folder | None = None
) -> Timestamp:
    """Have an authority time-stamp a case's signed statement (RFC 3161). Sends its SHA-256 and nothing else.

    Args:
        case: folder of the case
        url: address of the authority, http:// or https://
        command: instead of an address: reads the query from standard input, writes the reply to standard output
        authority: certificates (PEM) that you trust; a stamp of another authority is refused
    """
    from medunlearn.request.case.timestamp_checks import read_certificates
    from medunlearn.request.case.timestamps import timestamp_case

    trusted = () if authority is None else read_certificates(Path(authority))
    return timestamp_case(Path(case), url=url, command=command, authority=trusted)


def case_letter(
    case: Folder, *, out: Folder, language: Literal["en", "de", "fr"] = "en", patient: str | None = None,
    public_key: Folder | None = None
) -> PatientLetter:  # fmt: skip
    """Verify a case, and write the answer to its patient as one HTML page, with gaps for names.

    Args:
        case: folder of the case
        out: the page; it is new, and outside of the case
        language: English, German or French
        patient: the patient's pseudonym, or 12 or more of its digits; needed where the case is about several
        public_key: the owner's public key, from another source than the case
    """
    from medunlearn.request.case.answer_letter import write_letter
    from medunlearn.request.case.signing_keys import read_public_key

    key = None if public_key is None else read_public_key(Path(public_key))
    return write_letter(Path(case), Path(out), language=language, patient=patient, public_key=key)


def case_purge(
    folders: Sequence[Folder], *, patient: str | None = None, benchmark: BenchmarkOrFolder | None = None,
    identifiers: Folder | None = None, kinds: Sequence[str] = (), yes: bool = False, quiet: bool = False
) -> Purge:  # fmt: skip
    """List every file that still holds a patient, and delete these files where that is confirmed.

    Args:
        folders: folders or files to look through, with everything below; nothing outside of them is touched
        patient: id of the patient in the benchmark
        benchmark: the patient's benchmark: tells records, identifiers, and which weights were trained on them
        identifiers: file with names and numbers of the patient, one a line
        kinds: delete files of this kind alone (weights, store, benchmark, ...); repeatable
        yes: delete the files; without it they are listed
    """
    from medunlearn.request.case.purge import purge_patient
    from medunlearn.request.holders.traces import read_identifiers

    names = [] if identifiers is None else read_identifiers(Path(identifiers))
    bench = None if benchmark is None else _benchmark(benchmark)
    return purge_patient(
        list(map(Path, folders)), bench, patient, identifiers=names, kinds=kinds, confirmed=yes, quiet=quiet
    )


def run(
    experiment: Folder | dict[str, Any], *, device: str = "auto", quiet: bool = False, say: Say | None = None,
    **overrides: Any
) -> Finished:  # fmt: skip
    """Run an experiment from its file or its settings. Resumes.

    Args:
        experiment: YAML file of the experiment
        overrides: settings that replace the file's; nested ones as ``**{"train.lr": 1e-3}``
    """
    from medunlearn.paper import own_experiment
    from medunlearn.study.experiment import plan, run_experiment
    from medunlearn.study.plans.forecast import announce
    from medunlearn.study.plans.run_forecast import forecast

    values, quietly = merged(experiment, overrides), lambda line: None
    if (adaptation := own_experiment(values)) is not None:
        announce(say, lambda: adaptation.forecast(device), None)
        return adaptation.run(device=device, quiet=quiet, say=say or quietly)  # type: ignore[no-any-return]
    checked = plan(values)
    announce(say, lambda: forecast(checked, device=device), None)
    return run_experiment(checked, device=device, quiet=quiet, say=say or quietly)


def plan(experiment: Folder | dict[str, Any], *, device: str = "auto", **overrides: Any) -> Forecast:
    """Estimate the remaining work of :func:`run`: tokens, FLOPs, memory and disk. Runs nothing.

    ``.table()`` is a DataFrame with a row per stage; ``.warnings`` says what will not fit.
    """
    from medunlearn.paper import own_experiment
    from medunlearn.study.experiment import plan
    from medunlearn.study.plans.run_forecast import forecast

    values = merged(experiment, overrides)
    if (adaptation := own_experiment(values)) is not None:
        return adaptation.forecast(device)  # type: ignore[no-any-return]
    return forecast(plan(values), device=device)


def sweep(
    sweep: Folder | dict[str, Any], *, jobs: int | None = None, device: str = "auto", quiet: bool = False,
    say: Say = lambda line: None, **overrides: Any
) -> Swept:  # fmt: skip
    """Run a sweep, methods x splits x seeds, from its file or its settings. Resumes.

    A cell that fails stops only those that need it: ``.failed`` names them with their reasons. ``.table()`` is a
    DataFrame with every model's summary; ``.cells`` has a row per cell, ``.search`` a row per rate that was tried.

    Args:
        sweep: YAML file of the sweep
        jobs: cells at the same time, each in a process of its own; none: one a GPU, or one a core
        overrides: as for :func:`run`; ``seed`` replaces all ``seeds``
    """
    from medunlearn.study.sweep.sweep_plan import plan_from
    from medunlearn.study.sweep.sweep_run import run_sweep

    return run_sweep(plan_from(sweep, jobs, overrides), jobs=jobs, device=device, quiet=quiet, say=say)


def tune(
    tuning: Folder | dict[str, Any], *, jobs: int | None = None, device: str = "auto", quiet: bool = False,
    say: Say = lambda line: None, **overrides: Any
) -> Tuned:  # fmt: skip
    """Find each method's settings with an equal budget, from a file or its settings. Resumes.

    Trials are chosen on one half of the subjects; ``.results`` is of the other half, by model, setting and seed.
    ``.trials`` has a row per trial, ``.best`` a row per method.

    Args:
        tuning: YAML file of the tuning
        jobs: methods at the same time, each in a process of its own; none: one a GPU, or one a core
        overrides: as for :func:`run`; ``seed`` replaces all ``seeds``
    """
    from medunlearn.study.tune.tune_plan import plan_from
    from medunlearn.study.tune.tune_run import run_tuning

    return run_tuning(plan_from(tuning, jobs, overrides), jobs=jobs, device=device, quiet=quiet, say=say)


def _run(run: RunOrFolder) -> Run:
    from medunlearn.results.runs import Run

    return Run.of(run)


def _run_of(
    model: RunOrFolder, benchmark: Benchmark, split: str, out: Folder | None, device: str, quiet: bool,
    settings: dict[str, Any]
) -> Run:  # fmt: skip
    """A run as it is, or a Hugging Face folder adopted as a run beside ``out``, with the prompt settings in
    ``settings``.
    """
    from medunlearn.study.adopt import run_of

    how = {key: settings[key] for key in ("template", "context", "weights", "allow_broken") if key in settings}
    beside = RUNS if out is None else Path(out).parent
    return run_of(model, benchmark, beside=beside, split=split, device=device, quiet=quiet, **how)


def _judging_run(judged: JudgingRun | Folder) -> JudgingRun:
    from medunlearn.judging.panel_run import JudgingRun

    return judged if isinstance(judged, JudgingRun) else JudgingRun.open(judged)


def _benchmark(benchmark: BenchmarkOrFolder) -> Benchmark:
    return load(benchmark) if isinstance(benchmark, (Path, str)) else benchmark


def _with_split(split: str | None, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings with the split, unless a probe set names it."""
    return {**({} if split is None else {"split": split}), **settings}


def _csv_file(out: Folder | None, overwrite: bool) -> Path | None:
    from medunlearn.data.storage import refuse_existing

    if out is None:
        return None
    refuse_existing(Path(out), overwrite=overwrite)
    return Path(out)


def _write_csv(file: Path | None, table: Any) -> None:
    from medunlearn.data.escaping import csv_of_frame
    from medunlearn.data.storage import write_text

    if file is not None:
        write_text(file, csv_of_frame(table()))
