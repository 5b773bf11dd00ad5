"""Truth ratio, choice probability, ROUGE-L F1 and privacy leak on cases worked out by hand."""

from __future__ import annotations

import math

import pytest

from medunlearn.errors import InputError
from medunlearn.metrics import Item, Tools, get_metric
from medunlearn.metrics.likelihood import choice_probability, truth_ratio, truth_ratio_utility
from medunlearn.metrics.privacy_leak import privacy_leak
from medunlearn.metrics.scoring import score


def of(*probabilities: float) -> list[float]:
    return [math.log(one) for one in probabilities]


# Length-normalised: sqrt(0.5 * 0.125) = 0.25, 0.5, and the cube root of 0.1^3 = 0.1.
RIGHT, WRONG, WORSE = of(0.5, 0.125), of(0.5), of(0.1, 0.1, 0.1)


def test_truth_ratio_by_hand() -> None:
    # (0.5 + 0.1) / 2 / 0.25; the geometric mean of the authors' code would give sqrt(0.05) / 0.25 = 0.894.
    assert truth_ratio(RIGHT, [WRONG, WORSE]) == pytest.approx(1.2)
    assert truth_ratio(RIGHT, [WORSE]) == pytest.approx(0.4)
    assert truth_ratio(RIGHT, [RIGHT]) == pytest.approx(1.0)


def test_truth_ratio_of_what_floats_cannot_hold() -> None:
    assert truth_ratio([-900.0], [[-901.0]]) == pytest.approx(math.exp(-1))
    assert truth_ratio([-900.0], [[-1.0]]) == math.inf
    assert math.isnan(truth_ratio([math.nan], [[-1.0]]))
    for right, wrong in (([], [[-1.0]]), ([-1.0], []), ([-1.0], [[]])):
        with pytest.raises(ValueError, match=r"token|wrong answer"):
            truth_ratio(right, wrong)


def test_as_utility() -> None:
    assert truth_ratio_utility(0.4) == pytest.approx(0.6)
    assert truth_ratio_utility(1.0) == truth_ratio_utility(7.0) == truth_ratio_utility(math.inf) == 0.0
    assert math.isnan(truth_ratio_utility(math.nan))


def test_choice_probability_by_hand() -> None:
    assert choice_probability([RIGHT, WRONG, WORSE], 0) == pytest.approx(0.25 / 0.85)
    assert choice_probability([RIGHT, WRONG, WORSE], 1) == pytest.approx(0.5 / 0.85)
    assert choice_probability([[-900.0], [-900.0]], 0) == pytest.approx(0.5)


def item(name: str, options: list[list[float]] | None, place: int | None = 0) -> Item:
    return Item(name, "forget", "q", "a", "a b", alternative_log_probs=options, answer_index=place)


def test_metrics_leave_unscored_what_has_no_alternatives() -> None:
    items = [
        item("full", [RIGHT, WRONG, WORSE]),
        item("second", [WRONG, RIGHT, WORSE], 1),
        item("none", None),
        item("alone", [RIGHT]),
        item("empty", [RIGHT, []]),
        item("huge", [[-900.0], [-1.0]]),
    ]
    names = ("truth_ratio", "truth_ratio_utility", "choice_probability")
    table = score(items, [get_metric(name) for name in names], Tools())
    value = {(q, m): v for q, m, v in zip(table["question_id"], table["metric"], table["value"], strict=True)}
    reason = {(q, m): r for q, m, r in zip(table["question_id"], table["metric"], table["reason"], strict=True)}
    assert value["full", "truth_ratio"] == pytest.approx(1.2)
    assert value["second", "truth_ratio"] == pytest.approx(1.2)
    assert value["full", "truth_ratio_utility"] == 0.0
    assert value["second", "choice_probability"] == pytest.approx(0.25 / 0.85)
    assert value["huge", "truth_ratio_utility"] == 0.0
    assert "inf" in reason["huge", "truth_ratio"]
    for name in names:
        assert "no alternative answers" in reason["none", name]
        assert "no wrong answers" in reason["alone", name]
        assert "no token" in reason["empty", name]


def test_rouge_l_f_by_hand() -> None:
    """Two of three tokens said are two of four wanted: P = 2/3, R = 1/2, F = 4/7."""
    (found,) = get_metric("rouge_l_f").score([Item("q", "forget", "q", "owl bat cat dog", "owl cat elk")], Tools())
    assert found.value == pytest.approx(4 / 7)
    (found,) = get_metric("rouge_l_f").score([Item("q", "forget", "q", "...", "owl")], Tools())
    assert found.value is None


def test_privacy_leak_by_hand() -> None:
    assert privacy_leak(0.9, 0.6) == pytest.approx(0.5)
    assert privacy_leak(0.5, 0.5) == 0.0
    assert privacy_leak(0.3, 0.6) == pytest.approx(-0.5)
    # As the paper's tables have it: a target model whose members rank lowest.
    assert privacy_leak(1 - 1.0, 1 - 0.5) == -1.0
    for wrong in ((1.1, 0.5), (0.5, math.nan), (0.5, 0.0), (-0.1, 0.5)):
        with pytest.raises(InputError, match="AUC"):
            privacy_leak(*wrong)
