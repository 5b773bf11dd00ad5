"""Stages of a plan with their states: what is done, or done in part, has a lower price or none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from medunlearn.config import EvaluateSettings, TrainSettings, UnlearnSettings
from medunlearn.data.fact_ranks import rank_settings
from medunlearn.probes.question_selection import questions_to_ask
from medunlearn.results.runs import Run, is_complete
from medunlearn.study.cost.formulas import Cost
from medunlearn.study.cost.model_pricing import ModelPricing
from medunlearn.study.plans.forecast import PlannedStage


def training_stage(name: str, pricing: ModelPricing, settings: TrainSettings, out: Path | None) -> PlannedStage:
    """Stage of a `train` run, from its last checkpoint on."""
    return _resumed(name, out, pricing.training(settings), pricing.phases(settings))


def unlearning_stage(name: str, pricing: ModelPricing, settings: UnlearnSettings, out: Path | None) -> PlannedStage:
    """Stage of an `unlearn` run, from its last checkpoint on."""
    cost = pricing.unlearning(settings)
    return _resumed(name, out, cost, {"unlearn": cost})


def _resumed(name: str, out: Path | None, cost: Cost, phases: Mapping[str, Cost]) -> PlannedStage:
    if is_complete(out):
        return PlannedStage(name, "done")
    notes = list[str]()
    for phase, own in phases.items():
        checkpoints = (out or Path("-")).glob(f"checkpoints/{phase}/step-*/state.json")
        if start := max((int(path.parent.name.split("-")[1]) for path in checkpoints), default=0):
            notes.append(f"{phase} at step {start} of {own.steps}")
            left = cost + own.times(-start / max(1, own.steps))
            cost = replace(left, disk=cost.disk, steps=cost.steps - start)
    return PlannedStage(name, "resumes" if notes else "to do", ", ".join(notes), cost)


def evaluation_stage(
    name: str, pricing: ModelPricing, settings: EvaluateSettings, run: Path | None
) -> PlannedStage:
    """Stage of an evaluation of the model in a run's folder, without stored answers and ranks."""
    whole = PlannedStage(name, cost=pricing.evaluating(settings))
    if run is None or not is_complete(run):
        return whole
    from medunlearn.probes.evaluation_folder import evaluation_folder

    model, benchmark = Run.open(run), pricing.benchmark
    if is_complete(evaluation_folder(model, benchmark, settings)):
        return PlannedStage(name, "done")
    if not (run / "responses").exists():
        return whole
    from medunlearn.models.pretrained import load_tokenizer
    from medunlearn.probes.questioning import longest_answer
    from medunlearn.probes.run_stores import store_of

    how = model, benchmark, settings, model.rendering(settings.template, settings.context)
    questions = questions_to_ask(benchmark, benchmark.split(settings.split), settings)
    limit = settings.max_new_tokens or longest_answer(load_tokenizer(model.model), benchmark)
    answers = {question_id for question_id, *_ in store_of(*how, limit).read()}
    ranks = len(store_of(*how, 0, ranks=rank_settings(settings.alternatives, settings.versions)).read())
    remaining = [question for question in questions if question.question_id not in answers]
    unranked = max(0.0, 1 - ranks / max(1.0, pricing.ranks(settings).facts))
    cost = pricing.answering(remaining, settings) + pricing.ranking(settings).times(unranked)
    if len(remaining) == len(questions):
        return replace(whole, cost=cost)
    note = f"{len(questions) - len(remaining)} of {len(questions)} answers are there"
    return PlannedStage(name, "resumes", note, cost)
