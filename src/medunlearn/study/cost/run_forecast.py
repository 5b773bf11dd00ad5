"""Forecast of an experiment, stage by stage, without completed work. Runs, loads, writes and downloads nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

from medunlearn.config import EvaluateSettings, TrainSettings, UnlearnSettings
from medunlearn.data.benchmark import MANIFEST, Benchmark
from medunlearn.metrics.leakage import keywords
from medunlearn.probes.score import metric_names
from medunlearn.results.runs import Run, is_complete
from medunlearn.study.benchmark_builds import needs_folder, open_section
from medunlearn.study.cost.capacity import capacity_of, is_gpu
from medunlearn.study.cost.forecast import Forecast, PlannedStage
from medunlearn.study.cost.formulas import Cost
from medunlearn.study.cost.missing import NOT_BUILT, missing_parts
from medunlearn.study.cost.pricing import Pricing
from medunlearn.study.cost.stage_states import evaluation_stage, training_stage, unlearning_stage
from medunlearn.study.epochs.epoch_settings import check_watched
from medunlearn.study.experiment import Experiment, benchmark_folder, run_folder
from medunlearn.study.part_check import check_training, check_unlearning, outline_of, trained_outline
from medunlearn.training.processes import join

SHARDED_PLAN = (
    "With sharding, each process holds a share of the decoder layers; the memory here is that of one process that "
    "holds all. Give the plan by torchrun too, with as many processes as the run will have."
)


def forecast(experiment: Experiment, *, device: str = "auto") -> Forecast:
    """Remaining work of an experiment and its price.

    Raises:
        InputError: a benchmark, split, method or model that the run would refuse.
    """
    settings, target = experiment.settings, experiment.target
    section, folder = settings.benchmark, benchmark_folder(settings)
    capacity, is_built = capacity_of(device, settings.out), "folder" in section or (folder / MANIFEST).exists()
    benchmark = None if needs_folder(section) and not is_built else open_section(section, folder)
    if benchmark is not None:
        benchmark.split(settings.split)
        check_watched(benchmark, experiment.attack, experiment.utility if find_spec("lm_eval") else None)
        if experiment.evaluate.extractor != "scispacy" or find_spec("scispacy"):
            keywords.inputs(benchmark, experiment.evaluate, metric_names(benchmark, experiment.evaluate))
    missing = tuple(
        missing_parts(
            benchmark,
            target.model,
            experiment.evaluate,
            experiment.utility,
            experiment.judges.judges if experiment.judges else (),
            extracts_here=settings.extractor_python is None,
        )
    )
    if benchmark is None:
        stages = [PlannedStage(name, note="its price is not known") for name in _names(experiment)]
        return Forecast(settings.name, (PlannedStage("benchmark"), *stages), capacity, (), (NOT_BUILT, *missing))
    processes = join().world
    pricing = Pricing.of(benchmark, target, on_gpu=is_gpu(device), processes=processes)
    text = sum(len(record.text) for record in benchmark.records)
    text += sum(len(question.question) + len(question.answer) for question in benchmark.questions)
    first = PlannedStage("benchmark", "done") if is_built else PlannedStage("benchmark", cost=Cost(disk=text))
    doubts = pricing.doubts
    if processes == 1 and any(own.sharding != "none" for own in (target, *experiment.methods)):
        doubts += (SHARDED_PLAN,)
    stages = [first, *_stages(experiment, benchmark, pricing), PlannedStage("report")]
    return Forecast(settings.name, tuple(stages), capacity, doubts, missing, bool(pricing.shape.doubt))


def _names(experiment: Experiment) -> Iterator[str]:
    models = [
        "target",
        *(["retrained"] if experiment.retrained else []),
        *(own.method for own in experiment.methods),
    ]
    yield from models
    yield from (f"evaluate {model}" for model in models)
    yield from (f"attack {model}" for model in models if experiment.attack)
    yield from (f"utility {model}" for model in models if experiment.utility)
    yield "report"


def _stages(experiment: Experiment, benchmark: Benchmark, pricing: Pricing) -> Iterator[PlannedStage]:
    settings, folders = experiment.settings, dict[str, Path | None]()
    if experiment.adopt is not None:
        yield PlannedStage("target", note=f"{experiment.adopt[0]} is adopted; nothing is trained")
        folders["target"] = None
    own = None if experiment.adopt is not None else experiment.target
    for name, train in (("target", own), ("retrained", experiment.retrained)):
        if train is not None:
            folders[name] = out = run_folder(benchmark, train, name, train.model, settings.out)
            yield training_stage(name, pricing, train, out)
    # The folder of an unlearning run depends on the trained target.
    trained = folders["target"] if is_complete(folders["target"]) else None
    for method in experiment.methods:
        folder = run_folder(benchmark, method, method.method, trained, settings.out) if trained else None
        folders[method.method] = folder
        yield unlearning_stage(method.method, pricing, method, folder)
    for name, folder in folders.items():
        yield evaluation_stage(f"evaluate {name}", pricing, experiment.evaluate, folder)
    yield from _attacks_and_utility(experiment, benchmark, pricing, folders)


def _attacks_and_utility(
    experiment: Experiment, benchmark: Benchmark, pricing: Pricing, folders: Mapping[str, Path | None]
) -> Iterator[PlannedStage]:
    """Attacks and utility of every model; the harness's tasks have no price."""

    def of_each(verb: str, place: Callable[[Run], Path], price: PlannedStage) -> Iterator[PlannedStage]:
        for name, folder in folders.items():
            is_done = folder is not None and is_complete(folder) and is_complete(place(Run.open(folder)))
            title = f"{verb} {name}"
            yield PlannedStage(title, "done") if is_done else replace(price, name=title)

    if (attack := experiment.attack) is not None:
        from medunlearn.attacks.attack_run import attack_folder

        prices = pricing.attacks(attack).values()
        note = "; ".join(price.note for price in prices if price.note)
        whole = PlannedStage("attack", note=note, cost=sum((price.cost for price in prices), Cost()))
        yield from of_each("attack", lambda run: attack_folder(run, benchmark, attack), whole)
    if (utility := experiment.utility) is not None:
        from medunlearn.probes.utility.harness_run import utility_folder

        not_known = PlannedStage("utility", note="cost not estimated: the harness reads its tasks when it runs")
        yield from of_each("utility", lambda run: utility_folder(run, utility), not_known)


