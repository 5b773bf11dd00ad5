"""Top-k diagnostic accuracy: ask a model for diagnoses, parse its lists, and tabulate accuracy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
import pandas as pd

from medunlearn.config import AskedSettings
from medunlearn.data.benchmark import Benchmark
from medunlearn.data.data_use import tightest
from medunlearn.data.records import Question
from medunlearn.data.responses import Response
from medunlearn.errors import InputError
from medunlearn.generation.respond import respond
from medunlearn.generation.response_stores import open_store
from medunlearn.models.ancestry import model_use
from medunlearn.models.load import LanguageModel, load_model
from medunlearn.models.pretrained import load_tokenizer
from medunlearn.models.sequences import Rendering
from medunlearn.papers.memorization.diagnosis.build import PART, SPECIALTY
from medunlearn.papers.memorization.diagnosis.top_k import names_with, predict
from medunlearn.probes.questioning import longest_answer
from medunlearn.progress import progress
from medunlearn.results.runs import Run
from medunlearn.results.summary import compare, summarize


def questions_of(benchmark: Benchmark, part: str) -> list[Question]:
    """The questions about one part's admissions.

    Raises:
        InputError: it is not a diagnosis benchmark.
        UnknownNameError: it has no such part.
    """
    if benchmark.builder != "diagnosis":
        raise InputError(
            f"Benchmark {benchmark.name!r} asks for no diagnoses. `medunlearn build diagnosis --help` says how to "
            "make one that does."
        )
    ids = benchmark.hierarchy.closure(PART, [part])
    return [question for question in benchmark.questions if question.record_id in ids]


def ask(
    run: Run,
    benchmark: Benchmark,
    settings: AskedSettings,
    rendering: Rendering,
    *,
    weights: Literal["fp32", "bf16"],
    device: str = "auto",
    live: LanguageModel | None = None,
    quiet: bool = False,
    allow_broken: bool = False,
) -> dict[str, Response]:
    """Responses of a run's model to a part's questions; stored ones are not requested again.

    Raises:
        InputError: responses are missing, and the run has no weights.
    """
    questions = questions_of(benchmark, settings.part)
    # An epoch without weights has its run's tokenizer.
    folder = run.model if run.model.is_dir() else run.folder.parent.parent / "model"
    tokenizer = live.tokenizer if live else load_tokenizer(folder)
    limit = settings.max_new_tokens or longest_answer(tokenizer, benchmark)
    store = open_store(
        run.folder / "responses",
        model_fingerprint=run.fingerprint,
        benchmark_fingerprint=benchmark.fingerprint,
        weights=weights,
        rendering=rendering,
        max_new_tokens=limit,
        data_use=tightest([benchmark.data_use, model_use(run.folder)]),
    )
    stored = store.read()
    keys = {question.question_id: (question.question_id, rendering.context, 0) for question in questions}
    if all(key in stored for key in keys.values()):
        return {question_id: stored[key] for question_id, key in keys.items()}
    if live is None and not run.model.is_dir():
        raise InputError(
            f"{run.folder} has no weights, so nothing more can be asked. Ask in training (watch.part="
            f"{settings.part}), or keep the epochs' models with --keep-epochs."
        )
    model = live or load_model(run.model, device=device, weights=weights, allow_broken=allow_broken)
    sizes: dict[str, Any] = {"max_new_tokens": limit, "batch_size": settings.batch_size}
    with progress(f"{run.label}: diagnoses", len(questions), quiet=quiet) as advance:
        return respond(model, questions, benchmark.record, store, rendering, **sizes, advance=advance)


def predictions(
    benchmark: Benchmark, responses: Mapping[str, Response], settings: AskedSettings, questions: Sequence[Question]
) -> pd.DataFrame:
    """One row per question: question_id, subject, specialty, named, rank; no text.

    ``named`` is the number of diagnoses in the response, 0 if none can be parsed; ``rank`` is the position of the
    first right one, null without any.
    """
    names = names_with(settings.synonyms)
    rows = [
        (
            question.question_id,
            benchmark.subject(question.record_id),
            benchmark.record[question.record_id].groups.get(SPECIALTY, ""),
            *predict(responses[question.question_id].response, question.answer, names, settings.gold),
        )
        for question in questions
    ]
    table = pd.DataFrame(rows, columns=["question_id", "subject", "specialty", "named", "rank"])
    return table.astype({"named": "int64", "rank": "Int64"})


ALL = ""
"""Name of all admissions' specialty in tables."""


