"""Continuations of text prefixes by a local model, with teacher-forced scores of the true continuation."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf

import numpy as np

from medunlearn.data.responses import Response, ResponseStore
from medunlearn.errors import ConfigError
from medunlearn.generation.decode import DecodedAnswer, decode, greedy_prefix
from medunlearn.generation.decodings import Decoding
from medunlearn.generation.sampling import TokenSampler
from medunlearn.models.batching import Batching
from medunlearn.models.load import LanguageModel
from medunlearn.models.scoring import AnswerScore, score_answers
from medunlearn.models.sequences import TokenSequence, begin_tokens

ROUND = 8
"""Batches whose true continuations are rated before they are decoded: what a crash may cost beside a batch."""


@dataclass(frozen=True, slots=True)
class Opening:
    """A text cut into a prefix and its true continuation.

    Attributes:
        key, record: ids of the probe and of the text; openings of one text are prefixes of each other.
        prefix, suffix: token ids before and after the cut.
        begins: the prefix already has its start-of-sequence token, or needs none: a prompt in its template. It then
            shares no prefix with others.
    """

    key: str
    record: str
    prefix: tuple[int, ...]
    suffix: tuple[int, ...]
    begins: bool = False


def positions(language_model: LanguageModel) -> float:
    """Tokens that the model's context window holds; infinite if it has no bound."""
    most = getattr(language_model.model.config.get_text_config(), "max_position_embeddings", None)
    return inf if most is None else int(most)


def refuse_too_long(language_model: LanguageModel, longest_prefix: int, max_new_tokens: int) -> None:
    """Refuse prefixes and continuations that do not fit the model's context window.

    Raises:
        ConfigError: the longest one does not fit.
    """
    room = positions(language_model)
    length = len(begin_tokens(language_model.tokenizer)) + longest_prefix + max_new_tokens
    if length > room:
        most = int(room) - (length - max_new_tokens)
        fix = (
            f"take --max-new-tokens {most} or less, or shorter --prefixes"
            if most > 0
            else "take shorter --prefixes"
        )
        raise ConfigError(
            [
                f"the model has {room} positions; a prefix of {longest_prefix} tokens and --max-new-tokens "
                f"{max_new_tokens} take {length}: {fix}"
            ]
        )


def continue_openings(
    language_model: LanguageModel,
    openings: Sequence[Opening],
    decoding: Decoding,
    store: ResponseStore,
    *,
    samples: int = 1,
    seed: int = 0,
    max_new_tokens: int,
    batch_size: int = 32,
    advance: Callable[[int], None] = lambda count: None,
) -> None:
    """Store a response to every opening that has none yet.

    Greedy responses come with teacher-forced log-probabilities and hits of the suffix's tokens (no EOS among them).
    One pass over a text scores the suffixes of all its openings, since they share their context, and it predicts
    their responses up to the point where the model leaves the text.

    Args:
        samples: responses per opening under a sampling decoding; each has its own seed, so that it does not depend
            on its batch.
        advance: called with the number of responses done since the last call, stored ones included.
    """
    stored, many = store.read(), samples if decoding.draws else 1
    pending = [
        (opening, sample)
        for opening in openings
        for sample in range(many)
        if (opening.key, decoding.name, sample) not in stored
    ]
    advance(many * len(openings) - len(pending))
    size = ROUND * batch_size
    # A pass over whole texts and a step of decoding take memory of their own each.
    for_ratings, for_responses = Batching(batch_size), Batching(batch_size)
    for start in range(0, len(pending), size):
        pairs = pending[start : start + size]
        if decoding.draws:
            purposes = [("audit decoding", seed, decoding.name, opening.key, sample) for opening, sample in pairs]
            sampler = TokenSampler(decoding, purposes, max_new_tokens)
            batches = _decode(language_model, pairs, (), max_new_tokens, for_responses, sampler, advance)
            rated: Mapping[str, AnswerScore] = {}
        else:
            rated = _score_suffixes(language_model, [opening for opening, _ in pairs], for_ratings)
            prefixes = [greedy_prefix(opening.suffix, rated[opening.key].choices) for opening, _ in pairs]
            batches = _decode(language_model, pairs, prefixes, max_new_tokens, for_responses, None, advance)
        for batch in batches:
            store.add(_response(language_model, *pairs[place], decoding, answer, rated) for place, answer in batch)


