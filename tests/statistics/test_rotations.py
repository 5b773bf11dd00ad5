"""What a rotation finds, against enumeration and numbers by hand."""

from __future__ import annotations

from itertools import combinations

import pytest

from medunlearn.statistics.rotations import chance_to_find, rounds_until_all, rounds_until_found


@pytest.mark.parametrize(("everybody", "drawn", "marked"), [(6, 2, 1), (6, 2, 3), (7, 5, 4), (5, 5, 1), (4, 2, 0)])
def test_the_chance_is_that_of_all_draws(everybody: int, drawn: int, marked: int) -> None:
    draws = [*combinations(range(everybody), drawn)]
    hits = [sum(one < marked for one in draw) for draw in draws]
    assert chance_to_find(everybody, drawn, marked) == pytest.approx(sum(n > 0 for n in hits) / len(draws))
    half = sum(1 - 0.5**n for n in hits) / len(draws)
    assert chance_to_find(everybody, drawn, marked, power=0.5) == pytest.approx(half)


def test_rounds_by_hand() -> None:
    assert chance_to_find(40, 12, 1) == pytest.approx(0.3)
    assert chance_to_find(40, 12, 1, rounds=3) == pytest.approx(0.9)
    assert chance_to_find(40, 12, 1, rounds=4) == pytest.approx(1.0)
    assert (rounds_until_all(40, 12), rounds_until_all(12, 12), rounds_until_all(1000, 12)) == (4, 1, 84)
    assert rounds_until_found(1000, 12, 1, 0.95) == 80  # 960 of 1,000 is the first multiple of 12 above 950
    assert rounds_until_found(1000, 12, 1000, 0.95) == 1
