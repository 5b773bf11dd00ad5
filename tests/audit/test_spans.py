"""All maximal shared runs against looking at every pair of places."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from medunlearn.audit.verbatim import Run, longest_run, shared_runs
from medunlearn.errors import InputError


def slow(said: list[int], true: list[int], at_least: int) -> list[Run]:
    found = []
    for place in range(len(said)):
        for other in range(len(true)):
            if place and other and said[place - 1] == true[other - 1]:
                continue
            length = 0
            while place + length < len(said) and other + length < len(true):
                if said[place + length] != true[other + length]:
                    break
                length += 1
            if length >= at_least:
                found.append(Run(length, place, other))
    return found


texts = st.lists(st.integers(0, 3), max_size=24)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(texts, texts), max_size=4), st.integers(1, 8))
def test_they_are_the_nested_loops(pairs: list[tuple[list[int], list[int]]], at_least: int) -> None:
    found = shared_runs([said for said, _ in pairs], [true for _, true in pairs], at_least)
    assert found == [slow(said, true, at_least) for said, true in pairs]


def test_the_longest_is_among_them() -> None:
    draw = np.random.default_rng(3)
    true = draw.integers(0, 500, 400).tolist()
    said = [*draw.integers(500, 900, 20).tolist(), *true[50:90], 901, *true[120:170], 902]
    (found,) = shared_runs([said], [true])
    assert found == [Run(40, 20, 50), Run(50, 61, 120)]
    assert longest_run(said, true) in found


def test_what_stands_twice_is_there_twice() -> None:
    piece = list(range(30))
    (found,) = shared_runs([[*piece, 99, *piece]], [[98, *piece]])
    assert found == [Run(30, 0, 1), Run(30, 31, 1)]


def test_wrong_input() -> None:
    with pytest.raises(InputError, match="1 responses for 2"):
        shared_runs([[1]], [[1], [2]])
    with pytest.raises(InputError, match="at least 1"):
        shared_runs([[1]], [[1]], 0)