def forecast_training(benchmark: Benchmark, settings: TrainSettings, out: Path | None, device: str) -> Forecast:
    """Price of a `train` run. Raises ConfigError: the model lacks the parameters to train."""
    check_training(settings, trained_outline(settings))
    pricing = Pricing.of(benchmark, settings, on_gpu=is_gpu(device), processes=join().world)
    return _single(pricing, training_stage("train", pricing, settings, out), out, device)


def forecast_unlearning(
    target: Run, benchmark: Benchmark, settings: UnlearnSettings, out: Path | None, device: str
) -> Forecast:
    """Price of an `unlearn` run. Raises ConfigError: the model lacks the layers or parameters to train."""
    check_unlearning(settings, outline_of(str(target.model)))
    pricing = Pricing.of_run(target, benchmark, on_gpu=is_gpu(device), processes=join().world)
    return _single(pricing, unlearning_stage(settings.method, pricing, settings, out), out, device)


def forecast_evaluation(
    runs: Sequence[Run], benchmark: Benchmark, settings: EvaluateSettings, device: str
) -> Forecast:
    """Price of an evaluation of some models."""
    stages, forecasts = list[PlannedStage](), list[Forecast]()
    for run in runs:
        pricing = Pricing.of_run(run, benchmark, on_gpu=is_gpu(device), processes=join().world)
        stages.append(evaluation_stage(f"evaluate {run.label}", pricing, settings, run.folder))
        forecasts.append(_single(pricing, stages[-1], run.folder, device))
    missing = tuple(missing_parts(benchmark, str(runs[0].model), settings))
    return replace(forecasts[0], name="evaluate", stages=tuple(stages), missing=missing)


def _single(pricing: Pricing, stage: PlannedStage, out: Path | None, device: str) -> Forecast:
    capacity, guessed = capacity_of(device, out or Path()), bool(pricing.shape.doubt)
    return Forecast(stage.name, (stage,), capacity, pricing.doubts, (), guessed)
