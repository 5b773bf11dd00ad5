"""ROC curves against scikit-learn and by hand; the bootstrap against one written out in loops."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score
from sklearn.metrics import roc_curve as sklearn_curve

from medunlearn.errors import InputError
from medunlearn.statistics.roc import RocSample, nonmembers_needed, roc_curve


def drawn(seed: int, n: int = 60, values: int = 12) -> tuple[np.ndarray, list[bool]]:
    """Scores with many ties, somewhat higher for members."""
    rng = np.random.default_rng(seed)
    members = rng.random(n) < 0.4
    members[:2] = True, False
    return (rng.integers(0, values, n) + 2 * members).astype(float), [bool(flag) for flag in members]


def own(members: list[bool]) -> list[str]:
    return [f"s{place}" for place in range(len(members))]


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("values", [2, 12, 1000])
def test_area_and_curve_are_scikit_learns(seed: int, values: int) -> None:
    scores, members = drawn(seed, values=values)
    assert RocSample(members, own(members)).auc(scores).value == pytest.approx(
        roc_auc_score(members, scores), abs=1e-12
    )
    fpr, tpr, thresholds = sklearn_curve(members, scores, drop_intermediate=False)
    curve = roc_curve(scores, members)
    np.testing.assert_allclose(curve.fpr, fpr, atol=1e-12)
    np.testing.assert_allclose(curve.tpr, tpr, atol=1e-12)
    np.testing.assert_array_equal(curve.thresholds, thresholds)


def test_area_by_hand() -> None:
    """Members 3, 2, 2; non-members 2, 1: of six pairs, 3 > 2, 3 > 1, 2 > 1 twice won, two ties: 5 / 6."""
    members = [True, True, True, False, False]
    assert RocSample(members, own(members)).auc([3, 2, 2, 2, 1]).value == pytest.approx(5 / 6)
    assert RocSample(members, own(members)).auc([1, 1, 1, 1, 1]).value == 0.5
    assert RocSample(members, own(members)).auc([-np.inf, 0, 0, 1, np.inf]).value == 0.0


def test_rate_at_a_false_positive_rate_by_hand() -> None:
    """100 non-members 0 to 99. At 1%, one may be passed: members above 98 count, and one tied with 98 does not."""
    members = [True] * 4 + [False] * 100
    scores = [98, 98.5, 99, 200, *range(100)]
    sample = RocSample(members, own(members))
    # Threshold 98.5 passes one non-member (99): three of four members.
    assert sample.tpr_at(scores, 0.01).value == 0.75
    assert sample.tpr_at(scores, 0.02).value == 1.0
    # Threshold 99 ties a member with a non-member; without a false positive only 200 is left.
    assert rate_without_false_positive(members, scores) == 0.25
    assert sample.tpr_at(scores, 0.001).value is None
    few = RocSample(members[:-1], own(members[:-1]))
    assert few.tpr_at(scores[:-1], 0.01).value is None


def rate_without_false_positive(members: list[bool], scores: list[float]) -> float:
    curve = roc_curve(scores, members)
    return float(curve.tpr[curve.fpr == 0].max())


@pytest.mark.parametrize(("fpr", "needed"), [(0.01, 100), (0.001, 1000), (0.05, 20), (0.3, 4), (1 / 3, 3)])
def test_nonmembers_needed(fpr: float, needed: int) -> None:
    assert nonmembers_needed(fpr) == needed


def test_scores_that_are_missing_are_left_out_and_counted() -> None:
    scores, members = drawn(3)
    holes = scores.copy()
    holes[[0, 5, 7]] = np.nan
    scored = ~np.isnan(holes)
    estimate = RocSample(members, own(members)).auc(holes)
    assert estimate.value == pytest.approx(roc_auc_score(np.array(members)[scored], scores[scored]))
    assert estimate.n == 57


def test_the_error_is_that_of_a_bootstrap_written_out() -> None:
    """Subjects with two records each, drawn within members and non-members by hand, many times."""
    rng = np.random.default_rng(0)
    members = [True] * 40 + [False] * 40
    clusters = [f"{place // 2}" for place in range(80)]
    shift = np.repeat(rng.normal(size=40), 2)
    scores = shift + 0.3 * rng.normal(size=80) + 0.8 * np.array(members)
    estimate = RocSample(members, clusters, replicates=2000).auc(scores)
    draws = []
    for _ in range(1000):
        subjects = np.concatenate([rng.integers(0, 20, 20), rng.integers(20, 40, 20)])
        rows = np.concatenate([2 * subjects, 2 * subjects + 1])
        ours, theirs = scores[rows][rows < 40], scores[rows][rows >= 40]
        draws.append(np.mean(ours[:, None] > theirs))
    assert estimate.uncertainty is not None
    # The standard deviation of 1,000 draws is known to about 2.2%, of 2,000 to 1.6%; 20 subjects of either side.
    assert estimate.uncertainty.error == pytest.approx(np.std(draws) * np.sqrt(20 / 19), rel=0.08)
    alone = RocSample(members, own(members), replicates=1000).auc(scores)
    assert alone.high - alone.low < 0.9 * (estimate.high - estimate.low)


def test_a_difference_is_paired() -> None:
    """Two scores that differ by little vary together: the difference is known far better than either."""
    scores, members = drawn(1, n=100, values=1000)
    close = scores + np.random.default_rng(5).normal(size=100)
    sample = RocSample(members, own(members))
    estimate = sample.auc_difference(scores, close)
    assert estimate.value == pytest.approx(roc_auc_score(members, scores) - roc_auc_score(members, close))
    single = sample.auc(scores)
    assert estimate.high - estimate.low < 0.3 * (single.high - single.low)
    same = sample.auc_difference(scores, scores)
    assert (same.value, same.p) == (0.0, 1.0)
    assert same.high == pytest.approx(1 - 0.025 ** (1 / same.n_clusters))


def test_too_few_subjects_have_no_interval() -> None:
    few_subjects = RocSample([True, True, False, False], ["a", "a", "b", "c"]).auc([4, 3, 2, 1])
    assert (few_subjects.value, few_subjects.low, few_subjects.high) == (1.0, None, None)
    none = RocSample([True, False], ["a", "b"]).auc([np.nan, 1])
    assert none.value is None
    assert RocSample([True, False], ["a", "b"]).auc_difference([np.nan, 1], [1, 1]).value is None


def test_a_subject_of_both_sides_is_drawn_whole() -> None:
    """Each subject has a member record one above its non-member record, whatever its level: never below 0.5."""
    level = np.arange(30.0)
    scores = np.concatenate([level + 0.5, level])
    members = [True] * 30 + [False] * 30
    whose = [f"p{place}" for place in (*range(30), *range(30))]
    estimate = RocSample(members, whose).auc(scores)
    assert estimate.low is not None
    assert estimate.low > 0.5
    apart = RocSample(members, own(members)).auc(scores)
    assert apart.low is not None
    assert apart.low < 0.5


def test_wrong_input_is_refused() -> None:
    with pytest.raises(InputError, match="do not fit 2 records"):
        RocSample([True, False], ["a", "b"]).auc([1.0])
    with pytest.raises(InputError, match="scored members and scored non-members"):
        roc_curve([1.0, 2.0], [True, True])
    with pytest.raises(InputError, match="cluster id"):
        RocSample([True, False], ["a", ""]).auc([1.0, 2.0])
    with pytest.raises(InputError, match="do not fit 1 cluster"):
        RocSample([True, False], ["a"]).auc([1.0, 2.0])
