"""Likelihood of the facts in a reference answer beside their alternatives: one prompt, many branches."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from medunlearn.data.alternatives import AlternativePool
from medunlearn.data.fact_ranks import FactRank, Facts, facts_with_alternatives, known_ranks, ranks_of
from medunlearn.data.records import Question, Record
from medunlearn.data.responses import Response, ResponseStore
from medunlearn.models.load import LanguageModel
from medunlearn.models.scoring import score_answers
from medunlearn.models.sequences import Rendering, answer_sequences

AFTER = 4
"""Tokens behind a fact that count beside its own: they show whether it fits; the rest is the same for all."""
AT_ONCE = 8
"""Answers in one pass, for each prompt that is decoded at a time: their prompts are shared, and nothing is kept."""


def rank_facts(
    language_model: LanguageModel,
    questions: Sequence[Question],
    records: Mapping[str, Record],
    pool: AlternativePool,
    store: ResponseStore,
    rendering: Rendering,
    *,
    batch_size: int = 64,
    variant: str | None = None,
    advance: Callable[[int], None] = lambda count: None,
) -> dict[str, list[FactRank]]:
    """Ranks of every fact by question; what is in the store is not asked again.

    The answer with the true value and those with alternatives share the prompt, and the answer as far as they
    agree: a fact costs one prompt and as many ends. The store keeps a fact's log-likelihoods, the true value's
    first, as a response without text whose sample number is the fact's place.

    Args:
        variant: what the store calls this way of asking; None: the context mode.
        advance: called with the number of questions done since the last call, stored ones included.
    """
    variant = variant or rendering.context
    ranks = known_ranks(store.read(), questions, records, pool, variant)
    advance(len(ranks))
    missing = [question for question in questions if question.question_id not in ranks]
    at_once = max(1, AT_ONCE * batch_size // (pool.count + 1))
    for start in range(0, len(missing), at_once):
        batch = {q.question_id: facts_with_alternatives(q, records, pool) for q in missing[start : start + at_once]}
        members = missing[start : start + at_once]
        rated = _rate(language_model, members, batch, records, rendering, AT_ONCE * batch_size, variant)
        store.add(rated)
        stored = {(one.question_id, one.variant, one.sample): one for one in rated}
        for question in members:
            ranks[question.question_id] = ranks_of(question, batch[question.question_id], stored, variant) or []
        advance(len(members))
    return {question.question_id: ranks[question.question_id] for question in questions}


def _rate(
    language_model: LanguageModel,
    questions: Sequence[Question],
    facts: Mapping[str, Facts],
    records: Mapping[str, Record],
    rendering: Rendering,
    batch_size: int,
    variant: str,
) -> list[Response]:
    named = [
        (question, place, alternatives)
        for question in questions
        for place, (_, alternatives) in enumerate(facts[question.question_id])
        if alternatives.texts
    ]
    families = [
        answer_sequences(
            replace(question, question_id=f"{question.question_id}#{place}"),
            (question.answer, *alternatives.texts),
            records[question.record_id],
            language_model.tokenizer,
            rendering,
            language_model.pictures,
            after=AFTER,
        )
        for question, place, alternatives in named
    ]
    sequences = [sequence for family in families for sequence in family]
    scores = iter(score_answers(language_model, sequences, batch_size=batch_size))
    return [
        Response(
            question.question_id,
            variant,
            place,
            "",
            (),
            True,
            # As the store keeps them, so that ranks are the same when they are read again.
            tuple(float(np.float32(math.fsum(next(scores).log_probs))) for _ in family),
        )
        for (question, place, _), family in zip(named, families, strict=True)
    ]
