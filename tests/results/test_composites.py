"""Harmonic means and the names that they may carry."""

from __future__ import annotations

import statistics

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import hmean

from medunlearn.errors import InputError
from medunlearn.results.composites import COMPOSITES, degraded, harmonic_mean

MU, AFE = COMPOSITES
SHARES = st.lists(st.floats(0.0, 1.0, allow_subnormal=False), min_size=1, max_size=6)


@given(SHARES)
def test_harmonic_mean_equals_the_standard_library_and_scipy(values: list[float]) -> None:
    assert harmonic_mean(values) == pytest.approx(statistics.harmonic_mean(values), rel=1e-12, abs=1e-300)
    if min(values) > 1e-300:
        assert harmonic_mean(values) == pytest.approx(float(hmean(values)), rel=1e-12)


def test_one_zero_part_makes_it_zero() -> None:
    assert harmonic_mean([1.0, 1.0, 0.0, 1.0]) == 0.0
    assert harmonic_mean([1.0, 5e-324]) == 0.0


@pytest.mark.parametrize("values", [[-0.01], [0.5, 1.01], [float("nan"), 1.0], [85.0]])
def test_values_outside_zero_to_one_are_refused(values: list[float]) -> None:
    with pytest.raises(InputError, match="between 0 and 1"):
        harmonic_mean(values)


def test_no_value_is_refused() -> None:
    with pytest.raises(InputError, match="at least one"):
        harmonic_mean([])


def test_rounding_beyond_the_ends_is_forgiven() -> None:
    assert harmonic_mean([1.0 + 1e-15, 1.0]) == 1.0
    assert harmonic_mean([-1e-17, 1.0]) == 0.0


def test_equations_two_and_three_of_the_paper() -> None:
    assert MU.parts == ("rouge_l", "em", "cs", "te", "es")
    assert AFE.parts == ("rouge_l", "em", "cs", "es")
    means = np.array([0.5, 0.25, 1.0, 0.5])
    # AFE has a part at 1 - 1 = 0. Without it: 3 / (1/0.5 + 1/0.75 + 1/0.5) = 9/16.
    assert AFE.of(means) == 0.0
    assert AFE.of(means[[0, 1, 3]]) == pytest.approx(9 / 16)
    # MU of four: 4 / (2 + 4 + 1 + 2).
    assert MU.of(means) == pytest.approx(4 / 9)


def test_replicates_are_combined_row_by_row() -> None:
    means = np.array([[0.5, 0.5], [1.0, 0.0], [0.2, 0.6]])
    assert MU.of(means) == pytest.approx([0.5, 0.0, 0.3])


def test_only_the_whole_carries_the_papers_name() -> None:
    assert MU.shown_as(MU.measured_parts({"rouge_l", "em", "cs", "te", "es", "token_f1"})) == "MU"
    assert MU.shown_as(MU.measured_parts({"te", "em", "rouge_l"})) == "H(rouge_l, em, te)"
    assert AFE.shown_as(AFE.measured_parts({"em", "rouge_l", "te"})) == "H(1-rouge_l, 1-em)"
    assert AFE.shown_as(AFE.measured_parts({"rouge_l", "em", "cs", "es"})) == "AFE"


def test_degraded_is_an_entropy_of_exactly_zero() -> None:
    marked = degraded(np.array([0.0, 1e-9, 1.0, np.nan]))
    assert marked[:3].tolist() == [1.0, 0.0, 0.0]
    assert np.isnan(marked[3])
