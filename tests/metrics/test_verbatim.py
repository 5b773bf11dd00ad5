"""Shared runs against looking at every pair of positions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from medunlearn.errors import InputError
from medunlearn.metrics import verbatim
from medunlearn.metrics.verbatim import (
    SharedRun,
    as_ids,
    as_text,
    longest_common_substring,
    longest_run,
    may_share,
    runs_of_at_least,
    shared_runs,
)


def maximal_runs(reply: Sequence[int], true: Sequence[int], at_least: int = 1) -> list[SharedRun]:
    """All maximal shared runs by nested loops, in the response's order."""
    runs = []
    for place in range(len(reply)):
        for other in range(len(true)):
            if place and other and reply[place - 1] == true[other - 1]:
                continue
            length = 0
            while place + length < len(reply) and other + length < len(true):
                if reply[place + length] != true[other + length]:
                    break
                length += 1
            if length >= at_least:
                runs.append(SharedRun(length, place, other))
    return runs


def longest_of(reply: Sequence[int], true: Sequence[int]) -> SharedRun:
    """The longest; of equal ones the first in the suffix, then in the response."""
    by_suffix = sorted(maximal_runs(reply, true), key=lambda run: (-run.length, run.in_suffix, run.in_response))
    return by_suffix[0] if by_suffix else SharedRun(0, 0, 0)


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


@settings(max_examples=150, deadline=None)
@given(st.lists(pairs(), max_size=4), st.lists(st.integers(1, 14), max_size=4), st.integers(1, 8))
def test_runs_equal_the_nested_loops(
    many: list[tuple[list[int], list[int]]], lengths: list[int], at_least: int
) -> None:
    longest = [longest_of(*pair) for pair in many]
    assert [longest_run(*pair) for pair in many] == longest
    texts = [[as_text(ids) for ids in as_ids(pair)] for pair in many]
    assert [SharedRun(*longest_common_substring(*pair)) for pair in texts] == longest
    responses, suffixes = [a for a, _ in many], [b for _, b in many]
    shared = runs_of_at_least(responses, suffixes, lengths)
    assert shared.shape == (len(many), len(lengths))
    assert shared.tolist() == [[run.length >= length for length in lengths] for run in longest]
    assert shared_runs(responses, suffixes, at_least) == [maximal_runs(*pair, at_least) for pair in many]


@pytest.mark.parametrize("length", [1, 2, 29, 30, 31, 49, 50, 51, 200])
@pytest.mark.parametrize("place", [0, 1, 137, None])
def test_a_planted_run_is_found_wherever_it_stands(length: int, place: int | None) -> None:
    draw = np.random.default_rng(length)
    response, suffix = draw.permutation(1000)[:500], 1000 + draw.permutation(1000)[:500]
    place = 500 - length if place is None else place
    suffix[place : place + length] = response[211 : 211 + length]
    assert longest_run(response, suffix) == SharedRun(length, 211, place)
    assert runs_of_at_least([response], [suffix]).tolist() == [[length >= 30, length >= 50]]
    assert shared_runs([response], [suffix]) == [[SharedRun(length, 211, place)] if length >= 30 else []]


def test_most_pairs_are_ruled_out_at_a_glance_and_none_wrongly() -> None:
    draw = np.random.default_rng(1)
    often = 1 / np.arange(1, 5001)
    both = draw.choice(5000, (2, 40, 300), p=often / often.sum()).astype(np.uint32)
    both[1, ::10, 100:130] = both[0, ::10, 7:37]
    reply, true = [*both[0]], [*both[1]]
    glance, shared = may_share(reply, true, 30), runs_of_at_least(reply, true, [30])[:, 0]
    assert shared.tolist() == [row % 10 == 0 for row in range(40)]
    assert not (shared & ~glance).any()
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


@pytest.mark.parametrize("kind", [list, tuple, np.int16, np.int32, np.int64, np.uint32])
def test_token_ids_of_any_whole_type(kind: type) -> None:
    ids = kind([5, 6, 7]) if kind in (list, tuple) else np.array([5, 6, 7], dtype=kind)
    assert longest_run(ids, [4, 6, 7]) == SharedRun(2, 1, 1)


@pytest.mark.parametrize(
    "ids",
    [
        *([-1], [0x110000], [2**32 + 5], ["a"], [1.5], np.array([-1], dtype=np.int32), np.array([2**32 + 5])),
        *(np.array([0x110000], dtype=np.int32), np.array([1.0]), np.array([[1]])),
    ],
)
def test_other_values_are_no_token_ids(ids: Sequence[int]) -> None:
    for call in (lambda: longest_run(ids, [1]), lambda: runs_of_at_least([[1]], [ids])):
        with pytest.raises(InputError, match="whole numbers from 0 to 1,114,111"):
            call()


@pytest.mark.parametrize("function", [runs_of_at_least, shared_runs])
def test_unequal_numbers_of_texts_are_refused(function: object) -> None:
    with pytest.raises(InputError, match="1 responses for 2 suffixes"):
        function([[1]], [[1], [2]])  # type: ignore[operator]


def test_empty_runs_are_refused() -> None:
    for call in (lambda: runs_of_at_least([[1]], [[1]], [30, 0]), lambda: shared_runs([[1]], [[1]], 0)):
        with pytest.raises(InputError, match="needs at least 1 token"):
            call()
