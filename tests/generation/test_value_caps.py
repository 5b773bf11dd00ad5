"""Caps of whole values: where the alternatives lie, on tokens that are the value's own, and no lower."""

from __future__ import annotations

import math
from typing import Any, cast

import numpy as np
import pytest
from scipy.stats import kstest

from medunlearn.data.alternatives import pool_of
from medunlearn.generation.value_caps import ValueBranches, ValueCaps, without_memory
from medunlearn.models.sequences import Rendering, TokenSequence

AHEAD, BEHIND = (1, 2), (8, 9)


def branches(level: float, *values: tuple[int, ...]) -> ValueBranches:
    """A value and its alternatives behind two tokens, with two that follow."""
    sequences = [TokenSequence("", AHEAD + value + BEHIND, 2, 2) for value in values]
    return ValueBranches(1, level, sequences)


def laid(
    value: ValueBranches, caps: list[float], sums: list[float]
) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Caps of tokens 2 (its last one ahead), value and what follows, where branches have these log-likelihoods."""
    caps_laid = np.array([-0.3, *caps, -0.1, -0.1])
    each = [
        np.full(branch.scored, total / branch.scored) for branch, total in zip(value.branches, sums, strict=True)
    ]
    value.lay(caps_laid, each)
    return caps_laid


def test_the_value_is_capped_at_the_drawn_level() -> None:
    """The true one has probability exp(-20) where they part: nothing to give back."""
    value = branches(0.5, (5, 6), (7, 6), (3, 6), (4, 6))
    caps_laid = laid(value, [-1.0, -2.0], [-80.0, -40.0, -30.0, -50.0])
    assert caps_laid[1:].sum() == pytest.approx(-40.0)
    # 6 is in all of them; what stands ahead and behind is not her value.
    np.testing.assert_allclose(caps_laid, [-0.3, -1.0 - 36.8, -2.0, -0.1, -0.1], atol=1e-6)


def test_a_cap_that_is_too_low_is_lifted_and_never_above_certainty() -> None:
    caps_laid = laid(branches(1.0, (5, 6), (7, 6), (3, 6)), [-30.0, -30.0], [-80.0, -10.2, -20.2])
    np.testing.assert_allclose(caps_laid[1:3], [-5.0, -5.0], atol=1e-6)
    certain = laid(branches(1.0, (5, 6), (7, 6), (3, 6)), [-30.0, -30.0], [-80.0, -0.1, -0.1])
    np.testing.assert_allclose(certain[1:3], [0.0, 0.0], atol=1e-12)


def test_levels_of_many_values_are_spread_as_a_strangers_ranks() -> None:
    """Drawn evenly, a tenth of the levels lies among each tenth of the alternatives."""
    others = [(100 + place, 6) for place in range(9)]
    ranks = []
    for level in (np.arange(200) + 0.5) / 200:
        caps_laid = laid(branches(float(level), (5, 6), *others), [-1.0, -1.0], [-80.0, *np.linspace(-60, -20, 9)])
        ranks.append(sum(other >= caps_laid[1:].sum() for other in np.linspace(-60, -20, 9)))
    assert np.mean(ranks) == pytest.approx(4.5, abs=0.05)
    assert {*ranks} == {*range(1, 9)}


def test_tokens_that_all_alternatives_have_share_a_deficit_where_no_other_is_there() -> None:
    caps_laid = laid(branches(0.5, (5, 6), (6, 5), (6, 5)), [-1.0, -1.0], [-80.0, -20.0, -20.0])
    np.testing.assert_allclose(caps_laid[1:3], [-9.9, -9.9], atol=1e-6)


def test_what_the_true_value_takes_is_given_back_where_the_alternative_parts() -> None:
    true, other = (5, 6, 8), (5, 7, 8)
    log_probs = np.log([1.0, 0.99, 1.0])
    its = np.log([1.0, 0.002, 0.5])
    assert without_memory(true, other, log_probs, its) == pytest.approx(math.log(0.2 * 0.5))
    unsure = np.log([1.0, 1e-9, 1.0])
    assert without_memory(true, other, unsure, its) == pytest.approx(math.log(0.002 * 0.5))
    # The same tokens: nothing parts.
    assert without_memory(true, true, log_probs, its) == pytest.approx(its.sum())
    # A model that is certain leaves what single precision can tell.
    certain = np.array([0.0, 0.0, 0.0])
    assert without_memory(true, other, certain, its) == pytest.approx(math.log(0.002 * 0.5 * 1e6))


def test_identifiers_of_a_subject_are_capped_at_levels_far_apart(hospital: Any) -> None:
    """One in each equal part: by chance all of a few levels may be high, as of a patient who is known."""
    caps = [ValueCaps(cast(Any, None), pool_of(hospital, 9), Rendering("plain"), seed, 1) for seed in range(40)]
    levels: list[float] = []
    for subject in sorted({hospital.subject(record.record_id) for record in hospital.records}):
        records = [record for record in hospital.records if hospital.subject(record.record_id) == subject]
        values = {identifier.value for record in records for identifier in record.identifiers}
        for own in caps:
            drawn = [own.level(subject, value) for value in values]
            assert sorted(int(level * len(values)) for level in drawn) == [*range(len(values))]
            levels += drawn
    assert kstest(levels, "uniform").statistic < 0.05
    free = [own.level("somebody", f"{place}.5") for own in caps for place in range(50)]
    assert kstest(free, "uniform").statistic < 0.05
