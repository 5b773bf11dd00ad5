"""Agreement of raters, against tables worked by hand, scikit-learn and published examples."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.metrics import cohen_kappa_score

from medunlearn.errors import InputError
from medunlearn.seeds import generator
from medunlearn.statistics import cohen_kappa, confusion, fleiss_kappa, observed_agreement, row_agreement
from medunlearn.statistics.agreement import in_words, krippendorff_alpha

# Ten items, fourteen raters, five categories: how many raters gave each. The classic worked example of Fleiss'
# kappa; its article rounds the result to 0.210.
CLASSIC = np.array(
    [
        [0, 0, 0, 0, 14],
        [0, 2, 6, 4, 2],
        [0, 0, 3, 5, 6],
        [0, 3, 9, 2, 0],
        [2, 2, 8, 1, 1],
        [7, 7, 0, 0, 0],
        [3, 2, 6, 3, 0],
        [2, 5, 3, 2, 2],
        [6, 5, 2, 1, 0],
        [0, 2, 2, 3, 7],
    ]
)
FIVE = ("1", "2", "3", "4", "5")


def spread(counts: np.ndarray) -> list[list[str | None]]:
    return [[FIVE[place] for place, n in enumerate(row) for _ in range(n)] for row in counts]


def ratings(name: str, n: int, categories: tuple[str, ...], follows: list[str] | None = None) -> list[str]:
    draw = generator("ratings", name)
    own = [str(category) for category in draw.choice(list(categories), size=n)]
    present = draw.random(n) < 0.6
    return own if follows is None else [a if keep else b for a, b, keep in zip(follows, own, present, strict=True)]


def test_fleiss_on_the_classic_table() -> None:
    p = CLASSIC.sum(axis=0) / CLASSIC.sum()
    row = ((CLASSIC**2).sum(axis=1) - 14) / (14 * 13)
    by_hand = (row.mean() - (p**2).sum()) / (1 - (p**2).sum())
    estimate = fleiss_kappa(spread(CLASSIC), range(10), FIVE, replicates=50)
    assert estimate.value == pytest.approx(by_hand, abs=1e-12)
    assert round(estimate.value, 3) == 0.210
    assert estimate.low is not None
    assert estimate.low < estimate.value < estimate.high
    assert row_agreement(spread(CLASSIC), range(10), FIVE).value == pytest.approx(row.mean(), abs=1e-12)


def test_fleiss_of_amnesia_follows_from_its_own_tables() -> None:
    """Tables 12 and 13: shares of Valid and mean row agreement give the kappa that the paper prints, 0.216."""
    valid = (957 + 970 + 952) / 3000
    expected = valid**2 + (1 - valid) ** 2
    printed = (0.939 - expected) / (1 - expected)
    # A set of 1,000 triples with these shares: 121 invalid verdicts in all; x items have one, y two, z three, and
    # the x + y = 91 split ones (each with an agreement of 1/3) bring the mean down to 0.939.
    x, y, z = 70, 21, 3
    assert x + 2 * y + 3 * z == 3000 - (957 + 970 + 952)
    rows = [["Valid"] * 2 + ["Invalid"]] * x + [["Valid"] + ["Invalid"] * 2] * y + [["Invalid"] * 3] * z
    rows += [["Valid"] * 3] * (1000 - len(rows))
    estimate = fleiss_kappa(rows, range(1000), ("Valid", "Invalid"), replicates=2).value
    assert estimate == pytest.approx(printed, abs=0.005)
    assert in_words(estimate) == "fair"


@pytest.mark.parametrize("weights", ["none", "linear", "quadratic"])
def test_cohen_is_that_of_scikit_learn(weights: str) -> None:
    first = ratings("a", 60, FIVE)
    second = ratings("b", 60, FIVE, first)
    theirs = cohen_kappa_score(first, second, labels=FIVE, weights=None if weights == "none" else weights)
    assert theirs > 0.3
    estimate = cohen_kappa(first, second, range(60), FIVE, weights=weights, replicates=50)  # type: ignore[arg-type]
    assert estimate.value == pytest.approx(theirs, abs=1e-12)
    assert (estimate.n, estimate.n_clusters) == (60, 60)


def test_the_interval_is_over_subjects() -> None:
    """Ten copies of each item by one subject tell nothing new: the interval stays as wide."""
    first = ratings("c", 30, ("Yes", "No"))
    second = ratings("d", 30, ("Yes", "No"), first)
    subjects = [f"s{place}" for place in range(30)]
    once = cohen_kappa(first, second, subjects, ("Yes", "No"))
    copied = cohen_kappa(first * 10, second * 10, subjects * 10, ("Yes", "No"))
    alone = cohen_kappa(first * 10, second * 10, range(300), ("Yes", "No"))
    assert copied.value == pytest.approx(once.value)
    assert (copied.low, copied.high) == pytest.approx((once.low, once.high))
    assert alone.high - alone.low < 0.5 * (copied.high - copied.low)


def test_an_item_without_a_rating_is_left_out_not_counted_as_disagreement() -> None:
    estimate = observed_agreement(["Yes", "No", None, "Yes"], ["Yes", "Yes", "No", None], "abcd")
    assert (estimate.value, estimate.n) == (0.5, 2)
    rows = [["Yes", "Yes"], ["Yes", "No"], [None, "No"]]
    assert row_agreement(rows, "abc", ("Yes", "No")).value == 0.5
    assert confusion(["Yes", "No", None, "Maybe"], ["Yes", "Yes", "No", "No"], ("Yes", "No")).tolist() == [
        [1, 0],
        [1, 0],
    ]


def test_where_chance_cannot_disagree_there_is_no_kappa() -> None:
    always = ["Yes"] * 5
    assert cohen_kappa(always, always, range(5), ("Yes", "No")).value is None
    assert fleiss_kappa([["Yes"] * 3] * 5, range(5), ("Yes", "No")).value is None
    assert observed_agreement(always, always, range(5)).value == 1.0
    assert cohen_kappa([], [], [], ("Yes", "No")).value is None


@pytest.mark.parametrize(
    ("kappa", "word"),
    [
        (-0.1, "poor"),
        (0.0, "slight"),
        (0.2, "slight"),
        (0.216, "fair"),
        (0.726, "substantial"),
        (1, "almost perfect"),
    ],
)
def test_words(kappa: float, word: str) -> None:
    assert in_words(kappa) == word
    assert in_words(None) == ""


def test_wrong_ratings_are_refused() -> None:
    with pytest.raises(InputError, match="'Maybe' is not a category"):
        cohen_kappa(["Maybe"], ["Yes"], "a", ("Yes", "No"))
    with pytest.raises(InputError, match="do not fit 2 items"):
        observed_agreement(["Yes"], ["Yes"], "ab")
    with pytest.raises(InputError, match="same two or more raters"):
        fleiss_kappa([["Yes", "No"], ["Yes"]], "ab", ("Yes", "No"))


# Krippendorff 2011, Section C: four coders, twelve units, 0 for a missing value. Its coincidence matrix has the
# margins 9, 13, 10, 5, 3 (n = 40, of eleven units: the twelfth has one value) and, off its diagonal, 4/3 for (1, 2)
# and (2, 3) and 1/3 for (1, 3), (1, 4), (2, 4) and (3, 4), each both ways: 8 in all.
# Nominal: 1 - 39 * 8 / (40^2 - 9^2 - 13^2 - 10^2 - 5^2 - 3^2) = 1 - 312 / 1216.
# Interval: o * d sums to 2 * (4/3 + 4/3 + 4/3 + 9/3 + 4/3 + 1/3) = 52/3, e * d to 2 * n * sum(c^2 n_c) - 2 * 100^2
# = 2 * (40 * 306 - 10000) = 4480: 1 - 39 * (52/3) / 4480.
CODERS = ([1, 2, 3, 3, 2, 1, 4, 1, 2, 0, 0, 0], [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, 0, 3],
          [0, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, 0], [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, 0])  # fmt: skip
UNITS = [[str(value) if value else None for value in unit] for unit in zip(*CODERS, strict=True)]


@pytest.mark.parametrize(
    ("scale", "exact", "published"),
    [("nominal", 1 - 312 / 1216, 0.743), ("interval", 1 - 39 * 52 / 3 / 4480, 0.849)],
)
def test_alpha_with_missing_ratings_is_the_published_one(scale: Any, exact: float, published: float) -> None:
    alpha = krippendorff_alpha(UNITS, range(12), FIVE, scale=scale, replicates=50)
    assert alpha.value == pytest.approx(exact, abs=1e-12)
    assert round(exact, 3) == published
    assert (alpha.n, alpha.n_clusters) == (11, 11)


def test_alpha_uses_what_fleiss_kappa_leaves_out() -> None:
    rows = [["Yes", "Yes", None], ["No", "No", None], ["Yes", None, "No"], ["No", None, None]]
    alpha = krippendorff_alpha(rows, range(4), ("Yes", "No"), replicates=50)
    # Coincidences 2 and 2 on the diagonal, 1 and 1 off it; margins 3 and 3; n = 6: 1 - 5 * 2 / 18.
    assert (alpha.value, alpha.n) == (pytest.approx(1 - 10 / 18), 3)
    assert fleiss_kappa(rows, range(4), ("Yes", "No")).value is None


def test_alpha_of_one_category_or_of_no_pair_is_none() -> None:
    assert krippendorff_alpha([["Yes", "Yes"]] * 5, range(5), ("Yes", "No")).value is None
    assert krippendorff_alpha([["Yes", None]] * 5, range(5), ("Yes", "No")).value is None
    with pytest.raises(InputError, match="has numbers as categories"):
        krippendorff_alpha([["Yes", "No"]], "a", ("Yes", "No"), scale="interval")
