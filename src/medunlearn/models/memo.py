"""Cache of values shared by models of one shape and tokenizer: token sequences, batches, answers."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Any, TypeVar

T = TypeVar("T")
SEQUENCE_TOKENS = 4_000_000
"""Tokens of sequences that a process keeps, about 36 bytes each."""
BATCH_TOKENS = 1_000_000
"""Tokens of batches that a process keeps, about 100 bytes each."""
ANSWERS = 8
"""The most answers of earlier models to one prompt."""


class Memo:
    """Cache up to a size, at which it is emptied."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._values: dict[Hashable, tuple[Any, int]] = {}
        self._size = 0

    def get(self, key: Hashable, make: Callable[[], T], size: Callable[[T], int]) -> T:
        """The value of a key, computed if missing."""
        if key in self._values:
            value: T = self._values[key][0]
            return value
        value = make()
        amount = size(value)
        if self._size + amount > self.most:
            self.clear()
        if amount <= self.most:
            self._values[key] = value, amount
            self._size += amount
        return value

    def clear(self) -> None:
        self._values, self._size = {}, 0


class TextMemo:
    """Cache of token sequences for one tokenizer, and of models' answers to prompts in its tokens.

    Another model's answer is a guess: :func:`medunlearn.generation.respond.respond` checks it token by token.
    """

    def __init__(self) -> None:
        self.sequences = Memo(SEQUENCE_TOKENS)
        self._answers: dict[tuple[int, ...], list[tuple[int, ...]]] = {}

    def add_answer(self, prompt: tuple[int, ...], answer: tuple[int, ...]) -> None:
        """Add an answer's tokens, including its end token."""
        answers = self._answers.setdefault(prompt, [])
        if answer in answers:
            answers.remove(answer)
        answers.append(answer)
        del answers[:-ANSWERS]

    def answer(self, prompt: tuple[int, ...], begun: tuple[int, ...]) -> tuple[int, ...]:
        """The latest answer that starts with these tokens; empty if there is none."""
        count = len(begun)
        answers = reversed(self._answers.get(prompt, ()))
        return next((answer for answer in answers if len(answer) > count and answer[:count] == begun), ())


def tokens_of(sequences: Iterable[Any]) -> int:
    """Total number of tokens of sequences."""
    return sum(len(sequence.ids) for sequence in sequences)
