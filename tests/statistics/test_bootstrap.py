"""Means over clusters and their bootstrap against the normal approximation, and the promise of coverage."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import norm

from medunlearn.errors import InputError
from medunlearn.seeds import generator
from medunlearn.statistics import bootstrap as module
from medunlearn.statistics import bootstrap_mean, resample_means, resample_pairs
from medunlearn.statistics.bootstrap import Observations, pool_seeds, resample_together
from medunlearn.statistics.intervals import SubjectMean

NAN = float("nan")


def clustered(rng: np.random.Generator, subjects: int, each: int) -> tuple[np.ndarray, list[int]]:
    """Observations whose subjects differ as much (variance 1) as observations within one."""
    effects = np.repeat(rng.normal(size=subjects), each)
    return effects + rng.normal(size=subjects * each), np.repeat(np.arange(subjects), each).tolist()


def test_value_is_the_mean_over_observations_not_over_clusters() -> None:
    # Three answers of a (1, 1, 1) and one of b (0): 3/4, where a mean of subject means would be 1/2.
    estimate = bootstrap_mean([1.0, 1.0, 1.0, 0.0], ["a", "a", "a", "b"])
    assert estimate.value == 0.75
    assert (estimate.n, estimate.n_clusters, estimate.replicates_dropped) == (4, 2, 0)


def test_two_clusters_have_the_distribution_that_can_be_counted() -> None:
    # Drawing two of {a: 0, b: 1} twice gives 0, 1/2, 1 with chances 1/4, 1/2, 1/4.
    draws = resample_means([[0.0], [1.0]], ["a", "b"], replicates=20_000).draws[:, 0]
    shares = [float((draws == value).mean()) for value in (0.0, 0.5, 1.0)]
    assert shares == pytest.approx([0.25, 0.5, 0.25], abs=0.02)


def test_interval_agrees_with_the_normal_approximation_on_many_clusters() -> None:
    values, clusters = clustered(np.random.default_rng(1), subjects=800, each=5)
    estimate = bootstrap_mean(values, clusters, replicates=4000)
    means = values.reshape(800, 5).mean(axis=1)
    half = norm.ppf(0.975) * means.std(ddof=1) / np.sqrt(800)
    assert estimate.value == pytest.approx(values.mean())
    # Student's t with 799 degrees of freedom is 0.15% wider.
    assert estimate.low == pytest.approx(values.mean() - half, abs=0.002 * half)
    assert estimate.high == pytest.approx(values.mean() + half, abs=0.002 * half)


def test_interval_covers_the_truth_where_a_naive_one_does_not() -> None:
    rng = np.random.default_rng(3)
    covered = naive_covered = 0
    rounds = 400
    for seed in range(rounds):
        values, clusters = clustered(rng, subjects=50, each=8)
        for estimate, naive in (
            (bootstrap_mean(values, clusters, replicates=20, seed=seed), False),
            (bootstrap_mean(values, list(range(400)), replicates=20, seed=seed), True),
        ):
            assert estimate.low is not None
            assert estimate.high is not None
            hit = estimate.low <= 0.0 <= estimate.high
            covered, naive_covered = covered + (hit and not naive), naive_covered + (hit and naive)
    # 95% +- 3 binomial standard errors.
    assert 0.917 <= covered / rounds <= 0.983
    # Intraclass correlation 1/2 with 8 an id: the naive standard error is 2.1 times too small.
    assert naive_covered / rounds < 0.75


def test_four_clusters_have_a_value_and_no_interval() -> None:
    estimate = bootstrap_mean([0.0, 1.0, 0.0, 1.0, 0.5], ["a", "a", "b", "c", "d"])
    assert (estimate.value, estimate.low, estimate.high, estimate.n_clusters) == (0.5, None, None, 4)


@pytest.mark.parametrize("values", [[], [NAN, NAN]])
def test_nothing_observed_is_none_and_never_zero(values: list[float]) -> None:
    estimate = bootstrap_mean(values, ["a", "b"][: len(values)])
    assert (estimate.value, estimate.low, estimate.high, estimate.n, estimate.n_clusters) == (
        None,
        None,
        None,
        0,
        0,
    )


def test_replicates_without_an_observation_are_dropped_and_counted() -> None:
    # Two of four subjects are observed, both at 1: a replicate misses both with chance (1/2)^4 = 1/16.
    values = [[1.0], [1.0], [NAN], [NAN]]
    estimate = resample_means(values, list("abcd"), replicates=8000).estimate([0], lambda means: means[..., 0])
    assert estimate.replicates_dropped / 8000 == pytest.approx(1 / 16, abs=0.01)
    # Counted as 0 they would add to the standard error.
    assert estimate.uncertainty is not None
    assert (estimate.uncertainty.error, estimate.n, estimate.n_clusters) == (0.0, 2, 2)


def test_columns_share_their_draws() -> None:
    rng = np.random.default_rng(4)
    column = rng.normal(size=60)
    resampled = resample_means(np.column_stack([column, -column]), list(range(60)), replicates=200)
    # With shared draws the two means cancel in every replicate; apart they would not.
    estimate = resampled.estimate([0, 1], lambda means: means.sum(axis=-1))
    assert estimate.value == pytest.approx(0.0, abs=1e-12)
    assert estimate.uncertainty is not None
    assert estimate.uncertainty.error == pytest.approx(0.0, abs=1e-12)


def test_several_columns_count_complete_rows_and_the_scarcest_columns_clusters() -> None:
    values = [[1.0, 1.0], [1.0, NAN], [NAN, 1.0], [1.0, NAN]]
    estimate = resample_means(values, ["a", "a", "b", "c"]).estimate([0, 1], lambda means: means.min(axis=-1))
    # Complete: the first row. Column 0 lives in a and c, column 1 in a and b.
    assert (estimate.n, estimate.n_clusters) == (1, 2)


def test_order_of_rows_and_names_of_types_change_nothing() -> None:
    rng = np.random.default_rng(5)
    values, clusters = clustered(rng, subjects=20, each=3)
    shuffled = rng.permutation(60)
    first = bootstrap_mean(values, clusters)
    second = bootstrap_mean(values[shuffled], [np.int64(clusters[row]) for row in shuffled])
    ends = np.array([second.low, second.high], dtype=float)
    assert ends == pytest.approx(np.array([first.low, first.high], dtype=float))


def test_draws_in_blocks_have_the_same_distribution(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_CELLS_PER_BLOCK", 50)
    values, clusters = clustered(np.random.default_rng(7), subjects=20, each=3)
    draws = resample_means(values.reshape(-1, 1), clusters, replicates=1001).draws[:, 0]
    assert draws.shape == (1001,)
    means = values.reshape(20, 3).mean(axis=1)
    assert draws.std() == pytest.approx(means.std() / np.sqrt(20), rel=0.1)


@pytest.mark.parametrize("missing", [None, NAN, "", 1.5])
def test_missing_cluster_id_is_refused_with_its_row(missing: object) -> None:
    with pytest.raises(InputError, match="Row 1 has no cluster id"):
        bootstrap_mean([1.0, 2.0], ["a", missing])


@pytest.mark.parametrize(
    ("values", "clusters", "message"),
    [
        ([[1.0], [2.0]], ["a"], "do not fit 1 cluster ids"),
        ([1.0], ["a"], "do not fit"),
        ([[float("inf")]], ["a"], "infinite"),
    ],
)
def test_wrong_values_are_refused(values: list[object], clusters: list[str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        resample_means(values, clusters)  # type: ignore[arg-type]


def test_wrong_settings_are_refused() -> None:
    with pytest.raises(InputError, match="replicates"):
        bootstrap_mean([1.0], ["a"], replicates=0)
    with pytest.raises(InputError, match="level"):
        bootstrap_mean([1.0, 2.0], ["a", "b"], level=95)
    with pytest.raises(InputError, match="at least one column"):
        resample_means([[1.0]], ["a"]).estimate([])


def table(values: list[float], subjects: list[str]) -> Observations:
    return Observations(np.array(values).reshape(-1, 1), subjects)


def test_one_table_is_drawn_as_ever() -> None:
    values, subjects = [0.1, 0.4, 0.9, 0.3, 0.2], ["a", "a", "b", "c", "c"]
    (together,) = resample_together([table(values, subjects)], replicates=50, seed=3)
    alone = resample_means(np.array(values).reshape(-1, 1), subjects, replicates=50, seed=3)
    assert together.point[0] == alone.point[0] == pytest.approx(0.38)
    np.testing.assert_array_equal(together.draws, alone.draws)
    assert together.n_clusters.tolist() == [3]


def test_a_set_inside_another_is_drawn_with_it() -> None:
    """By hand: the draws of the union, counted for each table."""
    large = table([0.0, 1.0, 0.5, 0.25], ["a", "b", "c", "d"])
    small = table([0.9, 0.1], ["a", "b"])
    found_large, found_small = resample_together([large, small], replicates=40, seed=1)
    rng = generator("cluster bootstrap", 1)
    for place, subjects in enumerate(rng.integers(4, size=(40, 4))):
        inside = [(0.9, 0.1)[subject] for subject in subjects if subject < 2]
        assert found_large.draws[place, 0] == pytest.approx(np.mean([(0.0, 1.0, 0.5, 0.25)[s] for s in subjects]))
        if inside:
            assert found_small.draws[place, 0] == pytest.approx(np.mean(inside))
        else:
            assert np.isnan(found_small.draws[place, 0])


def test_tables_that_do_not_fit_are_refused() -> None:
    with pytest.raises(InputError, match="no table"):
        resample_together([])
    with pytest.raises(InputError, match="do not fit 1 cluster ids"):
        resample_together([table([0.1, 0.2], ["a"])])
    with pytest.raises(InputError, match="no cluster id"):
        resample_together([table([0.1], [""])])


def test_one_seed_has_the_interval_of_its_subjects() -> None:
    draws = np.array([0.4, 0.6] * 500).reshape(-1, 1)
    pooled = pool_seeds(np.array([0.5]), draws, 26, bounds=(0.0, 1.0))
    assert (pooled.value, pooled.n) == (0.5, 1)
    # Standard deviation of the draws 0.1, times sqrt(26 / 25).
    alone = SubjectMean(0.5, 0.1 * math.sqrt(26 / 25), 26, (0.0, 1.0)).limits(0.05)
    assert (pooled.low, pooled.high) == pytest.approx(alone)


def test_seeds_are_drawn_too() -> None:
    """Subjects that do not vary leave the seeds alone: the mean of two draws of 0 and 1 is 0, a half or 1."""
    pooled = pool_seeds(np.array([0.0, 1.0]), np.tile([0.0, 1.0], (8000, 1)), 100, bounds=(0.0, 1.0))
    assert pooled.uncertainty is not None
    assert pooled.value == 0.5
    # Chances 1/4, 1/2, 1/4 have the standard deviation sqrt(1/8); 8,000 draws know it to 1%.
    assert pooled.uncertainty.error == pytest.approx(math.sqrt(1 / 8 * 100 / 99), rel=0.03)


def test_replicates_without_a_number_are_counted_and_left_out() -> None:
    draws = np.array([[0.2], [np.nan], [0.4]])
    pooled = pool_seeds(np.array([0.3]), draws, 5, bounds=(0.0, 1.0))
    assert pooled.replicates_dropped == 1
    assert pooled.uncertainty is not None
    assert pooled.uncertainty.error == pytest.approx(0.1 * math.sqrt(5 / 4))
    assert pool_seeds(np.array([np.nan]), draws, 5).value is None


def test_a_share_counts_the_subjects_of_its_denominator() -> None:
    """Runs at the front, and runs elsewhere; subject 6 has none, and subject 7 nothing that is known."""
    front, rest = [3.0, 0.0, 1.0, 2.0, 1.0, 1.0, 0.0, NAN], [1.0, 2.0, 1.0, 0.0, 1.0, 1.0, 0.0, NAN]
    resampled = resample_means(np.column_stack([front, rest]), list(range(8)), replicates=4000)
    share = resampled.share(0, [0, 1])
    assert share.value == pytest.approx(8 / 14)
    assert (share.n, share.n_clusters) == (14, 6)
    # Linearization (Cochran 1977, Section 6.3): the residuals of a ratio of sums.
    sizes = np.nansum([front, rest], axis=0)[:7]
    residuals = np.array(front[:7]) - 8 / 14 * sizes
    assert isinstance(share.uncertainty, SubjectMean)
    assert share.uncertainty.error == pytest.approx(math.sqrt(7 / 6 * (residuals**2).sum()) / 14, rel=0.15)
    assert share.low is not None
    assert share.low < 8 / 14 < share.high


def test_a_share_of_five_unequal_subjects_has_no_interval() -> None:
    """Five subjects of whom one has most of the denominator count as fewer."""
    front, rest = [3.0, 0.0, 1.0, 2.0, 1.0], [1.0, 2.0, 1.0, 0.0, 1.0]
    share = resample_means(np.column_stack([front, rest]), list(range(5)), replicates=100).share(0, [0, 1])
    assert (share.value, share.low, share.n_clusters) == (pytest.approx(7 / 12), None, 5)


def test_a_share_of_four_subjects_has_no_interval() -> None:
    whole = [2.0, 2.0, 2.0, 2.0, 0.0, 0.0]
    share = resample_means(np.column_stack([[1.0, 2.0, 0.0, 1.0, 0.0, 0.0], whole]), list(range(6))).share(0, [1])
    assert (share.value, share.low, share.high, share.p) == (0.5, None, None, None)
    assert (share.n, share.n_clusters) == (8, 4)


def test_a_share_of_nothing_has_no_value() -> None:
    share = resample_means(np.zeros((6, 2)), list(range(6))).share(0, [1])
    assert (share.value, share.n, share.n_clusters) == (None, 0, 0)


def test_replicates_are_drawn_once_and_only_for_what_reads_them(monkeypatch: pytest.MonkeyPatch) -> None:
    draws, draw_means = list[int](), module.draw_means
    monkeypatch.setattr(
        module, "draw_means", lambda sums, *how: (draws.append(sums.shape[1]), draw_means(sums, *how))[1]
    )
    rng = np.random.default_rng(3)
    values, clusters = rng.random((40, 3)), [f"p{row % 8}" for row in range(40)]
    means = resample_means(values, clusters)
    pairs = resample_pairs(values, values[::-1], clusters)
    assert means.estimate([1]).value == pytest.approx(values[:, 1].mean())
    assert pairs.difference([2]).replicates_dropped == 0
    assert draws == []
    assert [means.estimate([0, 1], module.ratio).value is not None for _ in range(3)] == [True] * 3
    assert draws == [3]
    # A subject without a value may be all that a replicate draws: then it is counted.
    values[np.array(clusters) != "p0", 2] = np.nan
    lonely = resample_pairs(values, values, clusters).difference([2])
    expected = (1 - 1 / 8) ** 8 * module.REPLICATES
    assert lonely.replicates_dropped == pytest.approx(expected, abs=5 * np.sqrt(expected))
    assert draws == [3, 6]


@pytest.mark.parametrize("ids", [["b", "a", "b"], [3, 1, 3], [2, "a", 2], [np.int64(4), 2, 4]])
def test_clusters_are_numbered_by_sorted_id(ids: list[object]) -> None:
    codes, count = module.cluster_codes(ids)
    assert (codes.tolist(), count) == ([0, 1, 0] if ids[0] == 2 else [1, 0, 1], 2)
    if all(isinstance(each, int) for each in ids):
        assert module.cluster_codes(np.array(ids))[0].tolist() == codes.tolist()
