"""Responses of a local model to a benchmark's questions, stored as they come."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from medunlearn.data.benchmark import Benchmark
from medunlearn.data.data_use import DataUse
from medunlearn.data.records import Question, Record
from medunlearn.data.responses import Response, ResponseStore
from medunlearn.data.storage import sha256_of_json
from medunlearn.generation.decode import decode, end_tokens, greedy_prefix
from medunlearn.generation.decodings import GREEDY_NAME
from medunlearn.models.batching import Batching
from medunlearn.models.load import LanguageModel
from medunlearn.models.scoring import AnswerScore, score_answers
from medunlearn.models.sequences import Rendering, TokenSequence, families_by_length

ROUND = 8
"""Batches whose reference answers are scored before they are decoded: what a crash may cost beside a batch."""


def open_store(
    folder: Path,
    *,
    model_fingerprint: str,
    benchmark_fingerprint: str,
    weights: str,
    rendering: Rendering,
    max_new_tokens: int,
    ranks: Mapping[str, int] | None = None,
    decoding: str = GREEDY_NAME,
    data_use: DataUse | None,
) -> ResponseStore:
    """The store of one model under one way of asking one benchmark, in a folder named by the settings' hash.

    The benchmark counts, since another one may ask something else under the same question's id.

    Args:
        ranks: further settings of a store of ranks (:func:`medunlearn.data.fact_ranks.rank_settings`).
        decoding: its name, and the seed of draws.
    """
    settings: dict[str, Any] = {
        "model": model_fingerprint,
        "benchmark": benchmark_fingerprint,
        "weights": weights,
        "template": rendering.template_name,
        "context": rendering.context,
        "decoding": decoding,
        "max_new_tokens": max_new_tokens,
    }
    settings |= ranks or {}
    name = f"{rendering.context}-{sha256_of_json(settings)[:12]}"
    return ResponseStore(folder / name, settings, data_use=data_use)


def respond(
    language_model: LanguageModel,
    questions: Sequence[Question],
    records: Mapping[str, Record],
    store: ResponseStore,
    rendering: Rendering,
    *,
    max_new_tokens: int,
    batch_size: int = 64,
    variant: str | None = None,
    advance: Callable[[int], None] = lambda count: None,
) -> dict[str, Response]:
    """Responses to the questions by question id; those already in the store are not asked again.

    Each response comes with the teacher-forced scores of the reference answer under the same prompt. They are asked
    first: as far as a model's first choices are the reference's tokens they tell its response too, so that decoding
    starts where the two part, and is not needed for what the model knows by heart.

    Args:
        variant: what the store calls this way of asking; None: the context mode.
        advance: called with the number of questions done since the last call, stored ones included.
    """
    variant = variant or rendering.context
    known = store.read()
    missing = [question for question in questions if (question.question_id, variant, 0) not in known]
    advance(len(questions) - len(missing))
    tokenizer = language_model.tokenizer
    sequences = [language_model.question_sequence(q, records[q.record_id], rendering) for q in missing]
    # A pass over whole answers and a step of decoding take memory of their own each.
    scoring, decoding = Batching(batch_size), Batching(batch_size)
    for places in _rounds(sequences, ROUND * batch_size):
        members = [sequences[place] for place in places]
        scores = score_answers(language_model, members, batch_size=scoring)
        for batch in decode(
            language_model,
            [sequence.prompt for sequence in members],
            shared=[sequence.shared for sequence in members],
            begun=_begun(language_model, members, scores, max_new_tokens, scoring),
            max_new_tokens=max_new_tokens,
            batch_size=decoding,
            advance=advance,
        ):
            responses = [
                Response(
                    question_id=members[place].key,
                    variant=variant,
                    sample=0,
                    response=tokenizer.decode(list(decoded.tokens), skip_special_tokens=True).strip(),
                    response_tokens=decoded.tokens,
                    finished=decoded.finished,
                    answer_log_probs=scores[place].log_probs,
                    answer_hits=scores[place].hits,
                )
                for place, decoded in batch
            ]
            store.add(responses)
            if language_model.memo is not None:
                for place, decoded in batch:
                    end = (tokenizer.eos_token_id,) if decoded.finished else ()
                    language_model.memo.add_answer(members[place].prompt, decoded.tokens + end)
            known.update({(r.question_id, r.variant, r.sample): r for r in responses})
    return {question.question_id: known[question.question_id, variant, 0] for question in questions}


def _begun(
    language_model: LanguageModel,
    sequences: Sequence[TokenSequence],
    scores: Sequence[AnswerScore],
    most: int,
    batching: Batching,
) -> list[tuple[int, ...]]:
    """The first tokens of each response, as far as a reference answer or another model's answer tells them.

    A model that was changed a little answers many questions as it did before. An answer of an earlier model that
    begins as this one's response is checked as the reference was: in one pass, where decoding takes one a token. In
    fp32 alone: narrower logits are often equal, and then a response would depend on the models before it.
    """
    prefixes = [
        greedy_prefix(s.ids[s.scored_from :], score.choices) for s, score in zip(sequences, scores, strict=True)
    ]
    memo = language_model.memo
    if memo is None or next(language_model.model.parameters()).dtype != torch.float32:
        return prefixes
    ends, guesses = end_tokens(language_model), dict[int, TokenSequence]()
    for place, (sequence, prefix) in enumerate(zip(sequences, prefixes, strict=True)):
        if len(prefix) < most and not ends & {*prefix}:
            guess = memo.answer(sequence.prompt, prefix)[:most]
            # What one token more would tell, decoding tells as well.
            if len(guess) > len(prefix) + 1:
                guesses[place] = replace(sequence, ids=sequence.prompt + guess)
    checked = score_answers(language_model, [*guesses.values()], batch_size=batching) if guesses else []
    for (place, guess_sequence), score in zip(guesses.items(), checked, strict=True):
        prefixes[place] = greedy_prefix(guess_sequence.ids[guess_sequence.scored_from :], score.choices)
    return prefixes


def _rounds(sequences: Sequence[TokenSequence], size: int) -> Iterator[list[int]]:
    """Places of the sequences, long ones first, in lists of about ``size`` that part no family."""
    members: list[int] = []
    for family in reversed(families_by_length(sequences)):
        members += family
        if len(members) >= size:
            yield members
            members = []
    if members:
        yield members


def longest_answer(tokenizer: Any, benchmark: Benchmark) -> int:
    """1.25 x the longest reference answer in model tokens: the default of max_new_tokens.

    Of the whole benchmark, so that a response never depends on which questions are asked beside it.
    """
    longest = max(len(ids) for ids in tokenizer([f" {q.answer}" for q in benchmark.questions])["input_ids"])
    return longest + longest // 4 + 1
