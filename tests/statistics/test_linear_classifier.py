"""The ridge classifier: by hand, in both forms, and at chance where there is nothing to learn."""

from __future__ import annotations

import numpy as np
import pytest

from medunlearn.errors import InputError
from medunlearn.seeds import generator
from medunlearn.statistics.linear_classifier import LinearClassifier, cross_fitted_scores
from medunlearn.statistics.roc import RocSample


def test_one_feature_by_hand() -> None:
    """Means -1 and 1, spread 1: standardized labels are the feature, and the ridge shrinks 1 to 1 / 1.1."""
    classifier = LinearClassifier.fit([[-1.0], [1.0], [1.0]], [False, True, True], penalty=0.1)
    assert classifier.weights == pytest.approx([1 / 1.1])
    assert classifier.scores([[0.0], [1.0]]) == pytest.approx([0.0, 1 / 1.1])


def test_few_samples_and_few_features_agree() -> None:
    """The two closed forms are one solution: a feature that is repeated changes neither."""
    draw = generator("linear classifier", 0)
    x, y = draw.normal(size=(6, 5)), [True, False, True, False, True, False]
    narrow = LinearClassifier.fit(x, y, penalty=0.5).scores(x)
    wide = LinearClassifier.fit(np.hstack([x, x]), y, penalty=0.5).scores(np.hstack([x, x]))
    assert wide == pytest.approx(narrow)


def test_constant_features_say_nothing() -> None:
    classifier = LinearClassifier.fit([[0.0, 7.0], [1.0, 7.0]], [False, True])
    assert classifier.scores([[1.0, 7.0], [1.0, 900.0]])[0] == classifier.scores([[1.0, 900.0]])[0]


def test_noise_is_at_chance_and_a_signal_is_not() -> None:
    """Over 40 draws of noise the cross-fitted area is 0.5 on average: folds do not tell what they leave out."""
    areas = []
    labels, groups = [n % 2 == 0 for n in range(40)], [f"p{n // 2 * 2 + n % 2}" for n in range(40)]
    for seed in range(40):
        x = generator("noise", seed).normal(size=(40, 8))
        areas.append(RocSample(labels, groups, 2).auc(cross_fitted_scores(x, labels, groups, seed=seed)).value)
    assert np.mean(areas) == pytest.approx(0.5, abs=0.04)
    x[:, 0] += 3.0 * np.array(labels)
    assert RocSample(labels, groups, 2).auc(cross_fitted_scores(x, labels, groups)).value > 0.9


def test_groups_are_not_divided() -> None:
    """Patients told apart by a number of their own: their other samples would give it away, and cannot."""
    groups = [f"p{n // 4}" for n in range(48)]
    x = np.repeat(generator("own", 1).normal(size=(12, 30)), 4, axis=0)
    labels = np.repeat(generator("labels", 1).permutation(12) < 6, 4).tolist()
    scores = cross_fitted_scores(x, labels, groups)
    area = RocSample(labels, groups, 2).auc(scores).value
    assert area is not None
    assert area < 0.8


def test_one_class_is_refused() -> None:
    with pytest.raises(InputError, match="both classes"):
        LinearClassifier.fit([[0.0], [1.0]], [True, True])
    with pytest.raises(InputError, match="two groups"):
        cross_fitted_scores([[0.0], [1.0], [2.0]], [True, False, False], ["a", "b", "c"])
