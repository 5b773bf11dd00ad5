"""Sizes and variety of LUME's documents, released and built anew: numbers of docs/results.md without a model.

Variety is the share of distinct word triples of a task's texts; the closest pair is the largest overlap (Jaccard)
of the word triples of two of its texts.

    python benchmarks_perf/lume_documents.py --released ../shared/data/lume
"""

from __future__ import annotations

import argparse
from collections import Counter, defaultdict
from collections.abc import Sequence
from itertools import chain
from pathlib import Path

import numpy as np

from medunlearn.data.benchmark import Benchmark
from medunlearn.data.duplicates import Shingle, shingles
from medunlearn.study.benchmark_builds import build


def variety(texts: Sequence[str]) -> tuple[float, float]:
    """Share of distinct word triples, and the overlap of the closest pair."""
    triples = [shingles(text) for text in texts]
    counts = Counter(chain.from_iterable(triples))
    sizes = np.array([len(own) for own in triples])
    places: dict[Shingle, list[int]] = defaultdict(list)
    closest = 0.0
    for number, own in enumerate(triples):
        before = chain.from_iterable(places[triple] for triple in own)
        shared = np.bincount(np.fromiter(before, dtype=np.int64), minlength=number)
        if number:
            closest = max(closest, float((shared / (len(own) + sizes[:number] - shared)).max()))
        for triple in own:
            places[triple].append(number)
    return len(counts) / counts.total(), closest


def report(name: str, benchmark: Benchmark) -> None:
    """Print a benchmark's sizes and the variety of each task."""
    print(f"{name}: {len(benchmark.records):,} documents, {len(benchmark.questions):,} questions and completions")
    texts: dict[str, list[str]] = {}
    for record in benchmark.records:
        texts.setdefault(record.groups["task"], []).append(record.text)
    for task, of_task in texts.items():
        distinct, closest = variety(of_task)
        print(f"  {task}: {len(of_task)} documents, {distinct:.0%} distinct triples, closest pair {closest:.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--released", type=Path, required=True)
    chosen = parser.parse_args()
    report("released", build("lume", {"released": chosen.released}))
    report("built anew", build("lume", {"new": True}))


if __name__ == "__main__":
    main()
