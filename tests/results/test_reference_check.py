"""A retrained model that never learned the retain set, and a target that never memorized, decide nothing."""

from __future__ import annotations

import pandas as pd
import pytest

from medunlearn.results.reference_check import check_reference

SIDES = ("forget", "retain")


def scores(forget: float, retain: float, *, subjects: int = 8, measure: str = "rouge_l") -> pd.DataFrame:
    """One question a subject and side; subjects differ by up to 0.02 and are the same in every model."""
    values = dict(zip(SIDES, (forget, retain), strict=True))
    rows = [
        {
            "item": f"{side}-{number}",
            "subject": f"{side}-{number}",
            "side": side,
            "fold": "train",
            "kind": "completion",
            "measure": measure,
            "value": value - 0.02 * number / subjects,
            "reason": "",
        }
        for side, value in values.items()
        for number in range(subjects)
    ]
    return pd.DataFrame(rows)


TARGET = scores(0.98, 0.95)


def test_a_retrained_model_that_learned_the_retain_set_passes() -> None:
    """By hand: 0.94 - 0.9 * 0.95 = 0.085, less a tenth of the subjects' mean loss, 0.00875; AFE is 1 - rouge_l."""
    check = check_reference(TARGET, scores(0.2, 0.94))
    assert check.passed
    assert check.caveats == ()
    assert check.learned.value == pytest.approx(0.085 - 0.1 * 0.00875)
    assert check.memorized.value == pytest.approx(0.78)
    assert check.learned.n_subjects == 8
    assert check.target_learned is not None
    assert check.target_learned.value == pytest.approx(0.95 - 0.9 * 0.94 - 0.1 * 0.00875)


@pytest.mark.parametrize(("retain", "verdict"), [(0.376, "does not hold"), (0.855, "is not settled")])
def test_a_retrained_model_that_did_not_learn_it_fails(retain: float, verdict: str) -> None:
    uneven = scores(0.2, retain)
    uneven["value"] += [0.05 * (-1) ** number for number in range(len(uneven))]
    (reason,) = check_reference(TARGET, uneven).reasons
    assert verdict in reason
    assert "the retain set" in reason


@pytest.mark.parametrize("forget", [0.98, 0.99])
def test_a_target_that_has_not_memorized_fails(forget: float) -> None:
    (reason,) = check_reference(TARGET, scores(forget, 0.95)).reasons
    assert "the forget set" in reason


def test_a_measure_without_a_composite_is_read_as_it_is() -> None:
    target, retrained = (scores(*levels, measure="top_1") for levels in ((0.9, 0.9), (0.3, 0.9)))
    check = check_reference(target, retrained)
    assert check.passed
    assert check.memorized.value == pytest.approx(0.6)


@pytest.mark.parametrize(("known", "passes"), [(1.0, True), (0.0, False)])
def test_a_premise_that_holds_for_every_subject_holds(known: float, passes: bool) -> None:
    """Ten subjects that do not differ: no interval is above 0. Two models that know nothing confirm nothing."""
    target, retrained = (scores(forget, known, subjects=10) for forget in (1.0, 0.0))
    for table in (target, retrained):
        table["value"] = table["value"].round()
    check = check_reference(target, retrained)
    assert check.learned.low is not None
    assert check.learned.low < 0.0
    assert check.passed is passes
    retrained.loc[retrained["item"] == "retain-3", "value"] = 0.5  # one subject differs: the interval decides
    assert not check_reference(target, retrained).passed


def test_few_subjects_are_not_enough() -> None:
    check = check_reference(scores(0.98, 0.95, subjects=4), scores(0.2, 0.94, subjects=4))
    assert len(check.reasons) == 3
    assert all("not known" in reason for reason in check.reasons)


def test_without_the_train_fold_nothing_is_known() -> None:
    other = TARGET.assign(fold="holdout")
    assert not check_reference(other, other).passed


def test_a_target_that_learned_less_than_the_retrained_model_fails() -> None:
    """Equal steps on half of the documents: utility 0.451 beside 0.945."""
    check = check_reference(scores(0.98, 0.451), scores(0.2, 0.945))
    (reason,) = check.reasons
    assert "the target knows the retain set" in reason
    assert check.target_learned is not None
    assert check.target_learned.high is not None
    assert check.target_learned.high < 0.0


@pytest.mark.parametrize(("retrained", "passes"), [(0.38, True), (0.1, False), (0.7, False)])
def test_both_are_alike_on_unseen_questions(retrained: float, passes: bool) -> None:
    """The margin is 0.2 of the target's utility on the retain set: 0.19 on both sides."""
    unseen = [scores(0.0, level).query("side == 'retain'") for level in (0.4, retrained)]
    unseen = [table.assign(fold="holdout", item="unseen-" + table["item"]) for table in unseen]
    target, other = (pd.concat(tables) for tables in zip((TARGET, scores(0.2, 0.94)), unseen, strict=True))
    check = check_reference(target, other)
    assert check.passed is passes
    assert [gap.fold for gap in check.unseen] == ["holdout"]


def test_too_few_unseen_subjects_are_no_reason() -> None:
    unseen = scores(0.0, 0.4, subjects=3).query("side == 'retain'").assign(fold="holdout")
    unseen["item"] = "unseen-" + unseen["item"]
    assert check_reference(pd.concat([TARGET, unseen]), pd.concat([scores(0.2, 0.94), unseen])).passed
