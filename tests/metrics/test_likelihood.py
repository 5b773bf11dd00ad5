"""Likelihood measures on cases worked out by hand or by SciPy."""

from __future__ import annotations

from math import exp, inf, isnan, log, nan

import numpy as np
import pytest
from scipy.stats import gmean

from medunlearn.metrics import Item, Tools, get_metric
from medunlearn.metrics.item_scoring import score
from medunlearn.metrics.likelihood import (
    answer_probability,
    choice_probability,
    chooses_right,
    exact_memorization,
    truth_ratio,
    truth_ratio_utility,
)


def of(*probabilities: float) -> list[float]:
    return [log(probability) for probability in probabilities]


# Length-normalised: sqrt(0.5 * 0.125) = 0.25, 0.5, and the cube root of 0.1^3 = 0.1.
RIGHT, WRONG, WORSE = of(0.5, 0.125), of(0.5), of(0.1, 0.1, 0.1)


def value_of(metric: str, **values: object) -> float | None:
    (value,) = get_metric(metric).score([Item("q1", "forget", "?", "ref", **values)], Tools())  # type: ignore[arg-type]
    assert (value.value is None) == (value.reason is not None)
    return value.value


def test_memorization_leaves_the_end_of_sequence_out() -> None:
    assert exact_memorization([True, False, True, False, True]) == 0.5
    assert exact_memorization([True, False, True, False, False]) == 0.5
    assert value_of("em", answer_hits=[True, True, False]) == 1.0
    assert value_of("em", answer_hits=[]) is None
    assert value_of("em", answer_hits=[True]) is None


def test_answer_probability_is_the_geometric_mean_with_end_of_sequence() -> None:
    shares = [0.5, 0.25, 0.9]
    assert answer_probability(of(*shares)) == pytest.approx(gmean(shares), abs=1e-12)
    with pytest.raises(ValueError, match="no token"):
        answer_probability([])
    # A NaN is let through for the runner to refuse.
    assert isnan(answer_probability([nan, -1.0]))
    assert isnan(answer_probability([-1.0, nan]))


@pytest.mark.parametrize(
    ("log_probs", "value"),
    [
        (of(0.5, 0.5), 0.5),
        ([-inf, -1.0], 0.0),
        # Half precision may give 0.001 for a certain token; 0.5 is no log-probability.
        ([0.001], 1.0),
        ([0.5, -3.0], None),
        ([nan, inf, -inf], None),
        ([], None),
        (np.array([-1.0, -3.0]), exp(-2)),
    ],
)
def test_answer_probability_of_an_item(log_probs: list[float], value: float | None) -> None:
    assert value_of("answer_probability", answer_log_probs=log_probs) == (value and pytest.approx(value))


def test_truth_ratio_by_hand() -> None:
    # (0.5 + 0.1) / 2 / 0.25, and with the geometric mean of TOFU's released code sqrt(0.5 * 0.1) / 0.25.
    assert truth_ratio(RIGHT, [WRONG, WORSE]) == pytest.approx(1.2)
    assert truth_ratio(RIGHT, [WRONG, WORSE], geometric=True) == pytest.approx(gmean([0.5, 0.1]) / 0.25)
    assert truth_ratio(RIGHT, [RIGHT]) == pytest.approx(1.0)
    assert truth_ratio([-900.0], [[-901.0]]) == pytest.approx(exp(-1))
    # More than the largest float is cut off, so that its place in the order of all ratios is not lost.
    assert truth_ratio([-900.0], [[-1.0]]) == truth_ratio([-inf], [[-1.0]]) == exp(700)
    assert isnan(truth_ratio([nan], [[-1.0]]))
    for right, wrong in (([], [[-1.0]]), ([-1.0], []), ([-1.0], [[]])):
        with pytest.raises(ValueError, match=r"token|wrong answer"):
            truth_ratio(right, wrong)
    assert truth_ratio_utility(0.4) == pytest.approx(0.6)
    assert truth_ratio_utility(1.0) == truth_ratio_utility(7.0) == truth_ratio_utility(inf) == 0.0
    assert isnan(truth_ratio_utility(nan))


def test_choices_by_hand() -> None:
    assert choice_probability([RIGHT, WRONG, WORSE], 0) == pytest.approx(0.25 / 0.85)
    assert choice_probability([[-900.0], [-900.0]], 0) == pytest.approx(0.5)
    assert chooses_right([WRONG, RIGHT], 0)
    assert not chooses_right([WRONG, RIGHT], 1)
    assert not chooses_right([WRONG, WRONG], 0)
    # Two tokens of 0.4: 0.16 in all, 0.4 a token, against 0.25.
    assert chooses_right([of(0.25), of(0.4, 0.4)], 1)


def test_measures_leave_unscored_what_has_no_alternatives() -> None:
    def item(name: str, options: list[list[float]] | None, right: int = 0) -> Item:
        return Item(name, "forget", "q", "a", "a b", alternative_log_probs=options, answer_index=right)

    items = [
        item("full", [RIGHT, WRONG, WORSE]),
        item("second", [WRONG, RIGHT, WORSE], 1),
        item("none", None),
        item("alone", [RIGHT]),
        item("empty", [RIGHT, []]),
        item("huge", [[-900.0], [-1.0]]),
    ]
    names = ("truth_ratio", "truth_ratio_utility", "choice_probability", "option_accuracy")
    names += ("truth_ratio.geometric", "truth_ratio_utility.geometric")
    table = score(items, [get_metric(name) for name in names], Tools()).set_index(["question_id", "metric"])
    value, reason = table["value"], table["reason"]
    # sqrt(0.05) / 0.25 = 0.894: below 1, where the arithmetic mean is above it.
    expected = [1.2, 0.0, 0.25 / 0.85, 0.0, 0.05**0.5 / 0.25, 1 - 0.05**0.5 / 0.25]
    assert value["second"].tolist() == pytest.approx(expected)
    assert value["full"].tolist() == pytest.approx(expected)
    assert value["huge", "truth_ratio_utility"] == 0.0
    assert value["huge", "truth_ratio"] == exp(700)
    for name in names:
        assert "no alternative answers" in reason["none", name]
        assert "the question has no" in reason["alone", name]
        assert "no token" in reason["empty", name]
