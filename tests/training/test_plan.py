"""Sequences of each step: every one once an epoch, partners without repetition, a function of the seed."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medunlearn.errors import InputError
from medunlearn.models.sequences import TokenSequence, tokens_once
from medunlearn.training.batch_plan import Plan, UtilityRecovery, largest, micro_batches, rows, share


def side(name: str, count: int) -> list[TokenSequence]:
    return [TokenSequence(f"{name}{n}", tuple(range(2 + n % 5)), 0, 1) for n in range(count)]


def keys(sequences: list[TokenSequence]) -> list[str]:
    return [sequence.key for sequence in sequences]


sizes = st.integers(1, 12)


@given(forget=sizes, retain=sizes, batch=st.integers(1, 14), epochs=st.integers(1, 3), seed=st.integers(0, 9))
def test_epochs_and_laps(forget: int, retain: int, batch: int, epochs: int, seed: int) -> None:
    plan = Plan({"forget": side("f", forget), "retain": side("r", retain)}, batch, epochs, seed)
    steps = [plan.step(number) for number in range(plan.steps)]
    assert all(1 <= len(step["forget"]) == len(step["retain"]) <= batch for step in steps)
    led = [key for step in steps for key in keys(step["forget"])]
    assert len(led) == forget * epochs
    for epoch in range(epochs):
        assert Counter(led[epoch * forget : (epoch + 1) * forget]) == Counter(keys(side("f", forget)))
    partners = [key for step in steps for key in keys(step["retain"])]
    laps = [partners[start : start + retain] for start in range(0, len(partners), retain)]
    assert all(len(set(lap)) == len(lap) for lap in laps)


@given(number=st.integers(0, 11), seed=st.integers(0, 9))
def test_a_step_depends_on_its_number_alone(number: int, seed: int) -> None:
    sides = {"forget": side("f", 7), "retain": side("r", 3)}
    walked, jumped = Plan(sides, 2, 3, seed), Plan(sides, 2, 3, seed)
    earlier = [walked.step(n) for n in range(walked.steps)]
    assert jumped.step(number) == earlier[number] == walked.step(number)


def test_steps_and_epochs() -> None:
    plan = Plan({"train": side("t", 7)}, 3, 2, 0)
    assert (plan.steps_an_epoch, plan.steps) == (3, 6)
    assert [len(plan.step(n)["train"]) for n in range(6)] == [3, 3, 1, 3, 3, 1]
    assert [plan.epoch(n) for n in (0, 3, 6)] == [0, 1, 2]


def test_a_recovery_has_the_other_sides_alone() -> None:
    """As many sequences as in another step, a rate that falls to 0, and none that was not foreseen."""
    forget = side("f", 4)
    partners = {"alternatives": {own.key: side(f"a{own.key}", 2) for own in forget}}
    sides = {"forget": forget, "retain": side("r", 40)}
    plain = Plan(sides, 2, 5, 0, partners=partners)
    plan = replace(plain, recovery=lambda done: UtilityRecovery(1, rests=done < 3) if 1 <= done < 4 else None)
    steps = [plan.step(number) for number in range(plan.steps)]
    assert steps[:2] + steps[6:] == [plain.step(number) for number in (0, 1, 6, 7, 8, 9)]
    assert all([*step] == ["retain"] and len(step["retain"]) == 6 for step in steps[2:6])
    assert [plan.rate_share(number) for number in range(10)] == [1, 1, 1, 0.75, 0.5, 0.25, 0, 0, 1, 1]
    assert {key for step in steps for key in keys(step["retain"])} <= set(keys(plan.draws("retain")[0]))


def test_an_empty_side_is_named() -> None:
    with pytest.raises(InputError, match="the retain set has no sequences"):
        Plan({"forget": side("f", 1), "retain": []}, 1, 1, 0)


@given(sizes, sizes, st.integers(1, 6))
def test_micro_batches_hold_everything_once(forget: int, retain: int, size: int) -> None:
    step: dict[str, Any] = {"forget": side("f", forget), "retain": side("r", retain)}
    pieces = micro_batches(step, size)
    for name, whole in step.items():
        assert Counter(key for piece in pieces for key in keys(piece[name])) == Counter(keys(whole))
        assert all(len(piece[name]) <= size for piece in pieces)


def test_questions_on_one_text_stay_together() -> None:
    notes = [tuple(range(10 * note, 10 * note + 5)) for note in range(6)]
    sequences = [
        TokenSequence(f"{note}-{question}", (*text, 70 + question, 80), 5, 6)
        for question in range(3)
        for note, text in enumerate(notes)
    ]
    plan = Plan({"train": sequences}, batch_size=6, epochs=2, seed=0)
    for number in range(plan.steps):
        step = plan.step(number)["train"]
        assert len({sequence.ids[:5] for sequence in step}) == 2, "a step of 6 holds all questions on 2 notes"
        for piece in micro_batches({"train": step}, 3):
            assert len({sequence.ids[:5] for sequence in piece["train"]}) == 1
    epochs = [[s.key for n in range(3) for s in plan.step(3 * e + n)["train"]] for e in range(2)]
    assert sorted(epochs[0]) == sorted(epochs[1]) == sorted(sequence.key for sequence in sequences)
    assert epochs[0] != epochs[1]


@given(sizes, st.integers(1, 6), st.integers(1, 5))
def test_every_process_has_its_share(count: int, size: int, processes: int) -> None:
    pieces = micro_batches({"train": side("t", count)}, size, processes)
    assert all(piece["train"] for piece in pieces), "no piece is empty"
    assert all(len(piece["train"]) <= size for piece in pieces)
    shares = [share(pieces, rank, processes) for rank in range(processes)]
    places = sorted(place for each in shares for place, _ in each)
    assert places == list(range(len(pieces)))
    assert all(shares) == (count >= processes)
    assert max(map(len, shares)) - min(map(len, shares)) <= 1


notes = st.lists(st.tuples(st.integers(1, 30), st.lists(st.integers(2, 20), min_size=1, max_size=4)), max_size=6)


@given(notes, notes, st.integers(1, 5), st.integers(4, 60), st.integers(1, 3))
def test_micro_batches_keep_a_budget_of_tokens(
    forget: list[Any], retain: list[Any], size: int, budget: int, processes: int
) -> None:
    step = {
        name: [
            TokenSequence(f"{note}-{place}", (note,) * shared + (99,) * own, shared, shared + 1)
            for note, (shared, questions) in enumerate(drawn_notes)
            for place, own in enumerate(questions)
        ]
        for name, drawn_notes in (("forget", forget), ("retain", retain))
    }
    count = min(map(len, step.values()))
    step = {name: sequences[:count] for name, sequences in step.items()}
    if not count:
        return
    pieces = micro_batches(step, size, processes, tokens=budget)
    assert len(pieces) % processes == 0 or len(pieces) == count
    for name, sequences in step.items():
        assert Counter(key for piece in pieces for key in keys(piece[name])) == Counter(keys(sequences))
        for piece in pieces:
            assert 1 <= len(piece[name]) <= size
            assert len(piece[name]) == 1 or tokens_once(piece[name]) <= budget
    most = largest(step, processes, tokens=budget)
    assert micro_batches(step, most, processes, tokens=budget) == micro_batches(
        step, 1000, processes, tokens=budget
    )


def test_a_budget_of_tokens_by_hand() -> None:
    """A note of 10 tokens stands once with its questions of 2; what fits in no rest begins a piece."""
    first = [TokenSequence(f"a{n}", (1,) * 10 + (n, 9), 10, 11) for n in range(3)]
    other = [TokenSequence(f"b{n}", (2,) * 13 + (n, 9), 13, 14) for n in range(2)]
    long = TokenSequence("long", (3,) * 50, 0, 1)
    pieces = [keys(piece["train"]) for piece in micro_batches({"train": [*first, *other, long]}, 8, tokens=17)]
    assert pieces == [["a0", "a1", "a2"], ["b0", "b1"], ["long"]]
    pieces = [keys(piece["train"]) for piece in micro_batches({"train": first}, 8, tokens=15)]
    assert pieces == [["a2"], ["a0", "a1"]]


def test_shares_are_of_like_length() -> None:
    pieces = [f"piece of {length} tokens" for length in (1, 2, 3, 4, 5, 6, 7, 8)]
    lengths = [[place + 1 for place, _ in share(pieces, rank, 2)] for rank in (0, 1)]
    assert lengths == [[1, 4, 5, 8], [2, 3, 6, 7]]
    assert sum(lengths[0]) == sum(lengths[1])


def test_a_text_is_not_cut_where_a_piece_may_end_between_two() -> None:
    sequences = [
        TokenSequence(f"{note}-{question}", (*range(10 * note, 10 * note + 5), 70 + question, 80), 5, 6)
        for note, questions in enumerate((3, 4, 1))
        for question in range(questions)
    ]
    pieces = micro_batches({"train": sequences}, 5, 2)
    assert [len(piece["train"]) for piece in pieces] == [3, 5]
    notes = [{sequence.ids[:5] for sequence in piece["train"]} for piece in pieces]
    assert not notes[0] & notes[1]


lengths = st.lists(st.integers(2, 40), min_size=1, max_size=30)


def of_lengths(counts: list[int]) -> list[TokenSequence]:
    return [TokenSequence(f"n{place}", (place,) * count, 0, 1) for place, count in enumerate(counts)]


@given(lengths)
def test_rows_hold_everything_once_and_waste_little(counts: list[int]) -> None:
    packed = rows(of_lengths(counts), 40)
    assert sorted(place for row in packed for place in row) == list(range(len(counts)))
    filled = [sum(counts[place] for place in row) for row in packed]
    assert max(filled) <= 40
    # Two rows that fit into one would have been one.
    assert len(packed) == 1 or sum(sorted(filled)[:2]) > 40


@given(lengths, st.integers(1, 4), st.integers(1, 3), st.integers(1, 4))
def test_a_plan_of_rows_counts_rows(counts: list[int], batch: int, size: int, processes: int) -> None:
    """AMNESIA, Appendix D and Table 6: a batch of 64 is 64 rows of 2,048 tokens, two in a pass of a device."""
    sequences = of_lengths(counts)
    plan = Plan({"train": sequences}, batch, 2, seed=0, row=40)
    packed = rows(sequences, 40)
    assert plan.steps == 2 * -(-len(packed) // batch)
    steps = [plan.step(number)["train"] for number in range(plan.steps)]
    for epoch in (steps[: plan.steps_an_epoch], steps[plan.steps_an_epoch :]):
        assert Counter(key for step in epoch for key in keys(step)) == Counter(keys(sequences))
    for step in steps:
        pieces = [piece["train"] for piece in micro_batches({"train": step}, size, processes, row=40)]
        assert Counter(key for piece in pieces for key in keys(piece)) == Counter(keys(step))
        assert all(sum(len(sequence.ids) for sequence in piece) <= size * 40 for piece in pieces)
        assert len(pieces) % processes == 0 or len(pieces) == len(step)
        whole = -(-min(batch, len(packed)) // size)
        assert len(pieces) <= -(-whole // processes) * processes


def test_a_plan_may_stop_within_its_last_epoch() -> None:
    """Five sequences in steps of two: three steps an epoch, and four steps are one epoch and a third of another."""
    plan = Plan({"train": side("t", 5)}, 2, 2, 0, stop=4)
    assert plan.steps == 4
    assert [step for step in range(1, 5) if plan.ends_epoch(step)] == [3, 4]


def test_chunks_are_forgotten_one_after_the_other(make_sequences: Any) -> None:
    sides = {"forget": make_sequences(7, "f"), "retain": make_sequences(5, "r")}
    plan = Plan(sides, 2, 3, 0, chunks=3, ratios={"retain": 4})
    stream = [key for number in range(plan.steps) for key in keys(plan.step(number)["forget"])]
    assert Counter(stream) == dict.fromkeys(keys(sides["forget"]), 3)
    # Each chunk for its three epochs, before the next one begins.
    chunks, start = [], 0
    for size in (3, 2, 2):
        own = stream[start : start + 3 * size]
        laps = [own[lap * size : (lap + 1) * size] for lap in range(3)]
        assert len({frozenset(lap) for lap in laps}) == 1
        chunks.append(set(own))
        start += 3 * size
    assert sum(map(len, chunks)) == 7
    # Four retained ones for each, drawn around and around.
    retained = [plan.step(number)["retain"] for number in range(plan.steps)]
    counts = [len(plan.step(number)["forget"]) for number in range(plan.steps)]
    assert [len(own) for own in retained] == [4 * count for count in counts]
    spread = Counter(key for own in retained for key in keys(own))
    assert max(spread.values()) - min(spread.values()) <= 1
    assert plan.draws("retain")[1] == 4 * 21
    pieces = micro_batches(plan.step(0), 4)
    assert [(len(piece["forget"]), len(piece["retain"])) for piece in pieces] == [(1, 4), (1, 4)]
    whole = Plan(sides, 2, 3, 0)
    assert [keys(Plan(sides, 2, 3, 0, chunks=1).step(n)["forget"]) for n in range(4)] == [
        keys(whole.step(n)["forget"]) for n in range(4)
    ]
