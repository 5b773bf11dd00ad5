"""Scores of text pairs by a model: each distinct pair is scored once, each distinct text encoded once.

Audited models repeat themselves, and every sample of a probe is compared with the same original. All pairs of a
text are scored before its encoding is released, so memory does not grow with the number of pairs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from medunlearn.errors import InputError
from medunlearn.models.batching import Batching
from medunlearn.models.encoders import load_pretrained
from medunlearn.models.precision import Precision

Pair = tuple[str, str]
Ids = Mapping[str, list[int]]
States = Mapping[str, Tensor]
Value = TypeVar("Value")

CHUNK = 256
"""Pairs whose encodings are held at the same time."""


class PairScorer(Generic[Value]):
    """Loop over pairs, shared by BERTScore and BARTScore.

    Raises:
        ModelError: the model cannot be loaded.
    """

    encoded_sides: slice
    """Texts of a pair that are encoded."""

    def __init__(self, source: str, cls: Any, device: str, precision: Precision, longest: int, kind: str) -> None:
        self.tokenizer, self.model = load_pretrained(source, cls, device, kind)
        self._precision = precision
        positions = getattr(self.model.config, "max_position_embeddings", longest)
        self._longest = min(positions, self.tokenizer.model_max_length, longest)

    def _states(self, padded: Tensor, mask: Tensor) -> Tensor:
        """Token ids and mask, [texts, T] -> states, [texts, T, width]."""
        raise NotImplementedError

    def _tokens(self, texts: Iterable[str], read: Callable[[str], str] = str) -> dict[str, list[int]]:
        ordered = sorted(texts)
        if not ordered:
            return {}
        encoded = self.tokenizer(
            [read(text) for text in ordered],
            truncation=True,
            max_length=self._longest,
            return_attention_mask=False,
        )
        return dict(zip(ordered, encoded["input_ids"], strict=True))

    def _score(
        self,
        counts: Counter[Pair],
        scored: list[Pair],
        ids: Ids,
        rate: Callable[[Sequence[Pair], States], dict[Pair, Value]],
        batch_size: int,
        advance: Callable[[int], None],
    ) -> dict[Pair, Value]:
        """Values of the scorable pairs; ``advance`` is called for the others at once."""
        advance(sum(counts.values()) - sum(counts[pair] for pair in scored))
        scored.sort(key=lambda pair: (len(ids[pair[1]]), pair[1], len(ids[pair[0]]), pair[0]), reverse=True)
        encoding, rating = Batching(batch_size), Batching(batch_size)

        def encode(texts: Sequence[str]) -> dict[str, Tensor]:
            order = sorted(texts, key=lambda text: len(ids[text]), reverse=True)
            parts = encoding.over(order, lambda batch: self._encode(batch, ids))
            return {text: states for part in parts for text, states in part.items()}

        values: dict[Pair, Value] = {}
        for chunk, states in with_states(scored, lambda pair: pair[self.encoded_sides], encode):
            for batch_scores in rating.over(chunk, lambda batch: rate(batch, states)):  # noqa: B023
                values |= batch_scores
                advance(sum(counts[pair] for pair in batch_scores))
        return values

    @torch.inference_mode()
    def _encode(self, texts: Sequence[str], ids: Ids) -> dict[str, Tensor]:
        """States of each text's tokens, [tokens, width]."""
        tokens = [torch.tensor(ids[text], device=self.model.device) for text in texts]
        mask = pad_sequence([torch.ones_like(sequence) for sequence in tokens], batch_first=True)
        padded = pad_sequence(tokens, batch_first=True, padding_value=self.tokenizer.pad_token_id or 0)
        states = self._states(padded, mask)
        return {text: states[row, : len(ids[text])].clone() for row, text in enumerate(texts)}


def distinct_pairs(first: Sequence[str], second: Sequence[str]) -> Counter[Pair]:
    """Count of each distinct pair, in order of first occurrence.

    Raises:
        InputError: one list is longer than the other.
    """
    if len(first) != len(second):
        raise InputError(f"{len(first)} responses and {len(second)} references: give one reference per response.")
    return Counter(zip(first, second, strict=True))


def with_states(
    pairs: Sequence[Pair],
    texts_of: Callable[[Pair], Sequence[str]],
    encode: Callable[[Sequence[str]], dict[str, Tensor]],
    *,
    size: int = CHUNK,
) -> Iterator[tuple[Sequence[Pair], States]]:
    """Pairs, ``size`` at a time, with the encodings of their texts.

    Args:
        pairs: pairs, best ordered so that those of similar length or with a common text are adjacent.
        texts_of: function from a pair to the texts to encode.
        encode: function from distinct texts to their encodings; called once per text.
    """
    chunks = [pairs[start : start + size] for start in range(0, len(pairs), size)]
    last = {text: number for number, chunk in enumerate(chunks) for pair in chunk for text in texts_of(pair)}
    states: dict[str, Tensor] = {}
    for number, chunk in enumerate(chunks):
        fresh = dict.fromkeys(text for pair in chunk for text in texts_of(pair) if text not in states)
        states |= encode(list(fresh))
        yield chunk, states
        for text in [text for text in states if last[text] == number]:
            del states[text]
