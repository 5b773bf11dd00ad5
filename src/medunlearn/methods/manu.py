"""Modality-aware neuron unlearning: zeroes the neurons that matter most for the forget set."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pydantic import Field

from medunlearn.methods.editing import EditedModel, Kind

if TYPE_CHECKING:
    from medunlearn.models.activations import Side


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
        from medunlearn.methods.neuron_importance import importances, largest, ratio

        mlps = model.mlps(self.layers)
        # Deviations are compared with deviations: both sides must have images.
        images = forget.images and retain.images
        ours, theirs = (importances(side, mlps, self.threshold, images) for side in (forget, retain))
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
