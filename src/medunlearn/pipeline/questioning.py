"""Ask a model an evaluation's questions; responses are stored in its run's folder and asked for once."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from medunlearn.config import EvaluateSettings
from medunlearn.data.benchmark import Benchmark
from medunlearn.data.records import SIDES, Question
from medunlearn.data.responses import LogProbs, Response, ResponseStore, known_options
from medunlearn.data.splits import Split, shuffled
from medunlearn.errors import ConfigError, InputError
from medunlearn.generation.options import rate_options
from medunlearn.generation.respond import longest_answer as longest_answer
from medunlearn.generation.respond import open_store, respond
from medunlearn.generation.sharing import Way, way_of
from medunlearn.metrics import get_metric
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
    questions: list[Question] = []
    for side in SIDES:
        of_side = benchmark.questions_of(split, side, settings.folds)
        if settings.limit is not None:
            subjects = {benchmark.subject(question.record_id) for question in of_side}
            sample = set(shuffled(subjects, "evaluate", side, settings.seed)[: settings.limit])
            of_side = [question for question in of_side if benchmark.subject(question.record_id) in sample]
        questions += of_side
    if not questions:
        raise ConfigError([f"folds={list(settings.folds)}: the benchmark has no question of these folds."])
    return questions


def ask(
    run: Run,
    benchmark: Benchmark,
    settings: EvaluateSettings,
    rendering: Rendering,
    questions: Sequence[Question],
    device: str,
    quiet: bool,
    live: LanguageModel | None,
) -> tuple[Path, dict[str, Response], dict[str, str]]:
    """The run's store of responses, the responses, and how a model was asked for them.

    The model is loaded only if some are missing. How it was asked is for a run's record: ``batches`` of scoring and
    the way of ``generation``; empty where it was not.
    """
    if live is None and run.info.epoch is not None and not run.model.is_dir():
        raise InputError(
            f"{run.folder} holds no weights, so nothing more can be asked. --keep-epochs keeps those of epochs."
        )
    tokenizer = live.tokenizer if live else load_tokenizer(run.model)
    limit = settings.max_new_tokens or longest_answer(tokenizer, benchmark)
    store = store_of(run, benchmark, settings, rendering, limit)
    known, keys = store.read(), {q.question_id: (q.question_id, rendering.context, 0) for q in questions}
    if all(key in known for key in keys.values()):
        return store.folder, {name: known[key] for name, key in keys.items()}, {}
    language_model = live or load_model(run.model, device=device, weights=settings.weights, images=benchmark.folder)
    before = batch_counts(language_model.model)
    with progress(f"{run.label}: responses", len(questions), quiet=quiet) as advance:
        responses = respond(
            language_model,
            questions,
            benchmark.record,
            store,
            rendering,
            max_new_tokens=limit,
            batch_size=settings.batch_size,
            advance=advance,
        )
    batches = describe_layouts(language_model.model, before)
    return store.folder, responses, {"batches": batches, "generation": _generation_described(language_model.model)}


def _generation_described(model: Any) -> str:
    way, size = way_of(model), attention_window(model)
    limited = way != "whole" and size < math.inf
    return GENERATION[way] + (f"; whole prompts past the window of {size} tokens" if limited else "")


def rate(
    run: Run,
    benchmark: Benchmark,
    settings: EvaluateSettings,
    rendering: Rendering,
    questions: Sequence[Question],
    metrics: Sequence[str],
    device: str,
    quiet: bool,
    live: LanguageModel | None,
) -> tuple[dict[str, LogProbs], dict[str, str]]:
    """Log-probabilities of each option of the questions that have some, where a metric asks for that.

    With how a model was asked, for a run's record: ``option_batches``; empty where it was not.
    """
    wanted = any("alternative_log_probs" in get_metric(name).needs for name in metrics)
    choices = [question for question in questions if question.options] if wanted else []
    if not choices:
        return {}, {}
    # No response is decoded; so the options have a store of their own.
    store = store_of(run, benchmark, settings, rendering, 0)
    known = known_options(store, choices, rendering.context)
    if len(known) == len(choices):
        return known, {}
    language_model = live or load_model(run.model, device=device, weights=settings.weights, images=benchmark.folder)
    before = batch_counts(language_model.model)
    with progress(f"{run.label}: alternative answers", len(choices), quiet=quiet) as advance:
        rated = rate_options(
            language_model,
            choices,
            benchmark.record,
            store,
            rendering,
            batch_size=settings.batch_size,
            advance=advance,
        )
    return rated, {"option_batches": describe_layouts(language_model.model, before)}


def store_of(
    run: Run,
    benchmark: Benchmark,
    settings: EvaluateSettings,
    rendering: Rendering,
    limit: int,
    share: tuple[int, int] = (0, 1),
) -> ResponseStore:
    """The responses of a run's model that were asked for in this way."""
    return open_store(
        run.folder / "responses",
        model_fingerprint=run.fingerprint,
        benchmark_fingerprint=benchmark.fingerprint,
        weights=settings.weights,
        rendering=rendering,
        max_new_tokens=limit,
        share=share,
    )
