"""Scores of repeated samples: the best of k, facts in k of them, and the probability of the verbatim answer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pandas as pd

from medunlearn.attacks.recovery.attacked_model import AttackedModel
from medunlearn.attacks.recovery.recovery_results import facts_said
from medunlearn.attacks.recovery.sampling_attack import RepeatedSampling
from medunlearn.data.benchmark import Benchmark
from medunlearn.data.records import Question
from medunlearn.data.responses import Response
from medunlearn.generation.decodings import Decoding
from medunlearn.generation.respond import longest_answer
from medunlearn.metrics.text import rouge_l_recalls
from medunlearn.results.scores import question_labels, score_table
from medunlearn.statistics.best_of import any_of, best_of, extraction_probability

NO_ANSWER = "the reference answer has no token"
NOT_A_NUMBER = "the model gives no number (NaN)"


def score_samples(model: AttackedModel, attack: RepeatedSampling) -> pd.DataFrame:
    """Scores of the forget set: best of k, facts stated in k samples, and probability of the verbatim answer in k
    samples.
    """
    questions, benchmark = model.attacked, model.benchmark
    responses = draw_samples(model, attack)
    rows = [
        {"item": question.question_id, "attack": attack.name, "strength": str(k), **row}
        for question in questions
        for k, row in _of_samples(question, responses[question.question_id], attack, benchmark)
    ]
    labels = question_labels(benchmark, benchmark.split(model.settings.split), questions)
    return score_table(pd.DataFrame(rows).merge(labels, on="item", how="left", validate="many_to_one"))


def draw_samples(model: AttackedModel, attack: RepeatedSampling) -> dict[str, list[Response]]:
    """Samples of each question about the forget set; stored ones are read."""
    return model.sample(
        model.attacked,
        Decoding(attack.temperature, None, attack.top_p if attack.top_p < 1 else None),
        samples=attack.samples,
        seed=attack.seed,
        max_new_tokens=attack.max_new_tokens or longest_answer(model.live.tokenizer, model.benchmark),
    )


def _of_samples(
    question: Question, responses: list[Response], attack: RepeatedSampling, benchmark: Benchmark
) -> Iterator[tuple[int, dict[str, Any]]]:
    texts = [response.response for response in responses]
    recalls = rouge_l_recalls(texts, [question.answer] * len(texts))
    hits = facts_said(question, benchmark.record[question.record_id].identifiers, texts)
    (*tokens, _) = responses[0].answer_log_probs or (0.0,)
    scored = [value for value in recalls if value is not None]
    for k in attack.numbers:
        yield k, _row("rouge_l", best_of(scored, k) if scored else None, NO_ANSWER)
        shares = [any_of(count, len(texts), k) for count in hits]
        yield k, _row("facts_said", sum(shares) / len(shares), "")
        yield k, _row("extraction", extraction_probability(sum(tokens), k) if tokens else None, NO_ANSWER)


def _row(measure: str, value: float | None, reason: str) -> dict[str, Any]:
    if value is not None and value != value:
        value, reason = None, NOT_A_NUMBER
    return {"measure": measure, "value": value, "reason": None if value is not None else reason}
