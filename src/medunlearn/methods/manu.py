"""Modality-aware neuron unlearning: zeroes the neurons that matter most for the forget set."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import torch
from pydantic import Field
from torch import Tensor

from medunlearn.methods.editing import EditedModel, Kind, Mlp, Side, Site
from medunlearn.models.activations import Look


@dataclass(frozen=True)
class MANU:
    """Zeroes the MLP neurons with the largest ratio of importance for the forget set to importance for the retain
    set.

    ``S_n = I(F, n) / (I(R, n) + epsilon)``, with I the sum of four importances of neuron n: mean of |x|
    (absolute), share of |x| above a threshold (frequency), variance of x, and root of the mean of x squared. For a
    vision-language model, x is a sample's *deviation*: the neuron's mean activation over the tokens of its input
    with the image, minus that of its text only. For a text model, x is the neuron's activation at each token. Among
    the neurons of all chosen layers, the alpha percent with the largest S_n are zeroed.

    Source: Liu et al. 2025 (MANU, arXiv 2502.15910); MedForget, Appendix A.1. MedForget gives no alpha, epsilon or
    threshold, nor how to take a deviation between inputs of different length (docs/unlearn.md).

    Attributes:
        alpha: percent of the neurons to zero; at least one neuron is.
        epsilon: keeps the ratio finite for neurons that are inactive on the retain set.
        threshold: value of |x| from which a neuron counts as active.
        layers: all, last:3, 22-27 or 3,5; 0 is the first.
    """

    title: ClassVar[str] = "MANU"
    family: ClassVar[str] = "weight editing"
    retain_term: ClassVar[str] = "none"
    kind: ClassVar[Kind] = "edit"

    alpha: Annotated[float, Field(gt=0, lt=100)] = 2.0
    epsilon: Annotated[float, Field(gt=0)] = 1e-5
    threshold: Annotated[float, Field(ge=0)] = 0.1
    layers: str = "all"

    def passes(self, images: bool) -> int:
        return 2 if images else 1

    def edit(self, model: EditedModel, forget: Side, retain: Side) -> dict[str, Any]:
        mlps = model.mlps(self.layers)
        # Deviations are compared with deviations: both sides must have images.
        images = forget.images and retain.images
        ours, theirs = (self._importances(mlps, side, images) for side in (forget, retain))
        scores = [ratio(forgets, retains, self.epsilon) for forgets, retains in zip(ours, theirs, strict=True)]
        pruned = largest(scores, self.alpha)
        for mlp, neurons in zip(mlps, pruned, strict=True):
            mlp.zero(neurons)
        return {
            "neurons": sum(mlp.neurons for mlp in mlps),
            "zeroed": sum(len(neurons) for neurons in pruned),
            "zeroed_by_layer": {str(mlp.layer): len(neurons) for mlp, neurons in zip(mlps, pruned, strict=True)},
            "importance_of": "deviations" if images else "activations",
        }

    def _importances(self, mlps: Sequence[Mlp], side: Side, images: bool) -> list[Tensor]:
        sites = [Site(str(mlp.layer), mlp.reads.module, "in") for mlp in mlps]
        total: dict[str, Moments] = {}
        for batch_moments in side.each(lambda look: self._moments(look, sites, images)):
            total = {name: total[name] + more if name in total else more for name, more in batch_moments.items()}
        return [importance(total[site.name]) for site in sites]

    def _moments(self, look: Look, sites: Sequence[Site], images: bool) -> dict[str, Moments]:
        if not images:
            return look.see(sites, lambda values, tokens: Moments.of(values, self.threshold, tokens.weights))
        pictured, bare = (
            look.see(sites, lambda values, tokens: tokens.means(values), images=images) for images in (True, False)
        )
        return {name: Moments.of(pictured[name] - bare[name], self.threshold) for name in pictured}


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
