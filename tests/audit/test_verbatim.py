"""Shared runs against looking at every pair of positions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from medunlearn.audit import verbatim
from medunlearn.audit.automaton import longest_common_substring
from medunlearn.audit.verbatim import (
    Run,
    as_ids,
    as_text,
    longest_run,
    may_share,
    runs_of_at_least,
)
from medunlearn.errors import InputError


def slow_run(response: Sequence[int], suffix: Sequence[int]) -> Run:
    best = Run(0, 0, 0)
    for true in range(len(suffix)):
        for said in range(len(response)):
            length = 0
            while (
                said + length < len(response)
                and true + length < len(suffix)
                and response[said + length] == suffix[true + length]
            ):
                length += 1
            if length > best.length:
                best = Run(length, said, true)
    return best


@st.composite
def pairs(draw: st.DrawFn) -> tuple[list[int], list[int]]:
    """Two texts over few tokens, often with a piece of the one put into the other."""
    # Surrogates and the last character are token ids like others.
    tokens = draw(st.sampled_from([[5], [0, 1], [1, 2, 3], [0, 55_296, 57_343, 128_255, 0x10FFFF, *range(8)]]))
    response = draw(st.lists(st.sampled_from(tokens), max_size=30))
    suffix = draw(st.lists(st.sampled_from(tokens), max_size=30))
    start, end = sorted(draw(st.tuples(st.integers(0, 30), st.integers(0, 30))))
    place = draw(st.integers(0, 30))
    return response, suffix[:place] + response[start:end] + suffix[place:]


@settings(max_examples=300, deadline=None)
@given(pairs())
def test_longest_run_equals_the_nested_loops(pair: tuple[list[int], list[int]]) -> None:
    slow = slow_run(*pair)
    assert longest_run(*pair) == slow
    said, true = (as_text(ids) for ids in as_ids(pair))
    assert Run(*longest_common_substring(said, true)) == slow


@settings(max_examples=300, deadline=None)
@given(st.lists(pairs(), max_size=4), st.lists(st.integers(1, 14), max_size=4))
def test_runs_of_at_least_equal_the_nested_loops(
    many: list[tuple[list[int], list[int]]], lengths: list[int]
) -> None:
    slow = [[slow_run(*pair).length >= length for length in lengths] for pair in many]
    found = runs_of_at_least([a for a, _ in many], [b for _, b in many], lengths)
    assert found.shape == (len(many), len(lengths))
    assert found.tolist() == slow


@pytest.mark.parametrize("length", [1, 2, 29, 30, 31, 49, 50, 51, 200])
@pytest.mark.parametrize("place", [0, 1, 137, None])
def test_a_planted_run_is_found_wherever_it_stands(length: int, place: int | None) -> None:
    draw = np.random.default_rng(length)
    response, suffix = draw.permutation(1000)[:500], 1000 + draw.permutation(1000)[:500]
    place = 500 - length if place is None else place
    suffix[place : place + length] = response[211 : 211 + length]
    assert longest_run(response, suffix) == Run(length, 211, place)
    assert runs_of_at_least([response], [suffix]).tolist() == [[length >= 30, length >= 50]]


def test_most_pairs_are_ruled_out_at_a_glance_and_none_wrongly() -> None:
    draw = np.random.default_rng(1)
    often = 1 / np.arange(1, 5001)
    both = draw.choice(5000, (2, 40, 300), p=often / often.sum()).astype(np.uint32)
    both[1, ::10, 100:130] = both[0, ::10, 7:37]
    said, true = [*both[0]], [*both[1]]
    glance = may_share(said, true, 30)
    found = runs_of_at_least(said, true, [30])[:, 0]
    assert found.tolist() == [row % 10 == 0 for row in range(40)]
    assert not (found & ~glance).any()
    assert glance.sum() <= 6
    # A run at the very end of one suffix and the beginning of the next is none.
    assert runs_of_at_least([[1, 2, 3, 4]] * 2, [[9, 1, 2], [3, 4, 9]], [3]).tolist() == [[False], [False]]
    assert may_share([*as_ids([[1, 2, 3, 4]] * 2)], as_ids([[9, 1, 2], [3, 4, 9]]), 3).tolist() == [False, False]


def test_long_texts_take_the_automaton_to_the_same_run(monkeypatch: pytest.MonkeyPatch) -> None:
    draw = np.random.default_rng(0)
    response, suffix = draw.integers(0, 30, 1500), draw.integers(0, 30, 1600)
    suffix[800:840] = response[100:140]
    assert len(response) * len(suffix) > verbatim._LARGE
    long = longest_run(response, suffix)
    monkeypatch.setattr(verbatim, "_LARGE", 10**9)
    assert long == longest_run(response, suffix)
    assert long.length >= 40


def test_ties_go_to_the_first_in_the_suffix_and_then_in_the_response() -> None:
    assert longest_run([8, 1, 2, 9, 1, 2], [3, 1, 2, 3, 8]) == Run(2, 1, 1)
    assert longest_run([7, 8, 1, 2], [1, 2, 7, 8]) == Run(2, 2, 0)
    assert longest_run([1, 2], [3]) == longest_run([], [3]) == longest_run([], []) == Run(0, 0, 0)


@pytest.mark.parametrize("kind", [list, tuple, np.int16, np.int32, np.int64, np.uint32])
def test_token_ids_of_any_whole_type(kind: type) -> None:
    ids = kind([5, 6, 7]) if kind in (list, tuple) else np.array([5, 6, 7], dtype=kind)
    assert longest_run(ids, [4, 6, 7]) == Run(2, 1, 1)


@pytest.mark.parametrize(
    "ids",
    [
        [-1],
        [0x110000],
        [2**32 + 5],
        ["a"],
        [1.5],
        np.array([-1], dtype=np.int32),
        np.array([2**32 + 5]),
        np.array([0x110000], dtype=np.int32),
        np.array([1.0]),
        np.array([[1]]),
    ],
)
def test_what_is_no_token_id_is_refused(ids: Sequence[int]) -> None:
    with pytest.raises(InputError, match="whole numbers from 0 to 1,114,111"):
        longest_run(ids, [1])
    with pytest.raises(InputError, match="whole numbers from 0 to 1,114,111"):
        runs_of_at_least([[1]], [ids])


def test_wrong_questions_are_refused() -> None:
    with pytest.raises(InputError, match="1 responses for 2 suffixes"):
        runs_of_at_least([[1]], [[1], [2]])
    with pytest.raises(InputError, match="ask for at least 1"):
        runs_of_at_least([[1]], [[1]], [30, 0])