def accuracy_scores(predictions: pd.DataFrame, ks: Sequence[int]) -> pd.DataFrame:
    """A score table: 1 if a right diagnosis is among the first k, else 0; the measure is k.

    A response without a readable diagnosis scores 0, and is also counted as unread.
    """
    ranks = predictions["rank"].astype("Float64").to_numpy(dtype=float, na_value=np.inf)
    items = predictions.rename(columns={"question_id": "item"})
    return pd.concat(
        [items.assign(measure=str(k), value=(ranks <= k).astype(float)) for k in ks], ignore_index=True
    )


def small_specialties(predictions: pd.DataFrame, least_patients: int) -> dict[str, int]:
    """Specialties with too few patients and their numbers, largest first."""
    return {name: n for name, n in _patients(predictions).items() if n < least_patients}


def accuracy_table(
    models: Mapping[str, pd.DataFrame], ks: Sequence[int], least_patients: int, *, replicates: int, seed: int
) -> pd.DataFrame:
    """One row per model, specialty and k: value (0-1, higher = diagnoses better) with its 95% interval over
    patients.

    Args:
        models: label -> predictions (:func:`medunlearn.papers.memorization.diagnosis.accuracy.predictions`).

    Returns:
        model, specialty ("" for all), k, value, low, high, n (responses), n_subjects (patients), n_unread
        (responses without a list of diagnoses, which count as wrong).
    """
    parts = []
    for label, predictions in models.items():
        by_specialty = _by_specialty(predictions, least_patients)
        table = summarize(accuracy_scores(by_specialty, ks), ["specialty"], replicates=replicates, seed=seed)
        unread = (by_specialty["named"] == 0).groupby(by_specialty["specialty"]).sum()
        parts.append(table.assign(model=label, n_unread=table["specialty"].map(unread)))
    table = pd.concat(parts, ignore_index=True).rename(columns={"measure": "k", "n_scored": "n"})
    columns = ["model", "specialty", "k", "value", "low", "high", "n", "n_subjects", "n_unread"]
    return table[columns].astype({"k": "int64"})


def difference_table(
    models: Mapping[str, pd.DataFrame], ks: Sequence[int], least_patients: int, *, replicates: int, seed: int
) -> pd.DataFrame:
    """The first model minus each other on the same admissions, paired on patients.

    Returns:
        model, against, specialty, k, difference, low, high, p, n_pairs, n_subjects. p is two-sided, for a single
        comparison (:class:`medunlearn.statistics.Estimate`). Empty for a single model.
    """
    scores = {label: accuracy_scores(_by_specialty(table, least_patients), ks) for label, table in models.items()}
    (label, first), *others = scores.items()
    parts = [
        compare(first, other, ["specialty"], replicates=replicates, seed=seed).assign(model=label, against=against)
        for against, other in others
    ]
    if not parts:
        return pd.DataFrame()
    columns = ["model", "against", "specialty", "k", "difference", "low", "high", "p", "n_pairs", "n_subjects"]
    return pd.concat(parts, ignore_index=True).rename(columns={"measure": "k"})[columns].astype({"k": "int64"})


def _patients(predictions: pd.DataFrame) -> dict[str, int]:
    counts = predictions[predictions["specialty"] != ALL].groupby("specialty")["subject"].nunique()
    return {str(name): int(n) for name, n in sorted(counts.items(), key=lambda entry: (-entry[1], str(entry[0])))}


def _by_specialty(predictions: pd.DataFrame, least_patients: int) -> pd.DataFrame:
    """All admissions, and those of each specialty with enough patients, largest first."""
    large = [name for name, n in _patients(predictions).items() if n >= least_patients]
    parts = [predictions[predictions["specialty"] == name] for name in large]
    return pd.concat([predictions.assign(specialty=ALL), *parts], ignore_index=True)
