"""Next-token sampling with random numbers per prompt and step, independent of the batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from medunlearn.generation.decodings import Decoding
from medunlearn.seeds import generator

Choose = Callable[[Tensor, Sequence[int], Sequence[int]], Tensor]
"""Logits [R, V], the prompt of each row (its place), and how many tokens each has already -> tokens [R]."""


def greedy_choice(logits: Tensor, places: Sequence[int], steps: Sequence[int]) -> Tensor:
    """Greedy decoding: the likeliest token, the first one on ties."""
    return logits.argmax(dim=1)


class TokenSampler:
    """Token sampler, a :data:`Choose`.

    Each prompt has its own row of uniform numbers, one per step. The token is chosen by inverse transform sampling
    in fp64. So a draw depends only on the prompt's logits, not on batch, order or device (up to differences in
    logits).

    Args:
        decoding: temperature, top-k and top-p.
        purposes: words of the seed for each prompt's draw.
        most: longest answer in tokens.
    """

    def __init__(self, decoding: Decoding, purposes: Sequence[Sequence[str | int]], most: int) -> None:
        self.decoding, self.purposes, self._most = decoding, purposes, most
        self._numbers: dict[int, npt.NDArray[np.float64]] = {}

    def __call__(self, logits: Tensor, places: Sequence[int], steps: Sequence[int]) -> Tensor:
        uniform = [float(self._row(place)[step]) for place, step in zip(places, steps, strict=True)]
        return draw(logits, torch.tensor(uniform, dtype=torch.float64, device=logits.device), self.decoding)

    def _row(self, place: int) -> npt.NDArray[np.float64]:
        if place not in self._numbers:
            self._numbers[place] = generator(*self.purposes[place]).random(self._most)
        return self._numbers[place]


def draw(logits: Tensor, uniform: Tensor, decoding: Decoding) -> Tensor:
    """The token of each row selected by a uniform number (inverse transform), [R].

    Args:
        logits: [R, V].
        uniform: one number in [0, 1) per row, fp64, [R].
    """
    weights, ids = _weights(logits, decoding)
    weights = weights.cumsum(dim=1)
    place = torch.searchsorted(weights, uniform[:, None] * weights[:, -1:], right=True)
    place = place.clamp(max=weights.shape[1] - 1)
    return (place if ids is None else ids.gather(1, place))[:, 0]


def decoded_log_probs(logits: Tensor, tokens: Tensor, decoding: Decoding) -> Tensor:
    """Log-probability of each token under a sampling decoding, [R], fp64; -inf if it is never sampled.

    Args:
        logits: [R, V].
        tokens: one per row, [R].
    """
    weights, ids = _weights(logits, decoding)
    if ids is None:
        weight = weights.gather(1, tokens[:, None])[:, 0]
    else:
        weight = (weights * (ids == tokens[:, None])).sum(dim=1)
    return (weight / weights.sum(dim=1)).log()


def _weights(logits: Tensor, decoding: Decoding) -> tuple[Tensor, Tensor | None]:
    """Unnormalised weights of the tokens to sample from, [R, K] in fp64, and their ids; None for all in order."""
    temperature, width = decoding.temperature or 1.0, logits.shape[1]
    if not decoding.top_k and decoding.top_p is None:
        return torch.softmax(logits.double() / temperature, dim=1), None
    top, ids = torch.topk(logits, min(decoding.top_k or width, width), dim=1)
    weights = torch.softmax(top.double() / temperature, dim=1)
    if decoding.top_p is not None:
        before = weights.cumsum(dim=1) - weights
        weights = weights.masked_fill(before >= decoding.top_p, 0.0)
    return weights, ids
