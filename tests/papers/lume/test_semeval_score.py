"""The SemEval-2025 Task 4 score by hand."""

from __future__ import annotations

import pytest

from medunlearn.errors import InputError
from medunlearn.papers.lume.semeval import PARTS, membership_score, semeval_score, task_aggregate


def test_the_aggregate_turns_forget_scores_round() -> None:
    """Forget 0.25 and retain 0.75 everywhere: twelve times 0.75. With one forget score of 0.7: eleven and a 0.3."""
    scores = {key: 0.25 if key[1] == "forget" else 0.75 for key in PARTS}
    assert task_aggregate(scores) == pytest.approx(0.75)
    scores["story", "forget", "knowledge"] = 0.7
    assert task_aggregate(scores) == pytest.approx(12 / (11 / 0.75 + 1 / 0.3))


def test_a_destroyed_part_makes_it_zero() -> None:
    scores = {key: 0.0 if key[1] == "forget" else 1.0 for key in PARTS}
    assert task_aggregate(scores) == 1.0
    scores["public_biography", "retain", "regurgitation"] = 0.0
    assert task_aggregate(scores) == 0.0


@pytest.mark.parametrize(
    ("auc", "score"), [(0.5, 1.0), (1.0, 0.0), (0.0, 0.0), (0.75, 0.5), (0.25, 0.5), (0.6, 0.8)]
)
def test_membership_costs_on_both_sides_of_half(auc: float, score: float) -> None:
    assert membership_score(auc) == pytest.approx(score)


def test_the_final_score_is_the_mean_of_three_parts_beside_them() -> None:
    scores = {key: 0.25 if key[1] == "forget" else 0.75 for key in PARTS}
    score = semeval_score(scores, 0.6, 0.4)
    assert score.final == pytest.approx((0.75 + 0.8 + 0.4) / 3)
    assert list(score.rows()) == ["task aggregate", "membership score", "utility", "SemEval-2025 Task 4"]
    assert not score.missing


@pytest.mark.parametrize("lost", ["scores", "auc", "utility"])
def test_without_a_part_there_is_no_final_score(lost: str) -> None:
    scores = dict.fromkeys(PARTS, 0.5)
    if lost == "scores":
        del scores["story", "retain", "knowledge"]
    score = semeval_score(scores, None if lost == "auc" else 0.5, None if lost == "utility" else 0.5)
    assert score.final is None
    assert score.rows()["SemEval-2025 Task 4"] is None
    part = {"scores": "task aggregate", "auc": "membership score", "utility": "utility"}[lost]
    assert list(score.missing) == [part]
    assert score.rows()[part] is None


def test_wrong_numbers_are_refused() -> None:
    with pytest.raises(InputError, match="twelve scores; missing are: story, forget, regurgitation"):
        task_aggregate(dict.fromkeys(PARTS[1:], 0.5))
    with pytest.raises(InputError, match="between 0 and 1"):
        membership_score(1.2)
    with pytest.raises(InputError, match=r"utility.*41"):
        semeval_score({}, None, 41.0)
