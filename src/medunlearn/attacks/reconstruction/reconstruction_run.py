"""Ask a run's model at every context level and score the responses; stored responses are reused."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import pandas as pd

from medunlearn.attacks.attack_protocol import AttackJob
from medunlearn.attacks.attack_sizes import AttackSizes, Cost
from medunlearn.attacks.model_holder import Asker, ModelHolder
from medunlearn.attacks.reconstruction.contexts import ContextLevel, NodeNames, attacked_questions
from medunlearn.attacks.reconstruction.reconstruction_results import (
    ATTACK,
    NAME,
    SUMMARY,
    context_scores,
    summarize_contexts,
)
from medunlearn.config import AttackSettings, Context, EvaluateSettings, check
from medunlearn.data.benchmark import Benchmark
from medunlearn.data.records import SIDES, Question
from medunlearn.data.storage import write_frame
from medunlearn.metrics import distinct_metrics, get_metric
from medunlearn.metrics.item_scoring import score
from medunlearn.metrics.measure import question_items
from medunlearn.models.health import answer_problems
from medunlearn.models.sequences import Rendering
from medunlearn.probes.question_selection import recorded_probes
from medunlearn.probes.reference_tokens import reference_tokens
from medunlearn.results.runs import Recording
from medunlearn.results.scores import question_labels, replace_scores
from medunlearn.training.turns import in_turns


@dataclass(frozen=True)
class ReconstructionJob(AttackJob):
    """One reconstruction attack on one benchmark.

    Attributes:
        sides: whose questions are asked.
        context: context mode of the questions.
        max_new_tokens: longest response; None: as `evaluate` has it.
        requested: names of the measures of answers.
    """

    benchmark: Benchmark
    settings: AttackSettings
    sides: Sequence[str]
    context: Context
    max_new_tokens: int | None
    requested: tuple[str, ...]

    @cached_property
    def measures(self) -> tuple[str, ...]:
        """Names of the measures of answers, each once."""
        return tuple(distinct_metrics(self.requested).values())

    @cached_property
    def evaluation(self) -> EvaluateSettings:
        """Settings of an equivalent `evaluate`."""
        shared = ("split", "weights", "batch_size", "allow_broken", "seed")
        values: dict[str, object] = {name: getattr(self.settings, name) for name in shared}
        file, own = self.settings.probes, {"context": self.context, "max_new_tokens": self.max_new_tokens}
        return check(EvaluateSettings, values | (own if file is None else {"probes": file}))

    @cached_property
    def questions(self) -> tuple[NodeNames, list[Question], int]:
        """Names, questions and the number of skipped ones. Raises InputError: none can be asked."""
        split, file = self.benchmark.split(self.settings.split), self.settings.probes
        among = None if file is None else {q.question_id for q in recorded_probes(file, self.benchmark)[0]}
        return attacked_questions(self.benchmark, split, self.sides, among)

    def check(self) -> None:
        attacked_questions(self.benchmark, self.benchmark.split(self.settings.split), SIDES)

    def run(self, holder: ModelHolder, recording: Recording) -> None:
        """Attack a model. Each process asks a share of the questions, and rank 0 scores."""
        processes, model = holder.processes, holder.live_module
        names, plain, left_out = self.questions
        if processes.world > 1:
            with recording.stage("ask"), processes.barrier(), in_turns(model):
                self._ask_share(holder)
        with processes.barrier(), in_turns(model):
            if not processes.main:
                return
            answers, store = self._score_contexts(holder, recording)
            recording.info.results["health"]["problems"] += [*holder.problems, *answer_problems(answers)]
            recording.info.results[NAME] = {
                "context": self._rendering(holder).context,
                "levels": list(names.levels),
                "questions": len(plain),
                "left_out": left_out,
                "responses": store,
            }

    def _ask_share(self, holder: ModelHolder) -> None:
        names, plain, _ = self.questions
        records = list(dict.fromkeys(question.record_id for question in plain))
        share = {*records[holder.processes.rank :: holder.processes.world]}
        for context in names.contexts():
            own = [names.in_front(question, context) for question in plain if question.record_id in share]
            if own:
                asker = self._asker(holder, context)
                asker.ask(own)
                asker.rate(own, self.measures)

    def _rendering(self, holder: ModelHolder) -> Rendering:
        return holder.run.rendering(self.evaluation.template, self.evaluation.context)

    def _asker(self, holder: ModelHolder, context: ContextLevel) -> Asker:
        """The model with responses stored for a context level; loaded only if a response is missing."""
        rendering = self._rendering(holder)
        return holder.asker(self.evaluation, rendering, f"{rendering.context}|{context.name}")

    def _score_contexts(self, holder: ModelHolder, recording: Recording) -> tuple[list[tuple[str, str, bool]], str]:
        """Write scores and summary; returns (reference, answer, finished) of every question, and the folder of
        responses.
        """
        (names, plain, _), benchmark, settings, folder = (
            self.questions,
            self.benchmark,
            self.settings,
            recording.folder,
        )
        split = benchmark.split(settings.split)
        labels, side_of = question_labels(benchmark, split, plain), benchmark.sides(split)
        choosing = any(question.options for question in plain)
        metrics = [get_metric(name) for name in self.measures if choosing or name != "option_accuracy"]
        tables, answers, store = [], list[tuple[str, str, bool]](), ""
        for context in names.contexts():
            questions, asker = (
                [names.in_front(question, context) for question in plain],
                self._asker(holder, context),
            )
            with recording.stage(f"ask {context.name}"):
                place, responses, _ = asker.ask(questions)
                options, _ = asker.rate(questions, self.measures)
            store = str(place.relative_to(holder.run.folder))
            pairs = [(question.answer, responses[question.question_id]) for question in questions]
            answers += ((reference, response.response, response.finished) for reference, response in pairs)
            tokens = reference_tokens(holder.run, benchmark, questions, self.evaluation, self.measures)
            items = question_items(questions, side_of, responses, options, reference_tokens=tokens)
            tables.append(context_scores(score(items, metrics), labels, context))
        with recording.stage(f"score {NAME}"):
            scores = pd.concat(tables, ignore_index=True)
            summary = summarize_contexts(scores, split, replicates=settings.replicates, seed=settings.seed)
            replace_scores(folder, scores, attack=[ATTACK])
            write_frame(folder / SUMMARY, summary)
        return answers, store

    def cost(self, sizes: AttackSizes) -> Iterator[Cost]:
        """The questions are asked once at every context level."""
        names, plain, _ = self.questions
        for context in names.contexts():
            yield sizes.answering([names.in_front(question, context) for question in plain], self.evaluation)
