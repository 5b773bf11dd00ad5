"""Splits are disjoint, cover, contain the smaller ones, and depend on nothing but names and seed."""

import random
import subprocess
import sys
from decimal import ROUND_HALF_UP, Decimal
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medunlearn.data.hierarchy import Hierarchy
from medunlearn.data.records import Record
from medunlearn.data.splits import Split, nested_splits, request, share, shuffled

PERCENTS = (5, 10, 15, 20, 25)


def patients(count: int) -> list[Record]:
    return [Record(f"n{number}", "text", {"patient": f"p{number}"}) for number in range(count)]


def flat(records: list[Record]) -> Hierarchy:
    return Hierarchy(("patient",), records)


@pytest.mark.parametrize(
    ("percent", "total", "size"),
    [(5, 100, 5), (5, 8820, 441), (25, 8820, 2205), (5, 10, 1), (5, 30, 2), (5, 29, 1), (5, 1, 1), (1, 49, 1),
     (15, 10, 2), (25, 10, 3), (100, 7, 7)],
)  # fmt: skip
def test_shares_are_rounded_half_up(percent: int, total: int, size: int) -> None:
    assert share(percent, total) == size


@given(st.integers(1, 100), st.integers(1, 100_000))
def test_shares_against_decimal_arithmetic(percent: int, total: int) -> None:
    exact = Decimal(percent) * total / 100
    assert share(percent, total) == max(1, int(exact.quantize(Decimal(1), ROUND_HALF_UP)))


@given(st.integers(2, 120), st.lists(st.integers(1, 99), min_size=1, max_size=6, unique=True), st.integers(0, 5))
def test_splits_are_disjoint_covering_and_nested(count: int, percents: list[int], seed: int) -> None:
    hierarchy = flat(patients(count))
    splits = nested_splits(hierarchy, "patient", percents, prefix="random", seed=seed)
    for split in splits.values():
        assert not set(split.forget) & set(split.retain)
        assert sorted(split.forget + split.retain) == sorted(hierarchy.nodes("patient"))
        assert split.forget
        assert split.retain
        assert len(split.forget) == share(int(split.name.split("_")[1]), count)
    assert list(splits) == [f"random_{p:02d}" for p in sorted(percents) if share(p, count) < count]
    for smaller, larger in pairwise(splits.values()):
        assert set(smaller.forget) <= set(larger.forget)


@given(st.integers(2, 60), st.integers(0, 2**40), st.randoms(use_true_random=False))
def test_the_order_of_the_records_does_not_matter(count: int, seed: int, rng: random.Random) -> None:
    records = patients(count)
    mixed = rng.sample(records, count)
    first, second = (
        nested_splits(flat(rows), "patient", PERCENTS, prefix="random", seed=seed) for rows in (records, mixed)
    )
    assert {name: set(split.forget) for name, split in first.items()} == {
        name: set(split.forget) for name, split in second.items()
    }


def test_another_seed_is_another_split() -> None:
    forget_sets = {
        nested_splits(flat(patients(200)), "patient", [25], prefix="r", seed=seed)["r_25"].forget
        for seed in range(20)
    }
    assert len(forget_sets) == 20


def test_every_patient_is_drawn_about_as_often() -> None:
    """Over 400 seeds each of 20 patients is in a 25% split 100 times, with a standard deviation of 8.7."""
    hierarchy = flat(patients(20))
    nodes = [
        node
        for seed in range(400)
        for node in nested_splits(hierarchy, "patient", [25], prefix="r", seed=seed)["r_25"].forget
    ]
    counts = [nodes.count(node) for node in hierarchy.nodes("patient")]
    assert sum(counts) == 2000
    assert all(abs(count - 100) < 5 * 8.7 for count in counts)


def test_splits_are_the_same_in_another_process() -> None:
    order = shuffled([f"p{n}" for n in range(30)], "splits", "patient", 0)
    code = (
        "from medunlearn.data.splits import shuffled;"
        "print(*shuffled([f'p{n}' for n in range(30)], 'splits', 'patient', 0))"
    )
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert process.stdout.split() == order
    assert sorted(order) == sorted(f"p{n}" for n in range(30))
    assert order != sorted(order)


def test_a_request_keeps_the_order_of_the_records() -> None:
    split = request(flat(patients(4)), "mine", "patient", ["p3", "p0"])
    assert split == Split("mine", "patient", ("p0", "p3"), ("p1", "p2"))
    assert split.side("p3") == "forget"
    assert split.side("p1") == "retain"
