"""What ``import medunlearn as mu`` offers: one typed call for each command, under the same name.

Settings are keywords, the same as on the command line. A method's own settings are given in a dictionary,
``arguments={"beta": 0.2}``. Where ``out`` is left out, a run is kept in ``runs/``, under a name made of what it is
and of its key, so that the same call finds it again.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from medunlearn.attacks.attacked import Attacks
from medunlearn.attacks.run import attack as _attack
from medunlearn.attacks.run import attack_settings
from medunlearn.config import (
    DiagnoseSettings,
    EvaluateSettings,
    TaskExportSettings,
    UtilitySettings,
    check,
    merge,
    read_yaml,
)
from medunlearn.data.benchmark import Benchmark
from medunlearn.judging.judges import JudgeSettings, Llm, judges_of
from medunlearn.judging.people import PeopleAgreement
from medunlearn.judging.people import agree as _agree
from medunlearn.judging.people import annotate as _annotate
from medunlearn.judging.responses import job
from medunlearn.judging.run import JudgingRun, split_runs
from medunlearn.pipeline.evaluate import evaluate as _evaluate
from medunlearn.pipeline.export import export as _export
from medunlearn.pipeline.material import identity
from medunlearn.pipeline.presets import is_tiny, train_settings, unlearn_settings
from medunlearn.pipeline.report.gather import gather
from medunlearn.pipeline.train import train as _train
from medunlearn.pipeline.unlearn import unlearn as _unlearn
from medunlearn.reports.write import write_report
from medunlearn.results.evaluated import Evaluated, Evaluation
from medunlearn.results.runs import Recording, Run

if TYPE_CHECKING:
    from medunlearn.data.describe import Description
    from medunlearn.papers.memorization.diagnosis.diagnose import Diagnosed
    from medunlearn.pipeline.estimate.forecast import Forecast
    from medunlearn.pipeline.experiment import Finished
    from medunlearn.pipeline.sweep.result import Swept
    from medunlearn.pipeline.utility.found import Utilities
    from medunlearn.pipeline.utility.tasks import ExportedTasks

RUNS = Path("runs")


def load(folder: Path | str) -> Benchmark:
    """A benchmark from its folder.

    Raises:
        BenchmarkError: the folder does not match its manifest.
    """
    return Benchmark.load(folder)


def train(
    benchmark: Benchmark,
    *,
    model: str,
    out: Path | str | None = None,
    device: str = "auto",
    quiet: bool = False,
    **settings: Any,
) -> Run:
    """Train the target model; with ``without="random_10"`` the retrained model. Resumes.

    Args:
        model: folder, hub id, or ``tiny``.
        settings: as `medunlearn train --help` lists them.
    """
    checked = train_settings({"model": model, **settings})
    if out is None:
        inputs = {"benchmark": benchmark.fingerprint, "model": identity(model)}
        label = "target" if checked.without is None else "retrained"
        out = RUNS / f"{label}-{Recording.key_of('train', checked, inputs)[:8]}"
    return _train(benchmark, checked, Path(out), device=device, quiet=quiet)


def unlearn(
    target: Run,
    benchmark: Benchmark,
    *,
    split: str,
    method: str,
    out: Path | str | None = None,
    device: str = "auto",
    quiet: bool = False,
    **settings: Any,
) -> Run:
    """Make a trained model forget one split's forget set. Resumes.

    Args:
        split: a split's name, or a request ``level=node,node``.
        method: a name from `medunlearn list methods`, or ``module:Class``.
        settings: as `medunlearn unlearn --help` lists them.
    """
    checked = unlearn_settings({"method": method, "split": split, **settings}, tiny=is_tiny(target), shared=False)
    if out is None:
        inputs = {"benchmark": benchmark.fingerprint, "model": identity(str(target.folder))}
        name = "".join(letter if letter.isalnum() else "_" for letter in method)
        out = RUNS / f"{name}-{Recording.key_of('unlearn', checked, inputs)[:8]}"
    return _unlearn(target, benchmark, checked, Path(out), device=device, quiet=quiet)


def evaluate(
    run: Run,
    benchmark: Benchmark,
    *,
    split: str,
    against: Sequence[Run] = (),
    device: str = "auto",
    quiet: bool = False,
    **settings: Any,
) -> Evaluation:
    """Ask a model the benchmark's questions and score what it says; ``.table()`` is a DataFrame.

    Args:
        against: runs to compare with, e.g. the target and the retrained model.
        settings: as `medunlearn evaluate --help` lists them.
    """
    checked = check(EvaluateSettings, {"split": split, **settings})
    return _evaluate(run, benchmark, checked, against=against, device=device, quiet=quiet)


def inspect(benchmark: Benchmark | Path | str, *, tokenizer: Path | str | None = None) -> Description:
    """What is in a benchmark, as AMNESIA's Tables 1, 4 and 5 show it; ``.tables()`` gives DataFrames.

    Args:
        tokenizer: a folder that holds one, a run, or a hub id, to count its tokens; None counts words.
    """
    from medunlearn.pipeline.describing import described

    found = benchmark if isinstance(benchmark, Benchmark) else Benchmark.load(benchmark)
    return described(found, tokenizer)


def attack(
    run: Run,
    benchmark: Benchmark,
    *,
    split: str,
    attacks: str | Sequence[str] = ("membership",),
    against: Sequence[Run] = (),
    device: str = "auto",
    quiet: bool = False,
    **settings: Any,
) -> Attacks:
    """Find out what an adversary can still tell from a model; ``.table()`` is a DataFrame.

    Args:
        attacks: names or kinds from `medunlearn list attacks`.
        against: runs to compare with, e.g. the target and the retrained model.
        settings: as `medunlearn attack --help` lists them.

    Raises:
        InputError: the benchmark has no documents that no model is trained on.
    """
    checked = attack_settings({"split": split, "attacks": attacks, **settings})
    return _attack(run, benchmark, checked, against=against, device=device, quiet=quiet)


def utility(
    run: Run,
    *,
    tasks: str | Sequence[str],
    against: Sequence[Run] = (),
    device: str = "auto",
    quiet: bool = False,
    **settings: Any,
) -> Utilities:
    """Measure what a model is still good for with tasks of lm-evaluation-harness; ``.table()`` is a DataFrame.

    Args:
        tasks: the harness's (``mmlu``), or those of your own in the folder ``include``.
        against: runs to compare with, e.g. the target and the retrained model.
        settings: as `medunlearn utility --help` lists them.

    Raises:
        InputError: the harness is not installed; a task that there is not, or whose data cannot be had.
    """
    from medunlearn.pipeline.utility.measure import utility as measure

    checked = check(UtilitySettings, {"tasks": tasks, **settings})
    return measure(run, checked, against=against, device=device, quiet=quiet)


def export_tasks(benchmark: Benchmark, out: Path | str, *, split: str, **settings: Any) -> ExportedTasks:
    """Write a benchmark as tasks of lm-evaluation-harness, scored by our metrics.

    Args:
        settings: as `medunlearn export-tasks --help` lists them.

    Raises:
        InputError: an unknown split or metric; a folder that is not empty.
    """
    from medunlearn.pipeline.utility.tasks import export_tasks as export

    return export(benchmark, check(TaskExportSettings, {"split": split, **settings}), Path(out))


def diagnose(
    run: Run,
    benchmark: Benchmark,
    *,
    against: Sequence[Run] = (),
    out: Path | str | None = None,
    device: str = "auto",
    quiet: bool = False,
    **settings: Any,
) -> Diagnosed:
    """Top-k diagnostic accuracy overall and by specialty, before and after; ``.table()`` is a DataFrame.

    Args:
        against: runs to compare with; without any, the model before the run's training where it was asked.
        out: folder of tables and report; None: one in the run's.
        settings: as `medunlearn diagnose --help` lists them.
    """
    from medunlearn.papers.memorization.diagnosis.diagnose import diagnose as found

    checked = check(DiagnoseSettings, settings)
    where = None if out is None else Path(out)
    return found(run, benchmark, checked, against=against, out=where, device=device, quiet=quiet)


def judge(
    what: Run | Benchmark | Path | str,
    *,
    llm: Llm,
    llm_model: str | None = None,
    task: str | None = None,
    benchmark: Benchmark | Path | None = None,
    out: Path | str | None = None,
    allow_remote_llm: bool = False,
    again: bool = False,
    allow_missing: bool = False,
    quiet: bool = False,
    **settings: Any,
) -> JudgingRun:
    """Judge labels or questions of a benchmark or table, or the responses of an evaluated run. Resumes.

    Args:
        what: an evaluated run, a benchmark, or the path of a table.
        llm: a server's address (with ``llm_model``), a YAML file, or a list of server settings.
        task: ``label``, ``question`` or ``factuality``; of a run always the last.
        benchmark: of a run.
        out: folder of the result; of a run, its own folder is taken.
        allow_remote_llm: protected data may go to servers off this machine.
        again: ask again what ended without a usable answer.
        allow_missing: finish though judgements are missing.
        settings: as `medunlearn judge --help` lists them.
    """
    judges = judges_of(llm, llm_model)
    asked = job(what, judges, check(JudgeSettings, settings), task, benchmark, out)
    return asked.run(permitted=allow_remote_llm, again=again, allow_missing=allow_missing, quiet=quiet)


def annotate(judged: JudgingRun, *, out: Path | str, number: int | None = None, seed: int = 0) -> tuple[Path, Path]:
    """Write a CSV and a local page for a person who checks what judges judged; returns where they are."""
    return _annotate(judged, Path(out), number=number, seed=seed)


def agree(judged: JudgingRun, labels: Sequence[Path | str]) -> PeopleAgreement:
    """Compare judges with people's labels, and people with each other."""
    return _agree(judged, [Path(path) for path in labels])


