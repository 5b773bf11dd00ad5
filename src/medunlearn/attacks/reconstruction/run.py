"""Ask a run's model at every context level and score what it says; what is stored is not asked again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import pandas as pd

from medunlearn.attacks.reconstruction.attacked import RESPONSES, SUMMARY
from medunlearn.attacks.reconstruction.contexts import Asked, ContextLevel, attacked_questions
from medunlearn.attacks.reconstruction.cumulative import Cumulative
from medunlearn.attacks.reconstruction.results import ATTACK, context_scores, metrics_for, summarize_contexts
from medunlearn.config import AttackSettings
from medunlearn.data.benchmark import Benchmark
from medunlearn.data.records import Question
from medunlearn.data.responses import LogProbs, Response, ResponseStore, known_options
from medunlearn.data.storage import write_atomically
from medunlearn.generation.options import rate_options
from medunlearn.generation.respond import longest_answer, open_store, respond
from medunlearn.metrics import get_metric
from medunlearn.metrics.base import question_items
from medunlearn.metrics.scoring import score
from medunlearn.models.load import LanguageModel, load_model, load_tokenizer
from medunlearn.models.sequences import Rendering
from medunlearn.progress import progress
from medunlearn.results.runs import Recording, Run
from medunlearn.results.scores import question_labels, replace_scores


@dataclass(frozen=True)
class _Subject:
    """The model under attack, loaded when something is missing, and how it is asked."""

    run: Run
    benchmark: Benchmark
    attack: Cumulative
    settings: AttackSettings
    device: str
    quiet: bool
    live: LanguageModel | None

    @cached_property
    def model(self) -> LanguageModel:
        images, weights = self.benchmark.folder, self.settings.weights
        return self.live or load_model(self.run.model, device=self.device, weights=weights, images=images)

    @cached_property
    def rendering(self) -> Rendering:
        return self.run.rendering(None, self.attack.context)  # type: ignore[arg-type]

    @cached_property
    def limit(self) -> int:
        tokenizer = self.live.tokenizer if self.live else load_tokenizer(self.run.model)
        return self.attack.max_new_tokens or longest_answer(tokenizer, self.benchmark)

    def variant(self, context: ContextLevel) -> str:
        return f"{self.rendering.context}|{context.name}"

    def store(self, limit: int) -> ResponseStore:
        return open_store(
            self.run.folder / RESPONSES,
            model_fingerprint=self.run.fingerprint,
            benchmark_fingerprint=self.benchmark.fingerprint,
            weights=self.settings.weights,
            rendering=self.rendering,
            max_new_tokens=limit,
        )

    def respond(self, questions: Sequence[Question], context: ContextLevel) -> Mapping[str, Response]:
        store, variant = self.store(self.limit), self.variant(context)
        known = store.read()
        if all((question.question_id, variant, 0) in known for question in questions):
            return {question.question_id: known[question.question_id, variant, 0] for question in questions}
        with progress(f"{self.run.label}: {variant}", len(questions), quiet=self.quiet) as advance:
            return respond(
                self.model, questions, self.benchmark.record, store, self.rendering, max_new_tokens=self.limit,
                batch_size=self.settings.batch_size, variant=variant, advance=advance,
            )  # fmt: skip

    def rate(self, questions: Sequence[Question], context: ContextLevel) -> Mapping[str, LogProbs]:
        """How likely the options are, of the questions that have some."""
        choices, variant = [question for question in questions if question.options], self.variant(context)
        # No response is decoded; so the options have a store of their own.
        store = self.store(0)
        known = known_options(store, choices, variant)
        if len(known) == len(choices):
            return known
        with progress(f"{self.run.label}: {variant}, options", len(choices), quiet=self.quiet) as advance:
            return rate_options(
                self.model, choices, self.benchmark.record, store, self.rendering,
                batch_size=self.settings.batch_size, variant=variant, advance=advance,
            )  # fmt: skip


def attack_reconstruction(
    run: Run,
    benchmark: Benchmark,
    attack: Cumulative,
    settings: AttackSettings,
    recording: Recording,
    *,
    device: str = "auto",
    quiet: bool = False,
    live: LanguageModel | None = None,
) -> None:
    """Run the attack on a run's model and write its tables to the recording's folder.

    Args:
        live: the run's model where it is in memory already, in evaluation mode; otherwise it is loaded.

    Raises:
        InputError: nothing to name or to ask; a model that cannot be loaded.
    """
    split = benchmark.split(settings.split)
    asked = attacked_questions(benchmark, split, attack.chosen_sides)
    subject = _Subject(run, benchmark, attack, settings, device, quiet, live)
    labels = question_labels(benchmark, split, asked.questions)
    sides = benchmark.sides(split)
    names = metrics_for([question.options for question in asked.questions])
    tables = []
    for context in asked.names.contexts():
        questions = _in_context(asked, benchmark, context)
        with recording.stage(f"ask {context.name}"):
            responses, options = subject.respond(questions, context), subject.rate(questions, context)
        items = question_items(questions, sides, responses, options)
        tables.append(context_scores(score(items, [get_metric(name) for name in names]), labels, context))
    with recording.stage("score reconstruction"):
        scores = pd.concat(tables, ignore_index=True)
        summary = summarize_contexts(scores, split, replicates=settings.replicates, seed=settings.seed)
        replace_scores(recording.folder, scores, attack=[ATTACK])
        write_atomically(recording.folder / SUMMARY, summary.to_parquet)
    recording.info.results["reconstruction"] = {
        "context": subject.rendering.context,
        "levels": list(asked.names.levels),
        "questions": len(asked.questions),
        "left_out": asked.left_out,
        "responses": str(subject.store(subject.limit).folder.relative_to(run.folder)),
    }


def _in_context(asked: Asked, benchmark: Benchmark, context: ContextLevel) -> list[Question]:
    return [asked.names.in_front(one, benchmark.record[one.record_id], context) for one in asked.questions]
