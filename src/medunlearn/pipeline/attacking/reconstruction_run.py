"""Ask a run's model at every context level and score the responses; stored responses are reused."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd

from medunlearn.attacks.attacked import FOLDER, SUMMARIES
from medunlearn.attacks.model_holder import ModelHolder
from medunlearn.attacks.reconstruction.contexts import ContextLevel, Cumulative, NodeNames, attacked_questions
from medunlearn.attacks.reconstruction.reconstruction_results import (
    ATTACK,
    METRICS,
    context_scores,
    summarize_contexts,
)
from medunlearn.config import EvaluateSettings, check
from medunlearn.data.records import SIDES, Question
from medunlearn.data.storage import write_atomically
from medunlearn.metrics import get_metric
from medunlearn.metrics.item_scoring import score
from medunlearn.metrics.measure import question_items
from medunlearn.models.health import answer_problems
from medunlearn.pipeline.questioning import Questioning
from medunlearn.results.runs import Recording
from medunlearn.results.scores import question_labels, replace_scores
from medunlearn.training.turns import in_turns


def attack_reconstruction(holder: ModelHolder, attack: Cumulative, recording: Recording) -> None:
    """Run the attack and write its tables to the recording's folder.

    Each process asks a share of the questions, and rank 0 scores.
    """
    benchmark, processes, model = holder.benchmark, holder.processes, holder.live_module
    sides = SIDES if attack.sides == "both" else (attack.sides,)
    names, plain, left_out = attacked_questions(benchmark, benchmark.split(holder.settings.split), sides)
    questioning = _open_questioning(holder, attack)
    if processes.world > 1:
        records = list(dict.fromkeys(question.record_id for question in plain))
        share = {*records[processes.rank :: processes.world]}

        def ask_share() -> None:
            for context in names.contexts():
                own = [names.in_front(question, context) for question in plain if question.record_id in share]
                if own:
                    at_context = _at(questioning, context)
                    at_context.ask(own)
                    at_context.rate(own, METRICS)

        with recording.stage("ask"):
            processes.each(lambda: in_turns(model, ask_share))

    def score_all() -> None:
        answers, store = _score_contexts(holder, questioning, names, plain, recording)
        recording.info.results["health"]["problems"] += [*holder.problems, *answer_problems(answers)]
        recording.info.results["reconstruction"] = {
            "context": questioning.rendering.context,
            "levels": list(names.levels),
            "questions": len(plain),
            "left_out": left_out,
            "responses": store,
        }

    processes.each(lambda: in_turns(model, score_all if processes.main else lambda: None))


def _open_questioning(holder: ModelHolder, attack: Cumulative) -> Questioning:
    """The model with the attack's questions; loaded only if a response is missing."""
    shared = ("split", "weights", "batch_size", "allow_broken", "seed")
    settings: dict[str, object] = {name: getattr(holder.settings, name) for name in shared}
    settings |= {"context": attack.context, "max_new_tokens": attack.max_new_tokens or None}
    return Questioning(
        holder.run,
        holder.benchmark,
        check(EvaluateSettings, settings),
        holder.run.rendering(None, attack.context),
        holder.device,
        holder.silent,
        holder.live,
        holder.run.folder / FOLDER,
        load=lambda: holder.model,
    )


def _at(questioning: Questioning, context: ContextLevel) -> Questioning:
    """The same questions with responses stored for a context level."""
    return replace(questioning, variant=f"{questioning.rendering.context}|{context.name}")


def _score_contexts(
    holder: ModelHolder, questioning: Questioning, names: NodeNames, plain: list[Question], recording: Recording
) -> tuple[list[tuple[str, str, bool]], str]:
    """Write scores and summary; returns (reference, answer, finished) of every question, and the folder of
    responses.
    """
    benchmark, settings, folder = holder.benchmark, holder.settings, recording.folder
    split = benchmark.split(settings.split)
    labels, side_of = question_labels(benchmark, split, plain), benchmark.sides(split)
    choosing = any(question.options for question in plain)
    metrics = [get_metric(name) for name in METRICS if choosing or name != "option_accuracy"]
    tables, answers, store = [], list[tuple[str, str, bool]](), ""
    for context in names.contexts():
        questions, at_context = [names.in_front(question, context) for question in plain], _at(questioning, context)
        with recording.stage(f"ask {context.name}"):
            place, responses, _ = at_context.ask(questions)
            options, _ = at_context.rate(questions, METRICS)
        store = str(place.relative_to(holder.run.folder))
        pairs = [(question.answer, responses[question.question_id]) for question in questions]
        answers += ((reference, response.response, response.finished) for reference, response in pairs)
        items = question_items(questions, side_of, responses, options)
        tables.append(context_scores(score(items, metrics), labels, context))
    with recording.stage("score reconstruction"):
        scores = pd.concat(tables, ignore_index=True)
        summary = summarize_contexts(scores, split, replicates=settings.replicates, seed=settings.seed)
        replace_scores(folder, scores, attack=[ATTACK])
        write_atomically(folder / SUMMARIES["reconstruction"], summary.to_parquet)
    return answers, store
