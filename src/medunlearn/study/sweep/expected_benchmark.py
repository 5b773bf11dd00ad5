"""Stand-in for a sweep's benchmark that is not built yet: invented patients with notes of the expected length."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from medunlearn.config import ExpectedSettings, SweepSettings, check
from medunlearn.data.benchmark import Benchmark
from medunlearn.data.records import Record
from medunlearn.paper import find_paper
from medunlearn.study.benchmark_builds import build_benchmark, needs_folder

LONG = 20
"""One note in so many is as long as the longest."""


@contextmanager
def expected_benchmark(settings: SweepSettings) -> Iterator[tuple[Benchmark, float]]:
    """A small benchmark from the sweep's builder, and the ratio of the real number of patients to its own.

    Images that a builder draws stay on disk for the length of the context.

    Raises:
        InputError: the builder cannot invent patients.
    """
    expected = check(ExpectedSettings, settings.expected)
    paper = find_paper(str(settings.benchmark.get("builder")))
    values = {"synthetic": expected.synthetic}
    with TemporaryDirectory() as folder:
        out = Path(folder) / "benchmark" if needs_folder({"builder": paper.name, **values}) else None
        benchmark = build_benchmark(paper, values, out)
        subjects = {benchmark.subject(record.record_id) for record in benchmark.records if record.fold == "train"}
        yield benchmark, expected.patients / len(subjects)


def lengthen(
    benchmark: Benchmark, expected: ExpectedSettings, count: Callable[[Sequence[str]], list[int]]
) -> Benchmark:
    """The benchmark with its notes repeated up to the expected mean length.

    Args:
        count: number of tokens of each text.
    """
    if expected.note_tokens is None:
        return benchmark
    records, mean = benchmark.records, expected.note_tokens
    longest = max(expected.longest_note or mean, mean)
    several = -(-len(records) // LONG) if longest > mean else 0
    rest = max((mean * len(records) - longest * several) / max(len(records) - several, 1), mean / 2)

    def lengthened(place: int, record: Record, tokens: int) -> Record:
        target_length = longest if several and place % LONG == 0 else rest
        letters = round(len(record.text) * target_length / max(tokens, 1))
        text = f"{record.text} " * (letters // len(record.text) + 1)
        return replace(record, text=text[:letters].strip())

    counts = zip(records, count([record.text for record in records]), strict=True)
    return replace(benchmark, records=tuple(lengthened(place, *entry) for place, entry in enumerate(counts)))
