"""A hospital small enough to be checked by eye: two institutions, four patients, two studies."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from medunlearn.data.benchmark import Benchmark
from medunlearn.data.hierarchy import Hierarchy
from medunlearn.data.records import Identifier, Question, Record
from medunlearn.data.splits import request

LEVELS = ("institution", "patient", "study", "section")


def _record(record_id: str, disease: str, *chain: str, **more: Any) -> Record:
    """A record of a node chain; a short chain makes a note without study and section."""
    groups = dict(zip(LEVELS, chain, strict=False)) | {"disease": disease}
    return Record(record_id, f"Text of {record_id}.", groups, **more)


@pytest.fixture
def records() -> tuple[Record, ...]:
    return (
        _record("n1", "Cancer", "north", "p1", identifiers=(Identifier("name", "n1"), Identifier("phone", "555"))),
        _record("s1a", "Cancer", "north", "p1", "s1", "s1a", image="images/s1.png"),
        _record("s1b", "Cancer", "north", "p1", "s1", "s1b"),
        _record("n2", "Diabetes", "north", "p2"),
        _record("n3", "Cancer", "south", "p3"),
        _record("s2a", "Cancer", "south", "p3", "s2", "s2a"),
        _record("n4", "Diabetes", "south", "p4", fold="holdout"),
    )


@pytest.fixture
def hierarchy(records: tuple[Record, ...]) -> Hierarchy:
    return Hierarchy(LEVELS, records)


@pytest.fixture
def questions() -> tuple[Question, ...]:
    return (
        Question("q1", "n1", "train", "factual", "patient", "Which drug?", "aspirin", provenance="template:drug"),
        Question("q2", "n1", "holdout", "reasoning", "patient", "Why?", "größer → worse"),
        Question("q3", "s1a", "train", "classification", "section", "Which?", "b", ("a", "b", "c"), 1),
        Question("q4", "n3", "train", "factual", "patient", "How long?", "five days"),
    )


@pytest.fixture
def benchmark(records: tuple[Record, ...], questions: tuple[Question, ...], hierarchy: Hierarchy) -> Benchmark:
    return Benchmark(
        name="four patients",
        builder="hand",
        levels=LEVELS,
        subject_level="patient",
        records=records,
        questions=questions,
        splits={
            "one": request(hierarchy, "one", "patient", ["p1"]),
            "house": request(hierarchy, "house", "institution", ["south"]),
        },
        seed=7,
        source="by hand",
        licence="apache-2.0",
        data_use="credentialed",
        notes={"invented": True, "counts": {"ü": 1}},
    )


@pytest.fixture
def changed(benchmark: Benchmark) -> Callable[..., Benchmark]:
    """The benchmark with some fields replaced."""
    return lambda **fields: replace(benchmark, **fields)