def report(
    runs: Sequence[Run],
    *,
    out: Path | str,
    benchmark: Benchmark | None = None,
    split: str | None = None,
    title: str = "Unlearning report",
    show_text: bool = False,
    seed: int = 0,
) -> Path:
    """Write report.html, report.md and report.json from evaluated runs; returns the HTML file's path.

    Args:
        runs: evaluated on one split; runs of :func:`judge` on the benchmark among them become tables of a panel.
        benchmark: needed to show examples of answers.
        show_text: show text of real records (an invented benchmark's is always shown).
    """
    trained, judged = split_runs(runs)
    models = [Evaluated.find(run, split) for run in trained]
    return write_report(gather(title, models, benchmark, judged=judged, show_text=show_text, seed=seed), Path(out))


def export(source: Run | Path | str, out: Path | str, *, push: str | None = None, private: bool = False) -> Path:
    """Write a model as a full Hugging Face folder: LoRA is merged, a delta is put together with its base.

    Args:
        source: a run, or a model folder.
        push: hub id ``org/name`` to send it to as well, under the hub's login.
        private: the repository that ``push`` makes is private.
    """
    return _export(source.folder if isinstance(source, Run) else source, Path(out), push=push, private=private)


def run(
    experiment: Path | str | dict[str, Any], *, device: str = "auto", quiet: bool = False, **overrides: Any
) -> Finished:
    """Run an experiment from its file or its settings; resumes.

    Args:
        overrides: settings that replace the file's; nested ones as ``**{"train.lr": 1e-3}``.
    """
    from medunlearn.pipeline.experiment import plan, run_experiment

    values = experiment if isinstance(experiment, dict) else read_yaml(Path(experiment))
    return run_experiment(plan(merge(values, overrides)), device=device, quiet=quiet)


