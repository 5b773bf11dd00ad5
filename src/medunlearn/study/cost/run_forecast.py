"""Forecast of an experiment, stage by stage, without completed work. Runs, loads, writes and downloads nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

from medunlearn.config import EvaluateSettings, TrainSettings, UnlearnSettings
from medunlearn.data.benchmark import MANIFEST, Benchmark
from medunlearn.data.fact_ranks import rank_settings
from medunlearn.probes.question_selection import questions_to_ask
from medunlearn.results.runs import Run, is_complete
from medunlearn.study.benchmark_builds import needs_folder, open_section
from medunlearn.study.cost.capacity import capacity_of, is_gpu
from medunlearn.study.cost.formulas import Cost
from medunlearn.study.cost.forecast import Forecast, PlannedStage
from medunlearn.study.cost.missing import NOT_BUILT, missing_parts
from medunlearn.study.cost.pricing import Pricing
from medunlearn.study.epochs.epoch_settings import check_watched
from medunlearn.study.experiment import Experiment, benchmark_folder, run_folder
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
    return Forecast(settings.name, tuple(stages), capacity, doubts, missing)


def _names(experiment: Experiment) -> Iterator[str]:
    models = ["target", *(["retrained"] if experiment.retrained else []), *(own.method for own in experiment.methods)]
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
            is_run = folder is not None and is_complete(folder)
            is_done = is_run and is_complete(place(Run.open(folder)))
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


def training_stage(name: str, pricing: Pricing, settings: TrainSettings, out: Path | None) -> PlannedStage:
    """Stage of a `train` run, from its last checkpoint on."""
    return _resumed(name, out, pricing.training(settings), pricing.phases(settings))


def unlearning_stage(name: str, pricing: Pricing, settings: UnlearnSettings, out: Path | None) -> PlannedStage:
    """Stage of an `unlearn` run, from its last checkpoint on."""
    cost = pricing.unlearning(settings)
    return _resumed(name, out, cost, {"unlearn": cost})


def _resumed(name: str, out: Path | None, whole: Cost, phases: Mapping[str, Cost]) -> PlannedStage:
    if is_complete(out):
        return PlannedStage(name, "done")
    cost, notes = whole, list[str]()
    for phase, own in phases.items():
        checkpoints = (out or Path("-")).glob(f"checkpoints/{phase}/step-*/state.json")
        if start := max((int(path.parent.name.split("-")[1]) for path in checkpoints), default=0):
            notes.append(f"{phase} at step {start} of {own.steps}")
            share = start / max(1, own.steps)
            numbers = {name: getattr(cost, name) - share * getattr(own, name) for name in ("flops", "tokens")}
            cost = replace(cost, **numbers, steps=cost.steps - start)
    return PlannedStage(name, "resumes" if notes else "to do", ", ".join(notes), cost)


def evaluation_stage(name: str, pricing: Pricing, settings: EvaluateSettings, run: Path | None) -> PlannedStage:
    """Stage of an evaluation of the model in a run's folder, without stored answers and ranks."""
    if run is None or not is_complete(run):
        return PlannedStage(name, cost=pricing.evaluating(settings))
    from medunlearn.probes.evaluate import evaluation_folder

    model, benchmark = Run.open(run), pricing.benchmark
    if is_complete(evaluation_folder(model, benchmark, settings)):
        return PlannedStage(name, "done")
    if not (run / "responses").exists():
        return PlannedStage(name, cost=pricing.evaluating(settings))
    from medunlearn.models.pretrained import load_tokenizer
    from medunlearn.probes.questioning import longest_answer, store_of

    rendering = model.rendering(settings.template, settings.context)
    questions = questions_to_ask(benchmark, benchmark.split(settings.split), settings)
    limit = settings.max_new_tokens or longest_answer(load_tokenizer(model.model), benchmark)
    stored = store_of(model, benchmark, settings, rendering, limit).read()
    left = [q for q in questions if (q.question_id, rendering.context, 0) not in stored]
    ranks = store_of(
        model, benchmark, settings, rendering, 0, ranks=rank_settings(settings.alternatives, settings.versions)
    )
    unranked = max(0.0, 1 - len(ranks.read()) / max(1.0, pricing.ranks(settings).facts))
    cost = pricing.answering(left, settings) + pricing.ranking(settings).times(unranked)
    if len(left) == len(questions):
        return PlannedStage(name, cost=cost)
    return PlannedStage(name, "resumes", f"{len(questions) - len(left)} of {len(questions)} answers are there", cost)
