"""Distances between two models' hidden states at the same tokens.

Notation: n tokens, W width.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from medunlearn.attacks.whitebox.layer_pass import LayerPass
from medunlearn.models.load import LanguageModel
from medunlearn.models.scoring import in_batches
from medunlearn.models.sequences import TokenSequence

Floats = npt.NDArray[np.float64]


def relative_distance(states: Floats, others: Floats) -> float:
    """Norm of the difference over the norm of the other states, [n, W] each; mean over tokens.

    0 and up, 0 = the same states. NaN for states of zeros.
    """
    difference = np.linalg.norm(states - others, axis=1)
    return float((difference / np.linalg.norm(others, axis=1)).mean())


def cosine(states: Floats, others: Floats) -> float:
    """Cosine of the angle between the states, [n, W] each; mean over tokens. -1 to 1, 1 = the same direction."""
    products = (states * others).sum(axis=1)
    return float((products / (np.linalg.norm(states, axis=1) * np.linalg.norm(others, axis=1))).mean())


def linear_cka(states: Floats, others: Floats) -> float | None:
    """Centred kernel alignment with linear kernels, [n, W] and [n, W'].

    0-1, 1 = the same geometry up to rotation and scale, so that it does not tell whether two models agree. None if
    either has no variance.

    Source: Kornblith et al. 2019 (arXiv 1905.00414), equation for linear CKA in Section 3.
    """
    x, y = states - states.mean(axis=0), others - others.mean(axis=0)
    both, own, other = (float(np.linalg.norm(a.T @ b)) for a, b in ((y, x), (x, x), (y, y)))
    # Written so that widths may differ; the norms are Frobenius norms.
    return None if own == 0.0 or other == 0.0 else both**2 / (own * other)


@dataclass(frozen=True, slots=True)
class StateDistances:
    """One sequence's hidden states beside those of other models, by layer.

    Attributes:
        cosines: to the target's.
        nearness: d(retrained) / (d(retrained) + d(target)); None without a retrained model, or where both are 0.
    """

    cosines: list[float]
    nearness: list[float | None]


def state_distances(
    language_model: LanguageModel,
    others: Sequence[LanguageModel],
    sequences: Sequence[TokenSequence],
    batch_size: int,
) -> list[StateDistances]:
    """Distances of each sequence's states.

    Args:
        others: the target, and the retrained model if there is one.
    """

    @torch.no_grad()
    def distances(batch: Sequence[TokenSequence], own: LanguageModel) -> list[StateDistances]:
        states = [LayerPass.of(model, batch) for model in (own, *others)]
        counts, rows = [s.scored for s in batch], [StateDistances([], []) for _ in batch]
        for layer in range(len(states[0].states)):
            parts = [torch.split(layers.read(layer).double().cpu(), counts) for layers in states]
            for place, row in enumerate(rows):
                ours, target, *retrained = (part[place].numpy() for part in parts)
                row.cosines.append(cosine(ours, target))
                row.nearness.append(nearness(ours, target, retrained[0]) if retrained else None)
        return rows

    return in_batches(distances, language_model, sequences, batch_size)


def nearness(states: Floats, target: Floats, retrained: Floats) -> float | None:
    """1 = the target's states, 0 = the retrained model's, [n, W] each; None if both are the same as these."""
    to_target, to_retrained = relative_distance(states, target), relative_distance(states, retrained)
    total = to_target + to_retrained
    return None if total == 0.0 else to_retrained / total
