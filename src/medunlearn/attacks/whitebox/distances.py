"""Distances between two models' hidden states at the same tokens.

Notation: n tokens, W width.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

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
