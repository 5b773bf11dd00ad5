"""Ask a run's model at every context level and score the responses; stored responses are reused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import pandas as pd

from medunlearn.attacks.attacked import FOLDER, SUMMARIES
from medunlearn.attacks.model_holder import ModelHolder
from medunlearn.attacks.reconstruction.contexts import ContextLevel, Cumulative, attacked_questions
from medunlearn.attacks.reconstruction.reconstruction_results import (
    ATTACK,
    METRICS,
    context_scores,
    summarize_contexts,
)
from medunlearn.data.data_use import tightest
from medunlearn.data.records import SIDES, Question
from medunlearn.data.responses import LogProbs, Response, ResponseStore, known_options
from medunlearn.data.storage import write_atomically
from medunlearn.generation.option_scoring import rate_options
from medunlearn.generation.respond import longest_answer, open_store, respond
from medunlearn.metrics import get_metric
from medunlearn.metrics.item_scoring import score
from medunlearn.metrics.measure import question_items
from medunlearn.models.ancestry import model_use
from medunlearn.models.health import answer_problems
from medunlearn.models.load import load_tokenizer
from medunlearn.models.sequences import Rendering
from medunlearn.progress import progress
from medunlearn.results.runs import Recording
from medunlearn.results.scores import question_labels, replace_scores
from medunlearn.training.turns import in_turns


@dataclass(frozen=True)
class _Prompter:
    """Asks the model under attack, which is loaded when a response is missing."""

    holder: ModelHolder
    attack: Cumulative

    @cached_property
    def rendering(self) -> Rendering:
        return self.holder.run.rendering(None, self.attack.context)

    @cached_property
    def limit(self) -> int:
        holder = self.holder
        tokenizer = holder.live.tokenizer if holder.live else load_tokenizer(holder.run.model)
        return self.attack.max_new_tokens or longest_answer(tokenizer, holder.benchmark)

    def store(self, limit: int) -> ResponseStore:
        run, benchmark = self.holder.run, self.holder.benchmark
        return open_store(
            run.folder / FOLDER / "responses",
            model_fingerprint=run.fingerprint,
            benchmark_fingerprint=benchmark.fingerprint,
            weights=self.holder.settings.weights,
            rendering=self.rendering,
            max_new_tokens=limit,
            data_use=tightest([benchmark.data_use, model_use(run.folder)]),
        )

    def respond(self, questions: Sequence[Question], context: ContextLevel) -> Mapping[str, Response]:
        store, variant = self.store(self.limit), f"{self.rendering.context}|{context.name}"
        stored, keys = store.read(), {q.question_id: (q.question_id, variant, 0) for q in questions}
        if all(key in stored for key in keys.values()):
            return {name: stored[key] for name, key in keys.items()}
        holder = self.holder
        with progress(f"{holder.run.label}: {variant}", len(questions), quiet=holder.silent) as advance:
            return respond(
                holder.model, questions, holder.benchmark.record, store, self.rendering, max_new_tokens=self.limit,
                batch_size=holder.settings.batch_size, variant=variant, advance=advance,
            )  # fmt: skip

    def rate(self, questions: Sequence[Question], context: ContextLevel) -> Mapping[str, LogProbs]:
        """Log-probabilities of the options, of the questions that have some."""
        choices = [question for question in questions if question.options]
        # No response is decoded; so the options have a store of their own.
        store, variant = self.store(0), f"{self.rendering.context}|{context.name}"
        stored = known_options(store.read(), choices, variant)
        if len(stored) == len(choices):
            return stored
        holder = self.holder
        with progress(f"{holder.run.label}: {variant}, options", len(choices), quiet=holder.silent) as advance:
            return rate_options(
                holder.model, choices, holder.benchmark.record, store, self.rendering,
                batch_size=holder.settings.batch_size, variant=variant, advance=advance,
            )  # fmt: skip


def attack_reconstruction(holder: ModelHolder, attack: Cumulative, recording: Recording) -> None:
    """Run the attack and write its tables to the recording's folder.

    Each process asks a share of the questions, and rank 0 scores.
    """
    benchmark, settings, processes, model = holder.benchmark, holder.settings, holder.processes, holder.live_module
    split = benchmark.split(settings.split)
    sides = SIDES if attack.sides == "both" else (attack.sides,)
    names, plain, left_out = attacked_questions(benchmark, split, sides)
    prompter, records = _Prompter(holder, attack), list(dict.fromkeys(question.record_id for question in plain))
    share = {*records[processes.rank :: processes.world]}

    def ask_a_share() -> None:
        for context in names.contexts():
            own = [names.in_front(question, context) for question in plain if question.record_id in share]
            prompter.respond(own, context)
            prompter.rate(own, context)

    if processes.world > 1:
        with recording.stage("ask"):
            processes.each(lambda: in_turns(model, ask_a_share))

    def score_all() -> None:
        labels, side_of = question_labels(benchmark, split, plain), benchmark.sides(split)
        choosing = any(question.options for question in plain)
        metrics = [get_metric(name) for name in METRICS if choosing or name != "option_accuracy"]
        tables, answers = [], list[tuple[str, str, bool]]()
        for context in names.contexts():
            questions = [names.in_front(question, context) for question in plain]
            with recording.stage(f"ask {context.name}"):
                responses, options = prompter.respond(questions, context), prompter.rate(questions, context)
            pairs = [(question.answer, responses[question.question_id]) for question in questions]
            answers += ((reference, response.response, response.finished) for reference, response in pairs)
            items = question_items(questions, side_of, responses, options)
            tables.append(context_scores(score(items, metrics), labels, context))
        with recording.stage("score reconstruction"):
            scores = pd.concat(tables, ignore_index=True)
            summary = summarize_contexts(scores, split, replicates=settings.replicates, seed=settings.seed)
            replace_scores(recording.folder, scores, attack=[ATTACK])
            write_atomically(recording.folder / SUMMARIES["reconstruction"], summary.to_parquet)
        recording.info.results["health"]["problems"] += [*holder.problems, *answer_problems(answers)]
        recording.info.results["reconstruction"] = {
            "context": prompter.rendering.context,
            "levels": list(names.levels),
            "questions": len(plain),
            "left_out": left_out,
            "responses": str(prompter.store(prompter.limit).folder.relative_to(holder.run.folder)),
        }

    processes.each(lambda: in_turns(model, score_all if processes.main else lambda: None))
