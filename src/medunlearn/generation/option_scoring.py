"""Teacher-forced likelihood of each of a question's options."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from medunlearn.data.records import Question, Record
from medunlearn.data.responses import LogProbs, Response, ResponseStore, rated_options
from medunlearn.models.load import LanguageModel
from medunlearn.models.scoring import score_answers
from medunlearn.models.sequences import Rendering


def rate_options(
    language_model: LanguageModel,
    questions: Sequence[Question],
    records: Mapping[str, Record],
    store: ResponseStore,
    rendering: Rendering,
    *,
    batch_size: int = 64,
    variant: str | None = None,
    advance: Callable[[int], None] = lambda count: None,
) -> dict[str, LogProbs]:
    """Log-probabilities of each option's tokens, EOS last, by question; stored ones are not recomputed.

    An option is scored like the reference answer, under the same prompt. It is stored as a response without text
    whose sample number is the option's index.

    Args:
        variant: variant in the store; None: the context mode.
        advance: called with the number of questions done since the last call, stored ones included.
    """
    variant = variant or rendering.context
    options = rated_options(store.read(), questions, variant)
    missing = [question for question in questions if question.options and question.question_id not in options]
    advance(len(questions) - len(missing))
    for start in range(0, len(missing), batch_size):
        batch = missing[start : start + batch_size]
        rated = _rate(language_model, batch, records, rendering, batch_size, variant)
        store.add(rated)
        for question in batch:
            scores = [option.answer_log_probs for option in rated if option.question_id == question.question_id]
            options[question.question_id] = tuple(log_probs for log_probs in scores if log_probs is not None)
        advance(len(batch))
    return options


def _rate(
    language_model: LanguageModel,
    batch: Sequence[Question],
    records: Mapping[str, Record],
    rendering: Rendering,
    batch_size: int,
    variant: str,
) -> list[Response]:
    pairs = [(question, place) for question in batch for place in range(len(question.options))]
    answered = [replace(question, answer=question.options[place]) for question, place in pairs]
    sequences = language_model.question_sequences(answered, records, rendering)
    scores = score_answers(language_model, sequences, batch_size=batch_size)
    return [
        Response(question.question_id, variant, place, "", (), True, score.log_probs, score.hits)
        for (question, place), score in zip(pairs, scores, strict=True)
    ]
