"""Stages of a plan with their states: what is done, or done in part, has a lower price or none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from medunlearn.config import EvaluateSettings, TrainSettings, UnlearnSettings
from medunlearn.data.fact_ranks import rank_settings
from medunlearn.probes.question_selection import questions_to_ask
from medunlearn.results.runs import Run, is_complete
from medunlearn.study.cost.forecast import PlannedStage
from medunlearn.study.cost.formulas import Cost
from medunlearn.study.cost.model_pricing import ModelPricing


def training_stage(name: str, pricing: ModelPricing, settings: TrainSettings, out: Path | None) -> PlannedStage:
    """Stage of a `train` run, from its last checkpoint on."""
    return _resumed(name, out, pricing.training(settings), pricing.phases(settings))


def unlearning_stage(name: str, pricing: ModelPricing, settings: UnlearnSettings, out: Path | None) -> PlannedStage:
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


def evaluation_stage(
    name: str, pricing: ModelPricing, settings: EvaluateSettings, run: Path | None
) -> PlannedStage:
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
    remaining = [q for q in questions if (q.question_id, rendering.context, 0) not in stored]
    ranks = store_of(
        model, benchmark, settings, rendering, 0, ranks=rank_settings(settings.alternatives, settings.versions)
    )
    unranked = max(0.0, 1 - len(ranks.read()) / max(1.0, pricing.ranks(settings).facts))
    cost = pricing.answering(remaining, settings) + pricing.ranking(settings).times(unranked)
    if len(remaining) == len(questions):
        return PlannedStage(name, cost=cost)
    return PlannedStage(
        name, "resumes", f"{len(questions) - len(remaining)} of {len(questions)} answers are there", cost
    )
