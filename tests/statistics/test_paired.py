"""Paired differences: what they measure, and how often they cry wolf."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import ttest_rel

from medunlearn.errors import InputError
from medunlearn.statistics import bootstrap_mean, paired_difference, resample_pairs

NAN = float("nan")


def two_models(
    rng: np.random.Generator, subjects: int, each: int, effect: float
) -> tuple[np.ndarray, np.ndarray, list[int]]:
    """Scores of two models that share how hard a subject is; a's advantage varies by subject too."""
    clusters = np.repeat(np.arange(subjects), each)
    hard = rng.normal(scale=3.0, size=subjects)[clusters]
    advantage = (effect + rng.normal(scale=0.5, size=subjects))[clusters]
    noise = rng.normal(size=(2, subjects * each))
    return hard + advantage + noise[0], hard + noise[1], clusters.tolist()


def test_difference_and_counts_by_hand() -> None:
    # Pairs: rows 0 and 3. (1 - 0 + 3 - 5) / 2 = -1/2.
    estimate = paired_difference([1.0, NAN, 7.0, 3.0], [0.0, 4.0, NAN, 5.0], ["a", "a", "b", "c"])
    assert (estimate.value, estimate.n, estimate.n_clusters) == (-0.5, 2, 2)


def test_pairing_gives_the_interval_of_the_differences() -> None:
    a, b, clusters = two_models(np.random.default_rng(1), subjects=60, each=4, effect=0.5)
    estimate = paired_difference(a, b, clusters, seed=3)
    direct = bootstrap_mean(a - b, clusters, seed=3)
    ours = np.array([estimate.value, estimate.low, estimate.high], dtype=float)
    assert ours == pytest.approx(np.array([direct.value, direct.low, direct.high], dtype=float))


def test_p_of_unbounded_numbers_is_that_of_students_test() -> None:
    a, b = np.random.default_rng(4).normal(size=(2, 12))
    estimate = paired_difference(a + 0.8, b, list(range(12)))
    assert estimate.p == pytest.approx(ttest_rel(a + 0.8, b).pvalue, rel=1e-5)


def test_models_that_never_differ_may_differ_on_others() -> None:
    """Neither gains nor loses on 30 subjects: each at most 1 - 0.025^(1/30), joined as independent parts."""
    estimate = paired_difference(np.ones(30), np.ones(30), list(range(30)))
    most = 1 - 0.025 ** (1 / 30)
    assert (estimate.value, estimate.low, estimate.high) == (0.0, pytest.approx(-most), pytest.approx(most))
    assert estimate.p == 1.0


def test_p_and_interval_tell_one_story() -> None:
    rng = np.random.default_rng(2)
    for seed in range(60):
        a, b, clusters = two_models(rng, subjects=25, each=3, effect=0.3)
        estimate = paired_difference(a, b, clusters, replicates=500, seed=seed)
        assert estimate.low is not None
        assert estimate.high is not None
        assert estimate.p is not None
        assert (estimate.p < 0.05) == (not estimate.low <= 0.0 <= estimate.high)


def test_true_null_is_rejected_about_one_time_in_twenty() -> None:
    rng = np.random.default_rng(3)
    rounds, rejected, naive = 500, 0, 0
    for seed in range(rounds):
        a, b, clusters = two_models(rng, subjects=40, each=10, effect=0.0)
        rows = list(range(len(clusters)))
        rejected += _rejects(a, b, clusters, seed)
        naive += _rejects(a, b, rows, seed)
    # 5% +- 3 binomial standard errors.
    assert 0.02 <= rejected / rounds <= 0.08
    # Questions taken for independent reject far too often: the check above can fail.
    assert naive / rounds > 0.12


def _rejects(a: np.ndarray, b: np.ndarray, clusters: list[int], seed: int) -> bool:
    p = paired_difference(a, b, clusters, replicates=20, seed=seed).p
    assert p is not None
    return p < 0.05


def test_function_of_several_means() -> None:
    a, b = np.array([[0.5, 0.2], [0.7, 0.6]]), np.array([[0.1, 0.1], [0.1, 0.3]])
    pairs = resample_pairs(a, b, ["x", "y"])
    estimate = pairs.difference([0, 1], lambda means: means.prod(axis=-1))
    # Means of a 0.6, 0.4; of b 0.1, 0.2.
    assert estimate.value == pytest.approx(0.6 * 0.4 - 0.1 * 0.2)


def test_fewer_than_five_subjects_have_no_interval_and_no_p() -> None:
    estimate = paired_difference([1.0, 2.0, 1.0, 2.0], np.zeros(4), list("abcd"))
    assert (estimate.value, estimate.low, estimate.high, estimate.p) == (1.5, None, None, None)


def test_no_pair_is_none_and_never_zero() -> None:
    estimate = paired_difference([1.0, NAN], [NAN, 1.0], ["a", "b"])
    assert (estimate.value, estimate.p, estimate.n) == (None, None, 0)


def test_shapes_and_columns_are_checked() -> None:
    with pytest.raises(InputError, match="one shape"):
        paired_difference([1.0, 2.0], [1.0], ["a", "b"])
    with pytest.raises(InputError, match="no column 1"):
        resample_pairs([[1.0]], [[1.0]], ["a"]).difference([1])
    with pytest.raises(InputError, match="cluster id"):
        paired_difference([1.0], [1.0], [None])


def test_a_difference_of_composites_covers_subjects_who_leak_and_were_not_drawn() -> None:
    """5% of subjects leak 0.5 to 1: where none of 20 is among the drawn ones, 13.9% may leak (rule of three)."""
    rng = np.random.default_rng(5)
    ours, theirs = (rng.uniform(0.0, 0.032, 20)[:, np.newaxis] * np.ones((20, 2)) for _ in range(2))
    pairs = resample_pairs(ours, theirs, list(range(20)), replicates=200)

    def harmonic(means: np.ndarray) -> np.ndarray:
        return 2.0 / (1.0 / means).sum(axis=-1)

    estimate = pairs.difference([0, 1], harmonic, bounds=(0.0, 1.0))
    unbounded = pairs.difference([0, 1], harmonic)
    assert estimate.value == unbounded.value
    assert estimate.low is not None
    assert estimate.high is not None
    assert estimate.high > 0.1 > 0.02 > (unbounded.high or 0.0)
    assert estimate.low < -0.1
    often = pairs.difference([0, 1], lambda means: 0.5 + harmonic(means), bounds=(0.0, 1.0))
    assert (often.high or 1.0) < 0.02, "where neither number is rare, the replicates' interval stays"
