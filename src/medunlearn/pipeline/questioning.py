"""Ask a model an evaluation's questions; responses are stored in its run's folder and asked for once."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from medunlearn.config import EvaluateSettings
from medunlearn.data.alternatives import pool_of
from medunlearn.data.benchmark import Benchmark
from medunlearn.data.data_use import tightest
from medunlearn.data.fact_ranks import FactRank, known_ranks
from medunlearn.data.records import SIDES, Question, Side
from medunlearn.data.responses import LogProbs, Response, ResponseStore, known_options
from medunlearn.data.splits import Split, shuffled
from medunlearn.errors import ConfigError, InputError
from medunlearn.generation.decodings import GREEDY_NAME
from medunlearn.generation.fact_ranking import rank_facts
from medunlearn.generation.option_scoring import rate_options
from medunlearn.generation.respond import longest_answer as longest_answer
from medunlearn.generation.respond import open_store, respond
from medunlearn.generation.sharing import Way, way_of
from medunlearn.metrics import get_metric
from medunlearn.models.ancestry import model_use
from medunlearn.models.layouts import attention_window, batch_counts, describe_layouts
from medunlearn.models.load import LanguageModel, load_model, load_tokenizer
from medunlearn.models.sequences import Rendering
from medunlearn.progress import progress
from medunlearn.results.runs import Run

GENERATION: Mapping[Way, str] = {
    "once": "shared text once: one key/value cache, read by all of its questions",
    "repeated": "shared text once: its key/value cache is copied for each question",
    "whole": "whole prompts: the model takes no cache of ours, so shared text is run for every question",
}


def questions_to_ask(benchmark: Benchmark, split: Split, settings: EvaluateSettings) -> list[Question]:
    """Questions of the folds named, about all subjects or a seeded number of them a side.

    Raises:
        ConfigError: there are none.
    """
    questions = [
        question for side in SIDES for question in _sampled(benchmark, split, side, settings, settings.limit)
    ]
    if not questions:
        raise ConfigError([f"folds={list(settings.folds)}: the benchmark has no question of these folds."])
    return questions


def questions_to_rank(benchmark: Benchmark, split: Split, settings: EvaluateSettings) -> list[Question]:
    """Questions whose facts are ranked: about all subjects or a seeded number of them a side."""
    most = min((n for n in (settings.limit, settings.ranked) if n is not None), default=None)
    return [question for side in SIDES for question in _sampled(benchmark, split, side, settings, most)]


def half_of(benchmark: Benchmark, split: Split, side: Side, settings: EvaluateSettings) -> set[str]:
    """A side's subjects in the half that the settings name; both halves together are all that are asked about.

    The halves depend on the side's subjects and the seed alone, not on the folds or the limit. Of an odd number the
    choosing half has one more.
    """
    subjects = {benchmark.subject(question.record_id) for question in benchmark.questions_of(split, side)}
    order = shuffled(subjects, "halves", side, settings.seed)
    middle = -(-len(order) // 2)
    return set(order[:middle] if settings.subjects == "choosing" else order[middle:])


def _sampled(
    benchmark: Benchmark, split: Split, side: Side, settings: EvaluateSettings, most: int | None
) -> list[Question]:
    """Questions of a side about ``most`` of its subjects; fewer are among more."""
    of_side = benchmark.questions_of(split, side, settings.folds)
    if settings.subjects != "all":
        half = half_of(benchmark, split, side, settings)
        of_side = [question for question in of_side if benchmark.subject(question.record_id) in half]
    if most is None:
        return of_side
    subjects = {benchmark.subject(question.record_id) for question in of_side}
    sample = set(shuffled(subjects, "evaluate", side, settings.seed)[:most])
    return [question for question in of_side if benchmark.subject(question.record_id) in sample]


@dataclass
class Questioning:
    """A run's model under an evaluation's questions; it is loaded only if responses are missing.

    Attributes:
        live: the model where it is in memory already; otherwise it is loaded once.
        folder: what the stores of responses lie in; None: the run's folder.
    """

    run: Run
    benchmark: Benchmark
    settings: EvaluateSettings
    rendering: Rendering
    device: str
    quiet: bool
    live: LanguageModel | None
    folder: Path | None = None

    @cached_property
    def language_model(self) -> LanguageModel:
        weights, images = self.settings.weights, self.benchmark.folder
        return self.live or load_model(
            self.run.model,
            device=self.device,
            weights=weights,
            images=images,
            allow_broken=self.settings.allow_broken,
        )

    @property
    def problems(self) -> tuple[str, ...]:
        """Problems of the model's weights; none where it was not needed."""
        return self.language_model.problems if "language_model" in vars(self) else ()

    def ask(
        self,
        questions: Sequence[Question],
        check: Callable[[], None] = lambda: None,
    ) -> tuple[Path, dict[str, Response], dict[str, str]]:
        """The run's store of responses, the responses, and the ways of asking for the run's record.

        These are ``batches`` of scoring and the way of ``generation``; nothing where the model was not asked.

        Args:
            check: called after each batch.
        """

        def advance_and_check(done: int) -> None:
            advance(done)
            check()

        run, benchmark, context = self.run, self.benchmark, self.rendering.context
        if self.live is None and run.info.epoch is not None and not run.model.is_dir():
            raise InputError(
                f"{run.folder} holds no weights, so nothing more can be asked. --keep-epochs keeps those of epochs."
            )
        tokenizer = self.live.tokenizer if self.live else load_tokenizer(run.model)
        limit = self.settings.max_new_tokens or longest_answer(tokenizer, benchmark)
        store = self._store(limit)
        known, keys = store.read(), {q.question_id: (q.question_id, context, 0) for q in questions}
        if all(key in known for key in keys.values()):
            return store.folder, {name: known[key] for name, key in keys.items()}, {}
        before = batch_counts(self.language_model.model)
        with progress(f"{run.label}: responses", len(questions), quiet=self.quiet) as advance:
            responses = respond(
                self.language_model,
                questions,
                benchmark.record,
                store,
                self.rendering,
                max_new_tokens=limit,
                batch_size=self.settings.batch_size,
                advance=advance_and_check,
            )
        model = self.language_model.model
        way, size = way_of(model), attention_window(model)
        limited = way != "whole" and size < math.inf
        generation = GENERATION[way] + (f"; whole prompts past the window of {size} tokens" if limited else "")
        return store.folder, responses, {"batches": describe_layouts(model, before), "generation": generation}

    def rate(
        self, questions: Sequence[Question], metrics: Sequence[str]
    ) -> tuple[dict[str, LogProbs], dict[str, str]]:
        """Log-probabilities of each option of the questions that have some, where a metric asks for that.

        With ``option_batches`` for the run's record; nothing where the model was not asked.
        """
        needs_options = any("alternative_log_probs" in get_metric(name).needs for name in metrics)
        choices = [question for question in questions if question.options] if needs_options else []
        if not choices:
            return {}, {}
        # No response is decoded; so the options have a store of their own.
        store = self._store(0)
        known = known_options(store.read(), choices, self.rendering.context)
        if len(known) == len(choices):
            return known, {}
        before = batch_counts(self.language_model.model)
        with progress(f"{self.run.label}: alternative answers", len(choices), quiet=self.quiet) as advance:
            rated = rate_options(
                self.language_model,
                choices,
                self.benchmark.record,
                store,
                self.rendering,
                batch_size=self.settings.batch_size,
                advance=advance,
            )
        return rated, {"option_batches": describe_layouts(self.language_model.model, before)}

    def rank(
        self, questions: Sequence[Question], metrics: Sequence[str]
    ) -> tuple[dict[str, list[FactRank]], dict[str, str]]:
        """Ranks of the facts in reference answers by question, where a metric asks for that.

        With ``rank_batches`` for the run's record; nothing where the model was not asked.
        """
        if not any("fact_ranks" in get_metric(name).needs for name in metrics):
            return {}, {}
        pool = pool_of(self.benchmark, self.settings.alternatives)
        store = self._store(0, alternatives=self.settings.alternatives)
        known = known_ranks(store.read(), questions, self.benchmark.record, pool, self.rendering.context)
        if len(known) == len(questions):
            return known, {}
        before = batch_counts(self.language_model.model)
        with progress(f"{self.run.label}: ranks of facts", len(questions), quiet=self.quiet) as advance:
            ranks = rank_facts(
                self.language_model,
                questions,
                self.benchmark.record,
                pool,
                store,
                self.rendering,
                batch_size=self.settings.batch_size,
                advance=advance,
            )
        return ranks, {"rank_batches": describe_layouts(self.language_model.model, before)}

    def _store(self, limit: int, alternatives: int | None = None) -> ResponseStore:
        how = (self.settings, self.rendering, limit, alternatives)
        return store_of(self.run, self.benchmark, *how, folder=self.folder)


def store_of(
    run: Run,
    benchmark: Benchmark,
    settings: EvaluateSettings,
    rendering: Rendering,
    limit: int,
    alternatives: int | None = None,
    *,
    folder: Path | None = None,
    decoding: str = GREEDY_NAME,
) -> ResponseStore:
    """The responses of a run's model that were asked for in this way; with ``alternatives``, ranks of facts.

    Args:
        folder: what the store lies in; None: the run's folder.
        decoding: its name, and the seed of draws.
    """
    return open_store(
        (folder or run.folder) / "responses",
        model_fingerprint=run.fingerprint,
        benchmark_fingerprint=benchmark.fingerprint,
        weights=settings.weights,
        rendering=rendering,
        max_new_tokens=limit,
        alternatives=alternatives,
        decoding=decoding,
        data_use=tightest([benchmark.data_use, model_use(run.folder)]),
    )
