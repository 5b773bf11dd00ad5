"""A record with other values in one place: token sequences that share what stands before it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from medunlearn.data.records import Record
from medunlearn.errors import InputError
from medunlearn.models.sequences import TokenSequence, agreeing, begin_tokens, encode


def record_branches(
    record: Record,
    values: Sequence[str],
    span: tuple[int, int],
    tokenizer: Any,
    max_length: int | None,
    image: Sequence[int] = (),
    *,
    after: int = 0,
) -> list[TokenSequence]:
    """The record's text with each of these values in one place: branches, scored from where they part.

    Before them stands what the model saw there in training: the chunk of
    :func:`~medunlearn.models.sequences.record_sequences`, begun later where a branch would be too long.

    Args:
        values: the first is the record's own.
        span: its first character and the one behind its last.
        image: tokens of the record's image, as there.
        after: tokens that count behind the last one in which the branches differ.

    Raises:
        InputError: a value does not fit within ``max_length``.
    """
    before, ends = _before_and_ends(record.text, values, span, 16 * (after + 1), tokenizer)
    begin, fixed = begin_tokens(tokenizer), [*begin_tokens(tokenizer), *image] if image else []
    own = before if image else [*begin, *before]
    common, alike = agreeing(ends), agreeing([end[::-1] for end in ends])
    # One token of each branch is scored at least, and nothing counts both as the beginning and as the end. Nothing
    # predicts a text's first token.
    least = 1 if fixed or own or common else 2
    cut = max(0, min(alike, min(map(len, ends)) - common - least) - after)
    own, ends = [*own, *ends[0][:common]], [end[common : len(end) - cut] for end in ends]
    longest = max(map(len, ends))
    if max_length is not None:
        size = max_length - len(fixed)
        if longest >= size:
            raise InputError(
                f"A value in a record takes {longest} tokens, which leaves no room within max_length={max_length} "
                "of training. Train with a larger --max-length, or rank facts of answers: --rank-in questions."
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
    """Tokens before a value's word, and from there on with each of the values; ``reach`` characters behind.

    Only words that change are encoded for each value, where a tokenizer cuts text between words.
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
