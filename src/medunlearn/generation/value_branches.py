"""Token sequences of texts that differ in one value: branches of what they have in common."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import takewhile
from typing import Any

from medunlearn.data.records import Question, Record
from medunlearn.errors import InputError
from medunlearn.models.prompts import Prompt, render
from medunlearn.models.sequences import (
    Rendering,
    SequenceImages,
    TokenSequence,
    begin_tokens,
    encode,
    encode_parts,
    question_sequence,
)


def answer_sequences(
    question: Question,
    answers: Sequence[str],
    record: Record,
    tokenizer: Any,
    rendering: Rendering,
    pictures: SequenceImages | None = None,
    *,
    after: int,
) -> list[TokenSequence]:
    """The question with several answers as branches of their common beginning, scored from where they differ.

    The log-probabilities of two answers differ only in their scored tokens.

    Args:
        answers: the first is the question's own.
        after: number of scored tokens after the last one in which the answers differ.

    Raises:
        InputError: as :func:`~medunlearn.models.sequences.question_sequence`.
    """
    own = question_sequence(question, record, tokenizer, rendering, pictures)
    ids = [own.ids, *_other_answers(question, answers[1:], record, tokenizer, rendering, own)]
    ends = [one[own.scored_from :] for one in ids]
    common, cut = _part(ends, after, 1)
    start = own.scored_from + common
    return [
        TokenSequence(f"{question.question_id}#{place}", (*own.prompt, *end[: len(end) - cut]), start, start)
        for place, end in enumerate(ends)
    ]


def _other_answers(
    question: Question,
    answers: Sequence[str],
    record: Record,
    tokenizer: Any,
    rendering: Rendering,
    own: TokenSequence,
) -> list[tuple[int, ...]]:
    """Tokens of the same prompt with other answers, each as if it were encoded as a whole.

    If the tokenizer splits before the prompt's last word, only the rest is encoded for each answer.
    """

    def rendered(answer: str) -> Prompt:
        return render(
            replace(question, answer=answer),
            record.text,
            template=rendering.template,
            context=rendering.context,
            tokenizer=tokenizer,
            opening=rendering.opening,
            today=rendering.today,
        )

    first, *others = map(rendered, (question.answer, *answers))
    word = first.own[max(first.own.rfind(" "), first.own.rfind("\n"), 0) :]
    texts = [word + prompt.answer for prompt in (first, *others)]
    tail, *tails = tokenizer(texts, add_special_tokens=False)["input_ids"]
    before, end = own.ids[: -len(tail) - 1], own.ids[-1:]
    if (*before, *tail, *end) == own.ids and len(before) <= own.scored_from:
        return [(*before, *ids, *end) for ids in tails]
    prompt = own.prompt
    parts = [encode_parts(tokenizer, (first.shared + first.own, other.answer))[1] for other in others]
    return [(*prompt, *ids, *end) for ids in parts]


def record_branches(
    record: Record,
    values: Sequence[str],
    span: tuple[int, int],
    tokenizer: Any,
    max_length: int | None,
    image: Sequence[int] = (),
    *,
    after: int,
) -> list[TokenSequence]:
    """The record's text with several values in one place as branches, scored from where they differ.

    Their context is that of training: the chunk of :func:`~medunlearn.models.sequences.record_sequences`, started
    later if a branch would be too long.

    Args:
        values: the first is the record's own.
        span: start and end offset of the value, end exclusive.
        image: tokens of the record's image, as in that function.
        after: number of scored tokens after the last one in which the branches differ.

    Raises:
        InputError: a value does not fit within ``max_length``.
    """
    before, ends = _before_and_ends(record.text, values, span, 16 * (after + 1), tokenizer)
    begin, fixed = begin_tokens(tokenizer), [*begin_tokens(tokenizer), *image] if image else []
    own = before if image else [*begin, *before]
    # Nothing predicts a text's first token.
    common, cut = _part(ends, after, 1 if fixed or own else 2)
    own, ends = [*own, *ends[0][:common]], [end[common : len(end) - cut] for end in ends]
    longest = max(map(len, ends))
    if max_length is not None:
        size = max_length - len(fixed)
        if longest >= size:
            raise InputError(
                f"A value in a record takes {longest} tokens, too many for max_length={max_length} of training. "
                "Train with a larger --max-length, or rank facts of answers: --rank-in questions."
            )
        # Chunks overlap by a token.
        chunk = max(0, len(own) - 1) // (size - 1) * (size - 1)
        own = own[max(chunk, len(own) + longest - size) :]
    prompt = (*fixed, *own)
    at = max(1, len(prompt))
    return [
        TokenSequence(f"{record.record_id}#{place}", (*prompt, *end), len(prompt), at)
        for place, end in enumerate(ends)
    ]


def _before_and_ends(
    text: str, values: Sequence[str], span: tuple[int, int], reach: int, tokenizer: Any
) -> tuple[list[int], list[list[int]]]:
    """Tokens before the word with the value, and the tokens from there on for each value, up to ``reach``
    characters after.

    If the tokenizer splits between words, only changed words are encoded for each value.
    """
    start, end = span
    stop = text.find(" ", end + reach)
    eos = [tokenizer.eos_token_id] if stop < 0 else []
    behind = text[end : None if stop < 0 else stop]
    word = max(text.rfind(" ", 0, start), 0)
    before, whole = encode(tokenizer, text[:word]), encode(tokenizer, text[:start] + values[0] + behind)
    ends = [encode(tokenizer, text[word:start] + value + behind) for value in values]
    if [*before, *ends[0]] != whole:
        before, ends = [], [encode(tokenizer, text[:start] + value + behind) for value in values]
    return before, [[*tokens, *eos] for tokens in ends]


def _part(ends: Sequence[Sequence[int]], after: int, first: int) -> tuple[int, int]:
    """Numbers of tokens common to all sequences: at the beginning, and at the end that is not scored.

    Args:
        after: number of scored tokens after the last one in which they differ.
        first: least number of scored tokens if all begin differently; 1 if they begin alike.
    """
    common, alike = _common_prefix_length(ends), _common_prefix_length([end[::-1] for end in ends])
    # Nothing counts both as the beginning and as the end.
    least = 1 if common else first
    return common, max(0, min(alike, min(map(len, ends)) - common - least) - after)


def _common_prefix_length(sequences: Sequence[Sequence[int]]) -> int:
    """Length of the common prefix of all sequences, at most one less than the shortest."""
    same = sum(1 for _ in takewhile(lambda tokens: len(set(tokens)) == 1, zip(*sequences, strict=False)))
    return min(same, min(map(len, sequences)) - 1)
