"""One experiment, end to end: build, train, retrain, unlearn with each method, evaluate, report.

Every stage is a run in a folder named by its stage and key. A repeated experiment runs only pending stages; after a
changed setting it reruns what depends on it, and leaves the rest in place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from medunlearn.config import (
    TINIES,
    AdoptSettings,
    AttackSettings,
    EvaluateSettings,
    ExperimentSettings,
    SweepSettings,
    TrainSettings,
    UnlearnSettings,
    UtilitySettings,
    check,
)
from medunlearn.config.experiments import refuse_file_of_other_verb
from medunlearn.config.settings import flat_list
from medunlearn.data.benchmark import Benchmark
from medunlearn.data.folder_lock import lock_folder
from medunlearn.data.storage import read_json, sha256_of_json
from medunlearn.errors import ConfigError, ModelError, NonFiniteLossError
from medunlearn.models.folders import model_identity
from medunlearn.probes.keyword_stage import find_keywords
from medunlearn.results.evaluated import Evaluated
from medunlearn.results.keys import keyed_folder
from medunlearn.results.runs import FILE, Recording, Run
from medunlearn.study.benchmark_builds import from_section
from medunlearn.study.epochs.epoch_settings import (
    attack_section,
    check_watched,
    collect,
    epoch_settings,
    utility_section,
)
from medunlearn.study.judge_stage import JudgeStage, judge_all, judge_section, judged_runs
from medunlearn.study.part_check import Outline, check_unlearning, outline_with
from medunlearn.study.presets import RETRAINED, train_settings, unlearn_settings, with_retrained
from medunlearn.study.sized_defaults import fit_to_model
from medunlearn.study.unscored_cells import unscored_cells
from medunlearn.training.processes import Processes, join

if TYPE_CHECKING:
    from medunlearn.reports.view import ResultView


@dataclass(frozen=True)
class Experiment:
    """A validated experiment: the settings of the whole and of each stage; None for a skipped stage."""

    settings: ExperimentSettings
    target: TrainSettings
    retrained: TrainSettings | None
    methods: tuple[UnlearnSettings, ...]
    evaluate: EvaluateSettings
    attack: AttackSettings | None = None
    utility: UtilitySettings | None = None
    adopt: tuple[str, AdoptSettings] | None = None
    judges: JudgeStage | None = None

    def fitted(self, target: Run | None, benchmark: Benchmark) -> Iterator[UnlearnSettings]:
        """Each method's settings, with the rate and epochs that follow from size where nobody gave them.

        Args:
            target: None if it is not trained yet: the epochs alone.
        """
        parameters = None if target is None else target.info.results.get("parameters")
        return (fit_to_model(settings, parameters, benchmark) for settings in self.methods)


class Finished(NamedTuple):
    """Results of an experiment.

    Attributes:
        report: ``report.html``, next to ``report.md`` and ``report.json``.
        failed: name and reason of each missing model, whose weights are not finite, failed attack, and measure that
            scored nothing.
    """

    report: Path
    content: Any
    failed: tuple[tuple[str, str], ...] = ()

    def view(self) -> ResultView:
        """Utility and forgetting of each model and its distance to the retrained model, for the terminal."""
        from medunlearn.reports.claims import findings_text, verdicts
        from medunlearn.reports.models_screen import ModelsScreen
        from medunlearn.reports.view import ResultView

        findings, content = self.content.paper.findings, self.content
        headline = read_json(self.report.with_suffix(".json"))["headline"]
        data = {"report": str(self.report), **headline, **({"findings": verdicts(findings)} if findings else {})}
        lines = (*(content.reference.caveats if content.reference else ()), findings_text(findings))
        reasons = "".join(f"\n  - {name}: {reason}" for name, reason in self.failed)
        failure = f"{len(self.failed)} results are missing; the others are in {self.report}.{reasons}"
        return ResultView(
            data,
            [(content.title, ModelsScreen(content).table())],
            [*filter(None, lines)],
            content.broken,
            failure=failure if self.failed else "",
        )


def plan(values: dict[str, Any]) -> Experiment:
    """Validate an experiment before anything runs. Raises ConfigError: every mistake in every section, at once."""
    refuse_file_of_other_verb("run", values)
    settings = check(ExperimentSettings, values)
    problems: list[str] = []
    shared = {"seed": settings.seed}
    target = collect(problems, "train", lambda: train_settings({**shared, **settings.train}))
    outline, section = outline_with(problems, target), dict(settings.unlearn)
    methods = [
        collect(problems, "unlearn", lambda: _method(name, section, settings, target, outline))  # noqa: B023
        for name in methods_named(problems, section)
    ]
    on = shared | {"split": settings.split}
    evaluation = collect(problems, "evaluate", lambda: check(EvaluateSettings, {**on, **settings.evaluate}))
    attack = collect(problems, "attack", lambda: attack_section(settings.attack, on))
    utility = collect(problems, "utility", lambda: utility_section(settings.utility, shared))
    adopted = collect(problems, "adopt", lambda: _adoption(settings))
    judges = collect(problems, "judge", lambda: judge_section(settings.judge, shared))
    if problems or target is None or evaluation is None:
        raise ConfigError(list(dict.fromkeys(problems)))
    retrained = target.model_copy(update={"without": settings.split}) if settings.retrain else None
    if retrained is None and any(m and m.arguments.get("reference") == RETRAINED for m in methods):
        raise ConfigError(["a method's reference=retrained needs the retrained model: leave out retrain: false"])
    checked = tuple(method for method in methods if method)
    return Experiment(settings, target, retrained, checked, evaluation, attack, utility, adopted, judges)


def methods_named(problems: list[str], section: dict[str, Any]) -> list[str]:
    """Take the methods out of a section ``unlearn``: a list, or names separated by commas."""
    names = flat_list(section.pop("methods", None))
    if not isinstance(names, list) or not names:
        problems.append("unlearn.methods is missing: a list of methods, e.g. [graddiff, npo]")
        return []
    names = [str(name) for name in names]
    for name in dict.fromkeys(name for name in names if names.count(name) > 1):
        problems.append(f"unlearn.methods names {name!r} twice; each needs settings of its own: another experiment")
    return names


def _adoption(settings: ExperimentSettings) -> tuple[str, AdoptSettings] | None:
    """The adopted model that replaces a trained target, with its settings; None if the target is trained.

    Raises:
        ConfigError: every mistake; documents held out from training, although the model may have seen them.
    """
    if settings.adopt is None:
        return None
    values, problems = {"seed": settings.seed, **settings.adopt}, list[str]()
    model = values.pop("model", None)
    if not isinstance(model, str) or not model.strip():
        problems.append("model is missing: the folder or hub id (org/name) of the target model")
    for key in ("role", "without"):
        if values.pop(key, None) is not None:
            problems.append(f"{key}: the target is adopted; leave it out. The retrained model is trained (retrain)")
    if settings.benchmark.get("nonmember_documents"):
        problems.append(
            "benchmark.nonmember_documents keeps documents from training, and the adopted model was trained on "
            "all of them: leave it out (nonmembers names a file with others), or train the target (adopt: null)"
        )
    try:
        checked = check(AdoptSettings, values)
    except ConfigError as error:
        problems += error.problems
    if problems:
        raise ConfigError(problems)
    return str(model), checked


def _method(
    name: str,
    section: dict[str, Any],
    settings: ExperimentSettings,
    target: TrainSettings | None,
    outline: Outline | None,
) -> UnlearnSettings:
    tiny = None if target is None else TINIES.get(target.model)
    values = {"seed": settings.seed, **section, "method": name, "split": settings.split}
    checked = unlearn_settings(values, tiny=tiny)
    # A preset may say it too.
    if checked.evaluate_every:
        for part in ("evaluate", "attack", "utility"):
            values[part] = {**getattr(settings, part), **(values.get(part) or {})}
        checked = unlearn_settings(values, tiny=tiny)
    epoch_settings(checked, checked.split)
    check_unlearning(checked, outline)
    return checked


def run_experiment(
    experiment: Experiment,
    *,
    device: str = "auto",
    quiet: bool = False,
    say: Callable[[str], None] = lambda line: None,
) -> Finished:
    """Run the pending stages.

    Args:
        say: called with one line at the start of each stage.

    A method with NaN or infinity does not stop the others: see :attr:`Finished.failed`.

    Raises:
        InputError: another process writes to the experiment's folder.
        MedunlearnError: a stage failed; completed stages are kept, and the same call resumes.
    """
    processes = join()
    with ExitStack() as lock:
        with processes.barrier():
            if processes.main:
                lock.enter_context(lock_folder(experiment.settings.out, "run"))
        return _run_stages(experiment, processes, device, quiet, say)


def _run_stages(
    experiment: Experiment, processes: Processes, device: str, quiet: bool, say: Callable[[str], None]
) -> Finished:
    from medunlearn.metrics.leakage import keywords
    from medunlearn.probes.score import metric_names
    from medunlearn.study.adopt import adopt
    from medunlearn.study.train import train
    from medunlearn.study.unlearn import unlearn

    settings = experiment.settings
    folder = benchmark_folder(settings)
    with processes.main_first():
        benchmark = from_section(settings.benchmark, folder)
    benchmark.split(settings.split)
    keywords.inputs(benchmark, experiment.evaluate, metric_names(benchmark, experiment.evaluate))
    check_watched(benchmark, experiment.attack, experiment.utility)
    if experiment.judges and (refused := experiment.judges.why_not(benchmark)):
        raise ConfigError(refused)
    say(f"benchmark: {benchmark.name}, {len(benchmark.records)} records, {len(benchmark.questions)} questions")
    with processes.barrier():
        if processes.main:
            find_keywords(benchmark, experiment.evaluate, settings.extractor_python, say=say)
    runs: list[Run] = []
    if experiment.adopt is not None:
        model, how = experiment.adopt
        say(f"target model: adopts {model}")
        runs.append(adopt(model, benchmark, how, beside=settings.out, device=device, quiet=quiet))
    for name, line, training in (
        ("target", "target model: trains on everything", None if runs else experiment.target),
        ("retrained", "retrained model: never sees the forget set", experiment.retrained),
    ):
        if training is not None:
            say(line)
            out = run_folder(benchmark, training, name, training.model, settings.out)
            runs.append(train(benchmark, training, out, device=device, quiet=quiet))
    target, failed = runs[0], list[tuple[str, str]]()
    for method in (with_retrained(own, runs[-1].folder) for own in experiment.fitted(target, benchmark)):
        say(f"unlearning: {method.method}")
        out = run_folder(benchmark, method, method.method, target.folder, settings.out)
        try:
            runs.append(unlearn(target, benchmark, method, out, device=device, quiet=quiet))
        except NonFiniteLossError as error:
            if processes.world > 1:
                raise
            failed.append((method.method, str(error)))
            say(f"{method.method}: failed: {error}")
    say("evaluating every model on the same questions")
    if experiment.attack is not None:
        say(f"attacking every model: {', '.join(experiment.attack.attacks)}")
    if experiment.utility is not None:
        say(f"measuring every model's utility: {', '.join(experiment.utility.tasks)}")
    place = processes.device(device)
    models, broken = _evaluate_models(experiment, benchmark, runs, processes, place, quiet)
    finished = processes.on_main(lambda: _write_report(experiment, benchmark, models, quiet, say))
    finished = finished._replace(failed=(*failed, *broken, *finished.failed))
    for name, reason in broken:
        say(f"{name}: failed: {reason}")
    say(f"report: {finished.report}")
    return finished


def _evaluate_models(
    experiment: Experiment, benchmark: Benchmark, runs: list[Run], processes: Processes, device: str, quiet: bool
) -> tuple[list[Evaluated], list[tuple[str, str]]]:
    """Ask, attack and measure every model, in all processes; returns them with names and reasons of broken
    models.
    """
    from medunlearn.attacks.attack_run import attack_each
    from medunlearn.probes.evaluate import evaluate_together
    from medunlearn.probes.shared_work import SharedWork
    from medunlearn.probes.utility.harness_run import utility_one

    models, failed, work, attacks = list[Evaluated](), list[tuple[str, str]](), SharedWork(), list[Run]()
    for run in runs:
        try:
            how = (benchmark, experiment.evaluate, processes)
            models.append(evaluate_together(run, *how, device=device, quiet=quiet, work=work))
        except ModelError as error:
            if run.role != "unlearned":
                raise
            failed.append((run.label, str(error)))
    del work  # Its model makes room for what comes next.
    if experiment.attack is not None:
        attacked = attack_each(
            [model.run for model in models], benchmark, experiment.attack, device=device, quiet=quiet
        )
        failed += [(f"{model}, {name}", reason) for model, name, reason in attacked.failed]
        attacks = [model.record for model in attacked.models]
    by_label = {model.run.label: model for model in models}
    failed += unscored_cells(by_label, experiment.evaluate, attacks, experiment.attack)
    if experiment.utility is not None:
        for model in models:
            utility_one(model.run, experiment.utility, device=device, quiet=quiet, processes=processes)
    return models, failed


def _write_report(
    experiment: Experiment,
    benchmark: Benchmark,
    models: list[Evaluated],
    quiet: bool,
    say: Callable[[str], None],
) -> Finished:
    """Run the judges, and write the report."""
    from medunlearn.attacks.attacked import FOLDER as ATTACKS
    from medunlearn.reports.write import write_report
    from medunlearn.study.report.gather import gather

    settings, failed = experiment.settings, list[tuple[str, str]]()
    if experiment.judges is not None:
        attacks = [attack for model in models for attack in model.run.complete_below(ATTACKS)]
        failed = judge_all(experiment.judges, benchmark, settings.out, models, attacks, quiet=quiet, say=say)
        models = [Evaluated(model.run, Run.open(model.record.folder)) for model in models]
    content = gather(
        settings.name,
        models,
        benchmark,
        judged=judged_runs(settings.out) if experiment.judges else (),
        show_text=settings.show_text,
        replicates=experiment.evaluate.replicates,
        seed=experiment.evaluate.seed,
    )
    return Finished(write_report(content, settings.out / "report"), content, tuple(failed))


def benchmark_folder(settings: ExperimentSettings | SweepSettings) -> Path:
    """Folder of the benchmark, if the experiment builds one."""
    return settings.out / f"bench-{sha256_of_json(settings.benchmark)[:8]}"


def run_folder(
    benchmark: Benchmark,
    settings: TrainSettings | UnlearnSettings,
    name: str,
    model: Path | str,
    out: Path,
    *,
    identity: Callable[[str], str] = model_identity,
) -> Path:
    """Folder of a training run or of an unlearning method; its name depends on the initial model.

    A matching run in ``out`` with another name is used too.

    Args:
        model: its initial model.
        identity: function that identifies a model; a caching one reads each model once.
    """
    inputs = {"benchmark": benchmark.fingerprint, "model": identity(str(model))}
    verb = "train" if isinstance(settings, TrainSettings) else "unlearn"
    reference = settings.arguments.get("reference") if isinstance(settings, UnlearnSettings) else None
    if isinstance(reference, str) and (Path(reference) / FILE).exists():
        inputs["reference"] = identity(reference)
    return keyed_folder(out, name, Recording.key_of(verb, settings, inputs))
