"""Ask a model an evaluation's questions; responses are stored in its run's folder and generated once."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from medunlearn.config import EvaluateSettings
from medunlearn.data.benchmark import Benchmark
from medunlearn.data.fact_ranks import IN_RECORD, FactRank, rank_settings, stored_ranks
from medunlearn.data.records import Question
from medunlearn.data.responses import LogProbs, Response, ResponseStore, rated_options
from medunlearn.errors import InputError
from medunlearn.generation.fact_ranking import FactRanker, RankSequences
from medunlearn.generation.option_scoring import rate_options
from medunlearn.generation.respond import longest_answer as longest_answer
from medunlearn.generation.respond import respond
from medunlearn.generation.sharing import Way, way_of
from medunlearn.metrics import get_metric
from medunlearn.metrics.measure import Need
from medunlearn.models.layouts import BatchCounts, attention_window, batch_counts, describe_layouts
from medunlearn.models.load import LanguageModel
from medunlearn.models.pretrained import load_tokenizer
from medunlearn.models.sequences import Rendering
from medunlearn.probes.local_model import LocalModel
from medunlearn.probes.question_selection import questions_to_ask
from medunlearn.probes.rank_plan import RankPlan, rank_plan
from medunlearn.probes.respondents import EVERYTHING
from medunlearn.probes.run_stores import store_of
from medunlearn.probes.shared_work import SharedWork
from medunlearn.progress import progress
from medunlearn.results.runs import Run
from medunlearn.training.processes import Processes

GENERATION: Mapping[Way, str] = {
    "once": "shared text once: one key/value cache, read by all of its questions",
    "repeated": "shared text once: its key/value cache is copied for each question",
    "whole": "whole prompts: the model takes no cache of ours, so shared text is run for every question",
}


def _counts(language_model: LanguageModel) -> BatchCounts:
    return BatchCounts() if language_model.engine is not None else batch_counts(language_model.model)


def _layout_text(language_model: LanguageModel, since: BatchCounts) -> str:
    """Layout of the batches since a count; for another engine, its own description."""
    if language_model.engine is not None:
        return str(language_model.engine.description)
    return describe_layouts(language_model.model, since)


@dataclass
class Questioning:
    """A run's model with an evaluation's questions; loaded only if responses are missing.

    Attributes:
        variant: variant of the questions' wording for stored responses; by default the context mode.
        load: function that loads the model, or reuses one loaded by another part of the command.
        live: the model if it is already in memory; otherwise it is loaded once.
        folder: parent folder of the response stores; None: the run's folder.
        work: state of the process, shared with other evaluated models.
        gives: the inputs of measures that it can give: all of them.
        reasons: why questions have no response, by question: none lacks one.
    """

    run: Run
    benchmark: Benchmark
    settings: EvaluateSettings
    rendering: Rendering
    device: str
    quiet: bool
    live: LanguageModel | None
    folder: Path | None = None
    work: SharedWork | None = None
    variant: str = ""
    load: Callable[[], LanguageModel] | None = None
    gives: frozenset[Need] = EVERYTHING
    reasons: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.variant = self.variant or self.rendering.context

    @cached_property
    def language_model(self) -> LanguageModel:
        if self.load is not None:
            return self.load()
        if self.live is not None:
            return self.live
        settings, base = self.settings, None if self.work is None else self.work.base
        if base is not None and settings.backend == "vllm":
            base.drop()
        how = {"weights": settings.weights, "backend": settings.backend, "allow_broken": settings.allow_broken}
        model = LocalModel(self.run.model, self.device, self.run.label, **how)  # type: ignore[arg-type]
        return model.load(images=self.benchmark.folder, shared=base)  # type: ignore[no-any-return]

    @cached_property
    def rank_store(self) -> ResponseStore:
        """The store of likelihoods for ranks."""
        ranks = rank_settings(self.settings.alternatives, self.settings.versions)
        return self._store(0, ranks)

    @cached_property
    def tokenizer(self) -> Any:
        if self.live:
            return self.live.tokenizer
        return load_tokenizer(self.run.model) if self.work is None else self.work.tokenizer(self.run.model)

    @property
    def chat_template(self) -> Literal["used", "not used", "none"]:
        """Sentence on the use of the tokenizer's chat template."""
        if self.rendering.template == "chat":
            return "used"
        return "not used" if getattr(self.tokenizer, "chat_template", None) else "none"

    @property
    def problems(self) -> tuple[str, ...]:
        """Problems of the model's weights; empty if the model was not loaded."""
        return self.language_model.problems if "language_model" in vars(self) else ()

    def ask(
        self,
        questions: Sequence[Question],
        check: Callable[[], None] | None = None,
    ) -> tuple[Path, dict[str, Response], dict[str, str]]:
        """The store of responses, the responses, and facts for the run's record.

        The facts are layouts of scoring ``batches`` and of ``generation``; empty if the model was not run.

        Args:
            check: called after each batch.
        """
        run, benchmark, variant = self.run, self.benchmark, self.variant
        if self.live is None and run.info.epoch is not None and not run.model.is_dir():
            raise InputError(
                f"{run.folder} has no weights, so nothing more can be asked. --keep-epochs keeps those of epochs."
            )
        if not questions:
            return self.rank_store.folder, {}, {}
        limit = self.settings.max_new_tokens or self._longest_answer()
        store = self._store(limit)
        stored, keys = store.read(), {q.question_id: (q.question_id, variant, 0) for q in questions}
        if all(key in stored for key in keys.values()):
            return store.folder, {name: stored[key] for name, key in keys.items()}, {}
        before = _counts(self.language_model)
        with progress(f"{run.label}: responses", len(questions), quiet=self.quiet, check=check) as advance:
            responses = respond(
                self.language_model,
                questions,
                benchmark.record,
                store,
                self.rendering,
                max_new_tokens=limit,
                batch_size=self.settings.batch_size,
                variant=variant,
                advance=advance,
            )
        if self.language_model.engine is not None:
            how = self.language_model.engine.description
            return store.folder, responses, {"batches": how, "generation": how}
        model = self.language_model.model
        way, size = way_of(model), attention_window(model)
        limited = way != "whole" and size < math.inf
        generation = GENERATION[way] + (f"; whole prompts past the window of {size} tokens" if limited else "")
        return store.folder, responses, {"batches": describe_layouts(model, before), "generation": generation}

    def rate(
        self, questions: Sequence[Question], metrics: Sequence[str]
    ) -> tuple[dict[str, LogProbs], dict[str, str]]:
        """Log-probabilities of each option of the questions with options, if a metric needs them.

        With ``option_batches`` for the run's record; empty if the model was not run.
        """
        needs_options = any("alternative_log_probs" in get_metric(name).needs for name in metrics)
        choices = [question for question in questions if question.options] if needs_options else []
        if not choices:
            return {}, {}
        # No response is decoded; so the options have a store of their own.
        store = self._store(0)
        stored = rated_options(store.read(), choices, self.variant)
        if len(stored) == len(choices):
            return stored, {}
        before = _counts(self.language_model)
        with progress(f"{self.run.label}: alternative answers", len(choices), quiet=self.quiet) as advance:
            rated = rate_options(
                self.language_model,
                choices,
                self.benchmark.record,
                store,
                self.rendering,
                batch_size=self.settings.batch_size,
                variant=self.variant,
                advance=advance,
            )
        return rated, {"option_batches": _layout_text(self.language_model, before)}

    def rank(
        self, plan: RankPlan, among: Collection[str] | None = None, records_among: Collection[str] | None = None
    ) -> tuple[dict[str, list[FactRank]], dict[str, list[FactRank]], dict[str, str]]:
        """Ranks of facts by question, ranks of facts and notes by record, and facts for the run's record.

        The facts are ``rank_batches``; empty if the model was not run.

        Args:
            among: ids of the questions to rank; None: all of the plan.
            records_among: ids of the records whose facts are ranked in place; None: all.
        """
        questions = {key: own for key, own in plan.questions.items() if among is None or key in among}
        records = {key: own for key, own in plan.records.items() if records_among is None or key in records_among}
        if not questions and not records:
            return {}, {}, {}
        settings, context, store = self.settings, self.rendering.context, self.rank_store
        stored = store.read()
        answers, notes = stored_ranks(questions, stored, context), stored_ranks(records, stored, IN_RECORD)
        if len(answers) == len(questions) and len(notes) == len(records):
            return answers, notes, {}
        before = _counts(self.language_model)
        # Records are cut as they were in training; prompts are not.
        length, model = self.run.info.rendering["max_length"], self.language_model
        texts = self.benchmark.record, self.rendering
        sequences = RankSequences(model.tokenizer, *texts, length, model.pictures, model.memo)
        ranker = FactRanker(model, sequences, store, settings.batch_size)
        label = f"{self.run.label}: ranks of facts"
        with progress(label, len(questions) + len(records), quiet=self.quiet) as advance:
            ranked = [question for question in self.benchmark.questions if question.question_id in questions]
            ranks = ranker.of_questions(ranked, questions, advance=advance)
            # In the plan's order, as where all were stored.
            answers = {key: ranks[key] for key in questions}
            notes = ranker.in_records(records, advance=advance)
        return answers, notes, {"rank_batches": _layout_text(self.language_model, before)}

    def ask_share(
        self, processes: Processes, metrics: Sequence[str], check: Callable[[], None] | None = None
    ) -> None:
        """Process this rank's share of an evaluation's questions, options and ranks, and store them for rank 0.

        All questions on a record go to one process, so that shared text still runs once.

        Args:
            check: called after each batch of responses.
        """
        benchmark, settings = self.benchmark, self.settings
        questions = questions_to_ask(benchmark, benchmark.split(settings.split), settings)
        plan = rank_plan(benchmark, settings.split, settings, metrics)
        record_of = {question.question_id: question.record_id for question in benchmark.questions}
        about = [*(q.record_id for q in questions), *(record_of[name] for name in plan.questions), *plan.records]
        share = {*list(dict.fromkeys(about))[processes.rank :: processes.world]}
        part = [question for question in questions if question.record_id in share]
        self.ask(part, check)
        self.rate(part, metrics)
        self.rank(plan, {name for name in plan.questions if record_of[name] in share}, share & {*plan.records})

    def _longest_answer(self) -> int:
        if self.work is None or self.live:
            return longest_answer(self.tokenizer, self.benchmark)
        return self.work.longest_answer(self.run.model, self.benchmark)

    def _store(self, limit: int, ranks: Mapping[str, int] | None = None) -> ResponseStore:
        how = (self.settings, self.rendering, limit, ranks)
        return store_of(self.run, self.benchmark, *how, folder=self.folder)
