"""Numbers of k samples, against counting all choices of k by hand."""

from __future__ import annotations

import math
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medunlearn.statistics.best_of import any_of, best_of, extraction_probability

VALUES = st.lists(st.floats(0, 1), min_size=1, max_size=7)


@given(VALUES, st.data())
def test_the_mean_best_of_all_choices(values: list[float], data: st.DataObject) -> None:
    k = data.draw(st.integers(1, len(values)))
    choices = [max(choice) for choice in combinations(values, k)]
    assert best_of(values, k) == pytest.approx(math.fsum(choices) / len(choices))


@given(st.integers(1, 8), st.data())
def test_the_share_of_choices_with_a_hit(samples: int, data: st.DataObject) -> None:
    hits, k = data.draw(st.integers(0, samples)), data.draw(st.integers(1, samples))
    marked = [place < hits for place in range(samples)]
    choices = [any(choice) for choice in combinations(marked, k)]
    assert any_of(hits, samples, k) == pytest.approx(sum(choices) / len(choices))


def test_one_sample_is_the_mean_and_all_are_the_best() -> None:
    assert best_of([0.1, 0.5, 0.9], 1) == pytest.approx(0.5)
    assert best_of([0.1, 0.5, 0.9], 3) == pytest.approx(0.9)
    assert best_of([0.0, 1.0], 2) == 1.0
    with pytest.raises(ValueError, match="best of 3 of 2"):
        best_of([0.1, 0.2], 3)
    with pytest.raises(ValueError, match="3 hits"):
        any_of(3, 2, 1)


def test_extraction_by_hand_and_where_numbers_are_small() -> None:
    assert extraction_probability(math.log(0.5), 1) == pytest.approx(0.5)
    assert extraction_probability(math.log(0.25), 2) == pytest.approx(1 - 0.75**2)
    # 1 - (1 - 1e-20) ** 32 is 0 in floats.
    assert extraction_probability(math.log(1e-20), 32) == pytest.approx(3.2e-19)
    assert extraction_probability(math.log1p(-1e-12), 2) == pytest.approx(1.0)
    assert extraction_probability(0.0, 3) == 1.0
    assert extraction_probability(-math.inf, 32) == 0.0
    assert math.isnan(extraction_probability(math.nan, 2))