def plan(experiment: Path | str | dict[str, Any], *, device: str = "auto", **overrides: Any) -> Forecast:
    """What `run` would still do and what that takes: tokens, FLOPs, memory, disk. Runs nothing.

    ``.table()`` is a DataFrame with a row a stage; ``.warnings`` says what will not fit.

    Args:
        overrides: as for :func:`run`.
    """
    from medunlearn.pipeline.estimate.forecast import forecast
    from medunlearn.pipeline.experiment import plan as checked

    values = experiment if isinstance(experiment, dict) else read_yaml(Path(experiment))
    return forecast(checked(merge(values, overrides)), device=device)


def sweep(
    sweep: Path | str | dict[str, Any],
    *,
    jobs: int | None = None,
    device: str = "auto",
    quiet: bool = False,
    **overrides: Any,
) -> Swept:
    """Run a sweep, methods x splits x seeds, from its file or its settings; resumes.

    A cell that fails stops only those that need it: ``.failed`` names them with their reasons. ``.table()`` is a
    DataFrame with every model's summary; ``.cells`` has a row a cell, ``.search`` a row a rate that was tried.

    Args:
        jobs: cells at the same time, each in a process of its own; None for one a GPU, or one a core.
        overrides: as for :func:`run`.
    """
    from medunlearn.pipeline.sweep.plan import plan as checked
    from medunlearn.pipeline.sweep.run import run_sweep

    values = sweep if isinstance(sweep, dict) else read_yaml(Path(sweep))
    return run_sweep(checked(merge(values, overrides)), jobs=jobs, device=device, quiet=quiet)
