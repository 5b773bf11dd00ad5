"""Responses of a local model to a benchmark's questions, greedy or sampled, stored as they are generated."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import torch

from medunlearn.data.benchmark import Benchmark
from medunlearn.data.records import Question, Record
from medunlearn.data.responses import Response, Responses, ResponseStore
from medunlearn.generation.decode import DecodedAnswer, decode, end_tokens, greedy_prefix
from medunlearn.generation.decodings import Decoding
from medunlearn.generation.sampling import TokenSampler, decoded_log_probs
from medunlearn.models.batching import Batching
from medunlearn.models.chat import answer_text
from medunlearn.models.forward_outputs import ForwardOutputs
from medunlearn.models.layouts import decoder_of, make_batch
from medunlearn.models.load import LanguageModel
from medunlearn.models.scoring import AnswerScore, in_batches, score_answers
from medunlearn.models.sequences import Rendering, TokenSequence, families_by_length

ROUND = 8
"""Batches whose reference answers are scored before they are decoded: what a crash may cost beside a batch."""


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
    """Responses to the questions by question id; stored ones are not generated again.

    Each response comes with teacher-forced scores of the reference answer under the same prompt. These are computed
    first: as long as the model's first choices equal the reference, they also give its response, so decoding starts
    where the two differ and is not needed for memorized answers.

    Args:
        variant: variant in the store; None: the context mode.
        advance: called with the number of questions done since the last call, stored ones included.
    """
    variant = variant or rendering.context
    stored = store.read()
    missing = [question for question in questions if (question.question_id, variant, 0) not in stored]
    advance(len(questions) - len(missing))
    tokenizer, memo = language_model.tokenizer, language_model.memo
    sequences = language_model.question_sequences(missing, records, rendering)
    # A pass over whole answers and a step of decoding take memory of their own each.
    scoring, decoding = Batching(batch_size), Batching(batch_size)
    for places in _rounds(sequences, ROUND * batch_size):
        members = [sequences[place] for place in places]
        scores = score_answers(language_model, members, batch_size=scoring)
        blanks = [
            Response(sequence.key, variant, 0, "", (), False, score.log_probs, score.hits)
            for sequence, score in zip(members, scores, strict=True)
        ]
        for batch in decode(
            language_model,
            [sequence.prompt for sequence in members],
            shared=[sequence.shared for sequence in members],
            begun=_answer_prefixes(language_model, members, scores, max_new_tokens, scoring),
            max_new_tokens=max_new_tokens,
            batch_size=decoding,
            advance=advance,
        ):
            stored |= _store_answers(tokenizer, store, blanks, batch)
            if memo is not None:
                for place, answer in batch:
                    end = members[place].ids[-1:] if answer.finished else ()
                    memo.add_answer(members[place].prompt, answer.tokens + end)
    return {question.question_id: stored[question.question_id, variant, 0] for question in questions}


def sample_responses(
    language_model: LanguageModel,
    questions: Sequence[Question],
    records: Mapping[str, Record],
    store: ResponseStore,
    rendering: Rendering,
    decoding: Decoding,
    *,
    samples: int,
    seed: int,
    max_new_tokens: int,
    batch_size: int = 64,
    advance: Callable[[int], None] = lambda count: None,
) -> dict[str, list[Response]]:
    """Sampled responses by question; stored ones are not sampled again.

    Each draw has its own seed, derived from question and sample number, so it does not depend on its batch, and
    fewer samples are a prefix of more. The first sample has the log-probabilities of the reference answer's tokens
    under the decoding, EOS last.

    Args:
        advance: called with the number of responses done since the last call, stored ones included.
    """
    variant, stored = rendering.context, store.read()
    pending = [(q, n) for q in questions for n in range(samples) if (q.question_id, variant, n) not in stored]
    advance(samples * len(questions) - len(pending))
    rating, drawing = Batching(batch_size), Batching(batch_size)
    for start in range(0, len(pending), ROUND * batch_size):
        pairs = pending[start : start + ROUND * batch_size]
        distinct = [*{q.question_id: q for q, _ in pairs}.values()]
        sequences = {s.key: s for s in language_model.question_sequences(distinct, records, rendering)}
        first = [sequences[q.question_id] for q, sample in pairs if sample == 0]
        rated = in_batches(partial(_decoded_log_probs, decoding), language_model, first, rating)
        log_probs = {sequence.key: values for sequence, values in zip(first, rated, strict=True)}
        blanks = [
            Response(q.question_id, variant, n, "", (), False, None if n else log_probs[q.question_id])
            for q, n in pairs
        ]
        prompts = [sequences[q.question_id].prompt for q, _ in pairs]
        purposes = [("sampled response", seed, decoding.name, q.question_id, sample) for q, sample in pairs]
        for batch in decode(
            language_model,
            prompts,
            # All samples of a question share its prompt.
            shared=[len(prompt) for prompt in prompts],
            max_new_tokens=max_new_tokens,
            batch_size=drawing,
            choose=TokenSampler(decoding, purposes, max_new_tokens),
            advance=advance,
        ):
            stored |= _store_answers(language_model.tokenizer, store, blanks, batch)
    return {q.question_id: [stored[q.question_id, variant, n] for n in range(samples)] for q in questions}


def _store_answers(
    tokenizer: Any,
    store: ResponseStore,
    blanks: Sequence[Response],
    batch: Sequence[tuple[int, DecodedAnswer]],
) -> Responses:
    """Fill in the responses of a decoded batch and store them.

    Args:
        blanks: responses without text or tokens, in the order of the prompts.
    """
    responses = [
        replace(
            blanks[place],
            response=answer_text(tokenizer, answer.tokens),
            response_tokens=answer.tokens,
            finished=answer.finished,
        )
        for place, answer in batch
    ]
    store.add(responses)
    return {(response.question_id, response.variant, response.sample): response for response in responses}


@torch.no_grad()
def _decoded_log_probs(
    decoding: Decoding, sequences: Sequence[TokenSequence], language_model: LanguageModel
) -> list[tuple[float, ...]]:
    """Log-probability of each answer token under the decoding."""
    model = language_model.model
    batch = make_batch(model, sequences, language_model.tokenizer.pad_token_id, language_model.device)
    outputs, parts = ForwardOutputs(decoder_of(model), batch), []
    if outputs.decoder.support.head:
        # In pieces: logits of all positions are never held at once.
        for piece in outputs.head.pieces(len(batch.targets)):
            logits = outputs.head.logits(outputs.final[piece])
            parts.append(decoded_log_probs(logits, batch.targets[piece], decoding))
    else:
        parts.append(decoded_log_probs(outputs.logits, batch.targets, decoding))
    values = torch.split(torch.cat(parts), [sequence.scored for sequence in sequences])
    return [tuple(part.tolist()) for part in values]


def _answer_prefixes(
    language_model: LanguageModel,
    sequences: Sequence[TokenSequence],
    scores: Sequence[AnswerScore],
    most: int,
    batching: Batching,
) -> list[tuple[int, ...]]:
    """The known first tokens of each response, from a reference answer or another model's answer.

    A slightly changed model answers many questions as before. An earlier model's answer is verified like the
    reference: in one pass, where decoding takes one per token. Only in fp32: narrower logits often tie, and a
    response would then depend on earlier models.
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
    """Indices of the sequences, longest first, in lists of about ``size`` that never split a family."""
    members: list[int] = []
    for family in reversed(families_by_length(sequences)):
        members += family
        if len(members) >= size:
            yield members
            members = []
    if members:
        yield members


def longest_answer(tokenizer: Any, benchmark: Benchmark) -> int:
    """Default of max_new_tokens: 1.25 x the longest reference answer in model tokens.

    Over the whole benchmark, so that a response never depends on the other selected questions.
    """
    longest = max(len(ids) for ids in tokenizer([f" {q.answer}" for q in benchmark.questions])["input_ids"])
    return longest + longest // 4 + 1
