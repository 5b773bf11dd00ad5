"""Option accuracy: the most probable option, on probabilities worked out by hand."""

from __future__ import annotations

from math import log

from medunlearn.metrics import Item, Tools, get_metric
from medunlearn.metrics.likelihood import chooses_right

HALF, QUARTER = [log(0.5)], [log(0.25)]


def test_the_most_probable_option_is_the_choice() -> None:
    assert chooses_right([HALF, QUARTER], 0)
    assert not chooses_right([HALF, QUARTER], 1)
    assert not chooses_right([HALF, HALF], 0)


def test_a_longer_option_is_not_less_probable_for_being_longer() -> None:
    # Two tokens of 0.4: 0.16 in all, 0.4 a token, against 0.25.
    longer = [log(0.4), log(0.4)]
    assert chooses_right([QUARTER, longer], 1)


def test_what_has_no_options_is_unscored() -> None:
    metric = get_metric("option_accuracy")
    items = [
        Item("a", "forget", "q", "x", alternative_log_probs=[HALF, QUARTER], answer_index=0),
        Item("b", "forget", "q", "x", alternative_log_probs=[HALF, QUARTER], answer_index=1),
        Item("c", "forget", "q", "x", alternative_log_probs=[HALF, []], answer_index=0),
        Item("d", "forget", "q", "x", alternative_log_probs=[HALF], answer_index=0),
    ]
    found = metric.score(items, Tools())
    assert [one.value for one in found] == [1.0, 0.0, None, None]
    assert "no options" in str(found[3].reason)
    assert "no token" in str(found[2].reason)