def _decode(
    language_model: LanguageModel,
    pending: Sequence[tuple[Opening, int]],
    begun: Sequence[Sequence[int]],
    most: int,
    batching: Batching,
    sampler: TokenSampler | None,
    advance: Callable[[int], None],
) -> Iterator[list[tuple[int, DecodedAnswer]]]:
    begin = tuple(begin_tokens(language_model.tokenizer))
    shortest = min((len(opening.prefix) for opening, _ in pending if not opening.begins), default=0)
    return decode(
        language_model,
        [opening.prefix if opening.begins else (*begin, *opening.prefix) for opening, _ in pending],
        # Openings of one text have as much in common as the shortest has; samples of a prompt share all of it.
        shared=[len(opening.prefix) if opening.begins else len(begin) + shortest for opening, _ in pending],
        begun=begun,
        max_new_tokens=most,
        batch_size=batching,
        **({} if sampler is None else {"choose": sampler}),
        advance=advance,
    )


def _score_suffixes(
    language_model: LanguageModel, openings: Sequence[Opening], batching: Batching
) -> dict[str, AnswerScore]:
    """Teacher-forced scores of each opening's suffix."""
    begin = tuple(begin_tokens(language_model.tokenizer))
    by_record: dict[str, list[Opening]] = {}
    for opening in openings:
        by_record.setdefault(opening.record, []).append(opening)
    sequences, first = [], {}
    for record, members in by_record.items():
        first[record] = min(len(opening.prefix) for opening in members)
        longest = max(members, key=lambda opening: len(opening.prefix) + len(opening.suffix))
        front = () if longest.begins else begin
        ids = (*front, *longest.prefix, *longest.suffix)
        # Nothing predicts a text's very first token.
        sequences.append(TokenSequence(record, ids, 0, max(1, len(front) + first[record])))
    rated = {}
    scores = score_answers(language_model, sequences, batch_size=batching)
    for sequence, score in zip(sequences, scores, strict=True):
        for opening in by_record[sequence.key]:
            start = len(opening.prefix) - first[sequence.key]
            part = slice(start, start + len(opening.suffix))
            rated[opening.key] = AnswerScore(score.log_probs[part], score.hits[part], score.choices[part])
    return rated


def _response(
    language_model: LanguageModel,
    opening: Opening,
    sample: int,
    decoding: Decoding,
    answer: DecodedAnswer,
    rated: Mapping[str, AnswerScore],
) -> Response:
    score = rated.get(opening.key)
    return Response(
        question_id=opening.key,
        variant=decoding.name,
        sample=sample,
        response=continued_text(language_model, opening.prefix, answer.tokens),
        response_tokens=answer.tokens,
        finished=answer.finished,
        answer_log_probs=None if score is None else score.log_probs,
        answer_hits=None if score is None else score.hits,
    )


def continued_text(language_model: LanguageModel, prefix: Sequence[int], tokens: Sequence[int]) -> str:
    """Text that tokens add to a prefix; handles tokenizers that drop the leading space of a separate text."""

    def text(ids: Sequence[int]) -> str:
        decode = language_model.tokenizer.decode
        return str(decode(list(ids), skip_special_tokens=True, clean_up_tokenization_spaces=False))

    before = np.asarray(prefix[-8:]).tolist()
    front, whole = text(before), text([*before, *tokens])
    return whole[len(front) :] if whole.startswith(front) else text(tokens)
