"""Halves of a subject's values: one value in one half, and something of each kind in both."""

from __future__ import annotations

import pytest

from medunlearn.data.benchmark import Benchmark
from medunlearn.data.facts import values_in
from medunlearn.data.value_halves import ValueHalves
from medunlearn.study.benchmark_builds import build


@pytest.fixture(scope="module")
def benchmark() -> Benchmark:
    return build("amnesia", {"synthetic": 30, "note_length": "short"})


def test_a_value_is_in_one_half_wherever_it_stands(benchmark: Benchmark) -> None:
    halves, values = ValueHalves(benchmark, 0), [f"{number} mg" for number in range(200)]
    choosing = [value for value in values if halves.keeps("p1", value, "choosing")]
    assert 70 < len(choosing) < 130
    assert [value for value in values if not halves.keeps("p1", value, "reporting")] == choosing
    assert all(halves.keeps("p1", value, "all") for value in values)
    assert all(halves.keeps("p1", f" {value.upper()} ", "choosing") for value in choosing)
    assert [value for value in values if halves.keeps("p2", value, "choosing")] != choosing


@pytest.mark.parametrize("seed", range(5))
def test_identifiers_and_numbers_are_halved_each_for_themselves(benchmark: Benchmark, seed: int) -> None:
    """Drawn one by one, a patient's few identifiers may all fall into one half."""
    halves = ValueHalves(benchmark, seed)
    for record in benchmark.records:
        facts = values_in(record.text, record.identifiers)
        values = {fact.of(record.text).casefold(): fact.kind == "number" for fact in facts}
        for numbers in (True, False):
            own = [value for value, is_number in values.items() if is_number == numbers]
            subject = benchmark.subject(record.record_id)
            reported = sum(halves.keeps(subject, value, "reporting") for value in own)
            chosen = sum(halves.keeps(subject, value, "choosing") for value in own)
            assert chosen + reported == len(own)
            assert 0 <= reported - chosen <= 1
