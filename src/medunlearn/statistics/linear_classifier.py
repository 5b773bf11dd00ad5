"""A ridge classifier on many features of few samples, and its scores on held-out groups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from medunlearn.errors import InputError
from medunlearn.seeds import generator

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
FOLDS = 5
PENALTY = 0.1


@dataclass(frozen=True)
class LinearClassifier:
    """A direction in feature space; higher scores = more likely a sample of the positive class.

    Ridge regression on labels of +1 and -1 with standardized features. Both classes have the same total weight, so
    that a score of 0 lies between them whatever their sizes.

    Attributes:
        centre, scale: mean and standard deviation of each feature in the training samples, [d]; a constant feature
            has scale 1.
        weights: [d], of standardized features.
        bias: added to every score.
    """

    centre: Floats
    scale: Floats
    weights: Floats
    bias: float

    @staticmethod
    def fit(features: npt.ArrayLike, labels: Sequence[bool] | Flags, penalty: float = PENALTY) -> LinearClassifier:
        """Fit n samples of d features, [n, d]. Closed form in samples or features, whichever are fewer.

        Args:
            penalty: ridge penalty, relative to the mean squared norm of a standardized sample.

        Raises:
            InputError: only one class.
        """
        x, y = np.asarray(features, dtype=np.float64), np.asarray(labels, dtype=np.bool_)
        if y.all() or not y.any():
            raise InputError("A classifier needs samples of both classes.")
        weights = np.where(y, 0.5 / y.sum(), 0.5 / (~y).sum())
        centre = weights @ x
        spread = np.sqrt(weights @ (x - centre) ** 2)
        # Rounding alone gives a constant feature a spread; its values say nothing.
        scale = np.where(spread > 1e-9 * (1 + np.abs(centre)), spread, np.inf)
        rows = np.sqrt(weights)[:, None] * ((x - centre) / scale)
        targets = np.sqrt(weights) * np.where(y, 1.0, -1.0)
        ridge = penalty * max(1, x.shape[1])
        if len(rows) < x.shape[1]:
            direction = rows.T @ np.linalg.solve(rows @ rows.T + ridge * np.eye(len(rows)), targets)
        else:
            direction = np.linalg.solve(rows.T @ rows + ridge * np.eye(x.shape[1]), rows.T @ targets)
        fitted = ((x - centre) / scale) @ direction
        bias = -(fitted[y].mean() + fitted[~y].mean()) / 2
        return LinearClassifier(centre, scale, direction, float(bias))

    def scores(self, features: npt.ArrayLike) -> Floats:
        """Score of each sample, [n, d] -> [n]; above 0 = positive class."""
        x = np.asarray(features, dtype=np.float64)
        return np.asarray(((x - self.centre) / self.scale) @ self.weights + self.bias)


def cross_fitted_scores(
    features: npt.ArrayLike,
    labels: Sequence[bool],
    groups: Sequence[str],
    *,
    folds: int = FOLDS,
    penalty: float = PENALTY,
    seed: int = 0,
) -> Floats:
    """Score of each sample by a classifier that was fitted without its group, [n].

    Folds hold whole groups, and each holds its share of either class, so that what a fold leaves out does not tell
    its labels. Scores of different folds are in units of the standard deviation of the fold's training scores.

    Args:
        groups: group of each sample; the samples of a group have one label.

    Raises:
        InputError: fewer than two groups of a class.
    """
    x, y = np.asarray(features, dtype=np.float64), np.asarray(labels, dtype=np.bool_)
    fold_of: dict[str, int] = {}
    fewest = folds
    for label in (False, True):
        own = sorted({group for group, flag in zip(groups, y, strict=True) if flag == label})
        fewest = min(fewest, len(own))
        for place, index in enumerate(generator("cross-fitting", seed, int(label)).permutation(len(own)).tolist()):
            fold_of[own[index]] = place
    if fewest < 2:
        raise InputError("Cross-fitting needs two groups of each class at least.")
    fold = np.array([fold_of[group] % fewest for group in groups])
    scores = np.empty(len(y))
    for number in range(fewest):
        inside = fold == number
        classifier = LinearClassifier.fit(x[~inside], y[~inside], penalty)
        spread = float(classifier.scores(x[~inside]).std()) or 1.0
        scores[inside] = classifier.scores(x[inside]) / spread
    return scores
