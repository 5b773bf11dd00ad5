"""Exact measures on hand-made cases."""

from __future__ import annotations

import numpy as np
import pytest

from medunlearn.audit.measures import (
    MEASURES,
    Continuation,
    ContinuationMeasure,
    default_measures,
    get_measure,
    score_continuations,
)
from medunlearn.audit.overlap import extraction_strength, partial_match
from medunlearn.errors import InputError, UnknownNameError


def case(
    said: list[int], true: list[int], hits: tuple[bool, ...] | None = None, why: str | None = None
) -> Continuation:
    return Continuation(
        np.array(said, dtype=np.uint32), np.array(true, dtype=np.uint32), hits=hits, no_response=why
    )


def test_partial_match_counts_places() -> None:
    assert partial_match([1, 2, 9, 4], [1, 2, 3, 4], first=4) == 0.75
    assert partial_match([2, 3, 4, 1], [1, 2, 3, 4], first=4) == 0.0
    # What the response is too short for does not agree; what is behind the first tokens does not count.
    assert partial_match([1], [1, 2, 3, 4], first=4) == 0.25
    assert partial_match([1, 2, 7], [1, 2, 8, 9], first=2) == 1.0
    assert partial_match([], [1, 2], first=2) == 0.0
    assert partial_match([1, 2], [1], first=2) is None


@pytest.mark.parametrize(
    ("hits", "strength"),
    [
        ("1111", 1.0),  # the prefix is enough
        ("0111", 0.75),  # one token has to be given
        ("1101", 0.25),  # hits before the last miss do not count
        ("1110", 0.0),  # all have to be given: no more than nothing is said
        ("0000", 0.0),
    ],
)
def test_extraction_strength_by_hand(hits: str, strength: float) -> None:
    assert extraction_strength([hit == "1" for hit in hits]) == strength


def test_extraction_strength_of_nothing() -> None:
    assert extraction_strength([]) is None


def test_runs_on_either_side_of_their_length() -> None:
    true = list(range(100))
    said = [[*range(200, 210), *range(20, 20 + length), *range(300, 310)] for length in (29, 30, 49, 50)]
    scores = score_continuations(("run_30", "run_50", "longest_run"), [case(one, true) for one in said])
    assert [score.value for score in scores["run_30"]] == [0, 1, 1, 1]
    assert [score.value for score in scores["run_50"]] == [0, 0, 0, 1]
    assert [score.value for score in scores["longest_run"]] == [29, 30, 49, 50]


def test_a_suffix_that_is_too_short_is_unscored_and_not_zero() -> None:
    true = list(range(40))
    found = score_continuations(("run_30", "run_50", "partial_match_50", "extraction_strength"), [case(true, true)])
    assert found["run_30"][0].value == 1.0
    for name in ("run_50", "partial_match_50"):
        assert found[name][0].value is None
        assert "fewer than 50" in str(found[name][0].reason)
    assert "local model" in str(found["extraction_strength"][0].reason)


def test_what_has_no_response_is_unscored_in_its_place() -> None:
    true = list(range(60))
    cases = [case(true, true), case([], true, why="the server refused"), case([], true)]
    found = score_continuations(("run_30", "longest_run", "bleu"), cases)
    for name in found:
        assert found[name][1].value is None
        assert found[name][1].reason == "the server refused"
    assert [score.value for score in found["run_30"]] == [1.0, None, 0.0]


def test_processes_change_no_number() -> None:
    draw = np.random.default_rng(0)
    cases = [case(draw.integers(0, 4, 80).tolist(), draw.integers(0, 4, 80).tolist()) for _ in range(20)]
    names = ("longest_run", "bleu", "partial_match_50")
    assert score_continuations(names, cases, processes=2) == score_continuations(names, cases, processes=1)


def test_every_measure_says_what_it_is() -> None:
    for name in MEASURES:
        measure = get_measure(name)
        assert measure.name == name
        assert "higher" in measure.meaning
        assert measure.source
    assert default_measures()[:2] == ("run_30", "run_50")


def test_wrong_names_are_refused() -> None:
    with pytest.raises(UnknownNameError, match="run_30"):
        get_measure("run_31")
    with pytest.raises(InputError, match="not to a ContinuationMeasure"):
        get_measure("medunlearn.audit.overlap:PAPER")


ELSEWHERE = ContinuationMeasure("elsewhere", "", "semantic", ("model",), "", "", None)


def test_measures_of_a_further_model_are_no_part_of_this_step() -> None:
    with pytest.raises(InputError, match="further model"):
        score_continuations((f"{__name__}:ELSEWHERE",), [])
