"""Forecast of an experiment, stage by stage, without completed work. Runs, loads, writes and downloads nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from medunlearn.config import EvaluateSettings, TrainSettings, UnlearnSettings
from medunlearn.data.benchmark import MANIFEST, Benchmark
from medunlearn.metrics.leakage import keywords
from medunlearn.probes.score import metric_names
from medunlearn.results.runs import Run, is_complete
from medunlearn.study.benchmark_builds import needs_folder, open_section
from medunlearn.study.cost.formulas import Cost
from medunlearn.study.cost.pricing import Pricing
from medunlearn.study.epochs.epoch_settings import check_watched
from medunlearn.study.experiment import Experiment, benchmark_folder, run_folder
from medunlearn.study.part_check import check_training, check_unlearning, outline_of, trained_outline
from medunlearn.study.plans.capacity import Capacity, capacity_of, capacity_of_named, is_gpu
from medunlearn.study.plans.forecast import Forecast, PlannedStage
from medunlearn.study.plans.missing import NOT_BUILT, missing_parts
from medunlearn.study.plans.stage_states import evaluation_stage, training_stage, unlearning_stage
from medunlearn.study.presets import presets
from medunlearn.training.processes import join

SHARDED_PLAN = (
    "With sharding, each process holds a share of the decoder layers; the memory here is that of one process that "
    "holds all. Give the plan by torchrun too, with as many processes as the run will have."
)
PRESET_PLAN = "The memory is that of one of the {} processes that share a training (preset {})."


def forecast(experiment: Experiment, *, device: str = "auto") -> Forecast:
    """Remaining work of an experiment and its price.

    Raises:
        InputError: a benchmark, split, method or model that the run would refuse.
    """
    settings, target = experiment.settings, experiment.target
    section, folder = settings.benchmark, benchmark_folder(settings)
    capacity, is_built = _capacity(experiment, device), "folder" in section or (folder / MANIFEST).exists()
    benchmark = None if needs_folder(section) and not is_built else open_section(section, folder)
    if benchmark is not None:
        benchmark.split(settings.split)
        # The harness's tasks are looked up when the run starts: its index takes longer than a plan may.
        check_watched(benchmark, experiment.attack, None)
        if experiment.evaluate.extractor != "scispacy" or find_spec("scispacy"):
            keywords.inputs(benchmark, experiment.evaluate, metric_names(benchmark, experiment.evaluate))
    missing = missing_parts(
        benchmark,
        target.model,
        experiment.evaluate,
        experiment.utility,
        experiment.judges.judges if experiment.judges else (),
        extracts_here=settings.extractor_python is None,
    )
    if benchmark is None:
        stages = [PlannedStage(name, note="its price is not known") for name in _names(experiment)]
        return Forecast(settings.name, (PlannedStage("benchmark"), *stages), capacity, (), (NOT_BUILT, *missing))
    pricing = Pricing.of(benchmark, target, **_shared(experiment, device))
    if any(own.sharding != "none" for own in (target, *experiment.methods)):
        pricing.doubts += tuple(_sharing(experiment, pricing.processes))
    text = sum(len(record.text) for record in benchmark.records)
    text += sum(len(question.question) + len(question.answer) for question in benchmark.questions)
    first = PlannedStage("benchmark", "done") if is_built else PlannedStage("benchmark", cost=Cost(disk=text))
    stages = [first, *_stages(experiment, pricing), PlannedStage("report")]
    return _forecast(settings.name, stages, pricing, capacity, missing)


def _names(experiment: Experiment) -> Iterator[str]:
    models = [
        "target",
        *(["retrained"] if experiment.retrained else []),
        *(own.method for own in experiment.methods),
    ]
    verbs = ["evaluate", *(verb for verb in ("attack", "utility") if getattr(experiment, verb))]
    yield from (*models, *(f"{verb} {model}" for verb in verbs for model in models), "report")


def _stages(experiment: Experiment, pricing: Pricing) -> Iterator[PlannedStage]:
    """Stages of every model; the harness's tasks have no price."""
    out, benchmark, folders = experiment.settings.out, pricing.benchmark, dict[str, Path | None]()
    if experiment.adopt is not None:
        yield PlannedStage("target", note=f"{experiment.adopt[0]} is adopted; nothing is trained")
        folders["target"] = None
    own = None if experiment.adopt is not None else experiment.target
    for name, train in (("target", own), ("retrained", experiment.retrained)):
        if train is not None:
            folders[name] = run_folder(benchmark, train, name, train.model, out)
            yield training_stage(name, pricing, train, folders[name])
    # The folder of an unlearning run depends on the trained target.
    trained = folders["target"] if is_complete(folders["target"]) else None
    for method in experiment.fitted(Run.open(trained) if trained else None, benchmark):
        folder = run_folder(benchmark, method, method.method, trained, out) if trained else None
        folders[method.method] = folder
        yield unlearning_stage(method.method, pricing, method, folder)
    for name, folder in folders.items():
        yield evaluation_stage(f"evaluate {name}", pricing, experiment.evaluate, folder)
    if (attack := experiment.attack) is not None:
        from medunlearn.attacks.attack_run import attack_folder

        beside = [folders.get(name) for name in ("target", "retrained")]
        others = [Run.open(folder) for folder in beside if folder is not None and is_complete(folder)]
        priced = pricing.attacking(attack)
        yield from _of_each(folders, priced, lambda run: attack_folder(run, benchmark, attack, others))
    if (utility := experiment.utility) is not None:
        from medunlearn.probes.utility.harness_run import utility_folder

        not_known = PlannedStage("utility", note="cost not estimated: the harness reads its tasks when it runs")
        yield from _of_each(folders, not_known, lambda run: utility_folder(run, utility))


