"""Damage is not forgetting: the check on control models, by the numbers of made score tables."""

from __future__ import annotations

import pandas as pd
import pytest
from control_tables import Level, all_but_one, damaged, damaged_but_trained, knows, never_saw, table

from medunlearn.results.forgetting_check import ForgettingCheck
from medunlearn.results.forgetting_numbers import check_forgetting

TARGET, RETRAINED = table(knows, seed=1), table(never_saw, seed=2)


def check(
    model: pd.DataFrame, target: pd.DataFrame = TARGET, retrained: pd.DataFrame = RETRAINED
) -> ForgettingCheck:
    return check_forgetting(model, target, retrained, replicates=300)


def obstacles(own: ForgettingCheck) -> set[str]:
    return {reason.obstacle for reason in own.reasons}


def test_a_retrained_model_passes() -> None:
    """One of another training: nothing of it is the reference's own."""
    own = check(table(never_saw, seed=3))
    assert own.reasons == ()
    assert own.forgotten == pytest.approx(1.0, abs=0.02)
    assert own.remembered is not None
    assert (own.remembered.told, own.remembered.tellable) == (0, 20)


@pytest.mark.parametrize(
    ("level", "expected"),
    [
        (knows, {"not forgotten", "ranks", "subjects"}),
        *((damaged(share), {"damage"}) for share in (0.05, 0.15, 0.3, 0.6, 0.9, 1.0)),
        (damaged_but_trained, {"damage"}),
        (all_but_one, {"subjects"}),
    ],
)
def test_controls_do_not_pass(level: Level, expected: set[str]) -> None:
    own = check(table(level, seed=4))
    assert expected <= obstacles(own)


@pytest.mark.parametrize("share", [0.15, 0.3, 0.6, 0.9])
def test_damage_loses_the_same_share_everywhere(share: float) -> None:
    own = check(table(damaged(share), seed=5))
    assert own.forgotten == pytest.approx(share, abs=0.12)
    lost = {control.fold: control.lost for control in own.controls}
    assert lost["train"] == pytest.approx(own.forgotten, abs=0.15)
    assert lost["holdout"] is not None


@pytest.mark.parametrize("share", [0.05, 0.15, 0.3, 0.6, 0.9])
def test_damage_is_never_nearer_than_the_target(share: float) -> None:
    gap = check(table(damaged(share), seed=6)).gap_beyond_damage
    nothing = check(TARGET).gap_beyond_damage
    assert gap is not None
    assert nothing is not None
    assert gap <= nothing + 0.1


def test_records_alone_show_no_forgetting() -> None:
    """A benchmark without questions: only facts in its records were ranked."""
    tables = [table(level, seed=n) for n, level in enumerate((never_saw, knows, never_saw))]
    ranked = [own[own["measure"] == "ranked_first"].assign(fold="record", kind="record") for own in tables]
    own = check_forgetting(*ranked, replicates=100)
    assert {"nothing to forget", "no control"} <= obstacles(own)
    assert [rank.fold for rank in own.ranks] == ["record"]


def test_nothing_measured_is_no_success() -> None:
    nothing = TARGET.assign(value=float("nan"), reason="the server was down")
    own = check_forgetting(nothing, TARGET, RETRAINED, replicates=100)
    assert not own.passed
    assert own.forgotten is None
    assert own.remembered is None


def test_an_evaluation_of_another_seed_counts_each_seed() -> None:
    models = [
        pd.concat([table(level, seed=10 * seed + n).assign(training=seed) for seed in (0, 1)])
        for n, level in enumerate((never_saw, knows, never_saw))
    ]
    assert check_forgetting(*models, seeds="training", replicates=200).passed
