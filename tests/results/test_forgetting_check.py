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
    assert {control.fold for control in own.controls} == {"train", "holdout"}
    assert all(
        control.lost == pytest.approx(own.forgotten, abs=0.15)
        for control in own.controls
        if control.fold == "train"
    )


@pytest.mark.parametrize("share", [0.05, 0.15, 0.3, 0.6, 0.9])
def test_damage_is_never_nearer_than_the_target(share: float) -> None:
    gap = check(table(damaged(share), seed=6)).gap_beyond_damage
    nothing = check(TARGET).gap_beyond_damage
    assert gap is not None
    assert nothing is not None
    assert gap <= nothing + 0.1