def _of_each(
    folders: Mapping[str, Path | None], stage: PlannedStage, place: Callable[[Run], Path]
) -> Iterator[PlannedStage]:
    """The stage of each model; without its cost where its folder is complete."""
    for model, folder in folders.items():
        is_done = folder is not None and is_complete(folder) and is_complete(place(Run.open(folder)))
        name = f"{stage.name} {model}"
        yield PlannedStage(name, "done") if is_done else replace(stage, name=name)


def forecast_training(benchmark: Benchmark, settings: TrainSettings, out: Path | None, device: str) -> Forecast:
    """Price of a `train` run. Raises ConfigError: the model lacks the parameters to train."""
    check_training(settings, trained_outline(settings))
    pricing = Pricing.of(benchmark, settings, **_place(device))
    stage = training_stage("train", pricing, settings, out)
    return _forecast(stage.name, [stage], pricing, capacity_of(device, out or Path()))


def forecast_unlearning(
    target: Run, benchmark: Benchmark, settings: UnlearnSettings, out: Path | None, device: str
) -> Forecast:
    """Price of an `unlearn` run. Raises ConfigError: the model lacks the layers or parameters to train."""
    check_unlearning(settings, outline_of(str(target.model)))
    pricing = Pricing.of_run(target, benchmark, **_place(device))
    stage = unlearning_stage(settings.method, pricing, settings, out)
    return _forecast(stage.name, [stage], pricing, capacity_of(device, out or Path()))


def forecast_evaluation(
    runs: Sequence[Run], benchmark: Benchmark, settings: EvaluateSettings, device: str
) -> Forecast:
    """Price of an evaluation of some models."""
    prices = [Pricing.of_run(run, benchmark, **_place(device)) for run in runs]
    models = zip(runs, prices, strict=True)
    stages = [evaluation_stage(f"evaluate {run.label}", pricing, settings, run.folder) for run, pricing in models]
    missing = missing_parts(benchmark, str(runs[0].model), settings)
    return _forecast("evaluate", stages, prices[0], capacity_of(device, runs[0].folder), missing)


def _capacity(experiment: Experiment, device: str) -> Capacity:
    name, out = experiment.settings.device_name, experiment.settings.out
    return capacity_of(device, out) if name is None else capacity_of_named(name, out)


def _shared(experiment: Experiment, device: str) -> dict[str, Any]:
    """Place of a run: its own processes, or as many as the preset of a sharded training is made for."""
    place = _place(device) if experiment.settings.device_name is None else {**_place("cpu"), "on_gpu": True}
    if place["processes"] > 1 or experiment.target.sharding == "none":
        return place
    return {**place, "processes": _processes_of(experiment)}


def _processes_of(experiment: Experiment) -> int:
    preset = presets().get(str(experiment.settings.train.get("preset")))
    return 1 if preset is None else preset.processes


def _sharing(experiment: Experiment, processes: int) -> Iterator[str]:
    """Sentence on the number of processes that a sharded training was planned for."""
    if processes == 1:
        yield SHARDED_PLAN
    elif join().world == 1:
        yield PRESET_PLAN.format(processes, experiment.settings.train["preset"])


def _place(device: str) -> dict[str, Any]:
    return {"on_gpu": is_gpu(device), "processes": join().world}


def _forecast(
    name: str, stages: Sequence[PlannedStage], pricing: Pricing, capacity: Capacity, missing: Iterable[str] = ()
) -> Forecast:
    return Forecast(name, tuple(stages), capacity, pricing.doubts, tuple(missing), bool(pricing.shape.doubt))
