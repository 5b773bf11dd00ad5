"""Importance of MLP neurons for a set of samples, and the neurons that are most specific to one of two sets."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from medunlearn.models.activations import Look, Side, Site
from medunlearn.models.mlps import Mlp


def importances(side: Side, mlps: Sequence[Mlp], threshold: float, images: bool) -> list[Tensor]:
    """Importance of each MLP's neurons for a side, [W] each.

    Args:
        threshold: value of |x| from which a neuron counts as active.
        images: x is a sample's deviation between its input with the image and without; else the activation at each
            token.
    """
    sites = [Site(str(mlp.layer), mlp.reads.module, "in") for mlp in mlps]
    total: dict[str, Moments] = {}
    for batch_moments in side.each(lambda look: _moments(look, sites, threshold, images)):
        total = {name: total[name] + more if name in total else more for name, more in batch_moments.items()}
    return [importance(total[site.name]) for site in sites]


def _moments(look: Look, sites: Sequence[Site], threshold: float, images: bool) -> dict[str, Moments]:
    if not images:
        return look.see(sites, lambda values, tokens: Moments.of(values, threshold, tokens.weights))
    pictured, bare = (
        look.see(sites, lambda values, tokens: tokens.means(values), images=images) for images in (True, False)
    )
    return {name: Moments.of(pictured[name] - bare[name], threshold) for name in pictured}


@dataclass(frozen=True)
class Moments:
    """Sums over cases, each of W neurons, from which the four importances are computed; sums of parts can be added.

    Attributes:
        count: number of cases.
        absolute, active, plain, squared: sums of |x|, of whether |x| is above the threshold, of x and of its
            square, [W].
    """

    count: float
    absolute: Tensor
    active: Tensor
    plain: Tensor
    squared: Tensor

    @staticmethod
    def of(values: Tensor, threshold: float, weights: Tensor | None = None) -> Moments:
        """Sums over cases, [n, W] in fp32; ``weights``, [n], are the cases' multiplicities."""
        times = values.new_ones(len(values)) if weights is None else weights
        size = values.abs()
        parts = (size, (size > threshold).float(), values, values**2)
        return Moments(float(times.sum()), *((times @ part).double() for part in parts))

    def __add__(self, other: Moments) -> Moments:
        return Moments(*map(operator.add, vars(self).values(), vars(other).values()))


def importance(moments: Moments) -> Tensor:
    """Absolute, frequency, variance and root-mean-square importance, added up: [W], >= 0, higher = matters more."""
    mean, square = moments.plain / moments.count, moments.squared / moments.count
    variance = (square - mean**2).clamp(min=0)
    return moments.absolute / moments.count + moments.active / moments.count + variance + square.sqrt()


def ratio(forget: Tensor, retain: Tensor, epsilon: float) -> Tensor:
    """``I(F, n) / (I(R, n) + epsilon)``, [W], >= 0; higher = more specific to the forget set."""
    return forget / (retain + epsilon)


def largest(scores: Sequence[Tensor], percent: float) -> list[Tensor]:
    """Indices of the largest scores over all layers, layer by layer: ``percent`` of them, at least one.

    Ties go to the lower layer, then to the lower index.
    """
    together = torch.cat(list(scores))
    count = max(1, int(percent * len(together) / 100 + 0.5))
    top = together.argsort(descending=True, stable=True)[:count]
    places, start = [], 0
    for layer in scores:
        inside = top[(top >= start) & (top < start + len(layer))] - start
        places.append(inside.sort().values)
        start += len(layer)
    return places
