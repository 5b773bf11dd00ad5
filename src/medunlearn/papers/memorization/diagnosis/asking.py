"""Ask a model for diagnoses, and read its lists."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import pandas as pd

from medunlearn.config import AskedSettings
from medunlearn.data.benchmark import Benchmark
from medunlearn.data.data_use import tightest
from medunlearn.data.records import Question
from medunlearn.data.responses import Response
from medunlearn.errors import InputError
from medunlearn.generation.respond import open_store, respond
from medunlearn.models.ancestry import model_use
from medunlearn.models.load import LanguageModel, load_model, load_tokenizer
from medunlearn.models.sequences import Rendering
from medunlearn.papers.memorization.diagnosis.build import PART, SPECIALTY
from medunlearn.papers.memorization.diagnosis.names import names_with
from medunlearn.papers.memorization.diagnosis.top_k import predict
from medunlearn.pipeline.questioning import longest_answer
from medunlearn.progress import progress
from medunlearn.results.runs import Run


def questions_of(benchmark: Benchmark, part: str) -> list[Question]:
    """The questions about one part's admissions.

    Raises:
        InputError: the benchmark is none of diagnosis.
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
    """Responses of a run's model to a part's questions; stored ones are not asked for again.

    Raises:
        InputError: responses are missing, and the run holds no weights to ask.
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
    known = store.read()
    if all((question.question_id, rendering.context, 0) in known for question in questions):
        return {q.question_id: known[q.question_id, rendering.context, 0] for q in questions}
    if live is None and not run.model.is_dir():
        raise InputError(
            f"{run.folder} holds no weights, so that nothing more can be asked. Ask in training (watch.part="
            f"{settings.part}), or keep the epochs' models with --keep-epochs."
        )
    model = live or load_model(run.model, device=device, weights=weights, allow_broken=allow_broken)
    sizes: dict[str, Any] = {"max_new_tokens": limit, "batch_size": settings.batch_size}
    with progress(f"{run.label}: diagnoses", len(questions), quiet=quiet) as advance:
        return respond(model, questions, benchmark.record, store, rendering, **sizes, advance=advance)


def predictions(
    benchmark: Benchmark, responses: Mapping[str, Response], settings: AskedSettings, questions: Sequence[Question]
) -> pd.DataFrame:
    """One row a question: question_id, subject, specialty, named, rank; no text.

    ``named`` is how many diagnoses the response names, 0 where none can be read in it; ``rank`` the place of the
    first right one, null where none is.
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
