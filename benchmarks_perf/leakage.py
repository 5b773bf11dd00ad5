"""The leakage score on many responses: ours against the plain nested loop, in one process; the best turn counts.

Times are processor time of one thread. Keywords are those of an invented hospital, or of a benchmark of your own;
responses say the reference answer and a part of the note again with words left out, so that keywords come up in
some and not in others. Both ways are checked to give the same scores before anything is timed.

    python benchmarks_perf/leakage.py                             an invented hospital of 400 patients
    python benchmarks_perf/leakage.py --benchmark BENCH           a benchmark's notes, questions and answers
    python benchmarks_perf/leakage.py --responses 50000           as many responses
"""

from __future__ import annotations

import argparse
import re
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from medunlearn.data.benchmark import Benchmark
from medunlearn.metrics import Item, Keywords, Tools, get_metric
from medunlearn.metrics.leakage.extractors import Offline, ends_phrase
from medunlearn.metrics.leakage.keyword_selection import seeds_of
from medunlearn.metrics.leakage.keywords import of_records
from medunlearn.metrics.leakage.phrases import terms
from medunlearn.seeds import generator
from medunlearn.study.benchmark_builds import build

Weighted = Sequence[tuple[str, float]]


def nested_loop(response: str, keywords: Weighted) -> float:
    """Algorithm 1, step 4, to the letter: cut both into tokens and try every place for every keyword."""
    said = re.findall(r"[^\W_]+", response.lower())
    found = total = 0.0
    for phrase, weight in keywords:
        wanted = re.findall(r"[^\W_]+", phrase.lower())
        match = False
        for place in range(len(said) - len(wanted) + 1):
            same = True
            for step, word in enumerate(wanted):
                if said[place + step] != word:
                    same = False
                    break
            if same:
                match = True
                break
        found += weight * match
        total += weight
    return found / total


def seconds(work: Callable[[], Any], turns: int) -> float:
    best = float("inf")
    for _ in range(turns):
        started = time.process_time()
        work()
        best = min(best, time.process_time() - started)
    return best


def extraction(benchmark: Benchmark, turns: int) -> dict[str, Weighted]:
    """Find all keywords, print the rate, and return them by question."""
    asked: dict[str, list[Any]] = {}
    for question in benchmark.questions:
        if terms().category(benchmark.record[question.record_id].groups["disease"]) is not None:
            asked.setdefault(question.record_id, []).append(question)
    pairs = [(benchmark.record[record], questions) for record, questions in asked.items()]
    found: dict[str, Any] = {}

    def work() -> None:
        ends_phrase.cache_clear()
        seeds_of.cache_clear()
        found.update(of_records(pairs, Offline()))

    taken = seconds(work, turns)
    texts = len(pairs) + 2 * sum(len(questions) for _, questions in pairs)
    words = sum(len(record.text.split()) for record, _ in pairs)
    words += sum(len(f"{q.question} {q.answer}".split()) for _, questions in pairs for q in questions)
    print(
        f"extraction (offline): {texts} texts, {words} words in {taken:.2f} s: {words / taken:,.0f} words/s, "
        f"{len(pairs) / taken:,.0f} notes with their questions/s"
    )
    return {name: [(one.phrase, one.weight) for one in own] for name, own in found.items()}


def answers(benchmark: Benchmark, keywords: dict[str, Weighted], count: int) -> list[Item]:
    """Responses to questions with keywords: the answer and a part of the note, with some words left out."""
    questions = [question for question in benchmark.questions if question.question_id in keywords]
    draw = generator("leakage", count)
    items = []
    for number in range(count):
        question = questions[number % len(questions)]
        note = benchmark.record[question.record_id].text.split()
        start = int(draw.integers(0, max(1, len(note) - 30)))
        words = [*question.answer.split(), *note[start : start + 30]]
        kept = draw.random(len(words)) < 0.9
        said = " ".join(word for word, keep in zip(words, kept.tolist(), strict=True) if keep)
        weighted = Keywords(tuple(keywords[question.question_id]))
        items.append(
            Item(f"{number}", "forget", question.question, question.answer, response=said, keywords=weighted)
        )
    return items


def scoring(items: Sequence[Item], turns: int) -> None:
    metric = get_metric("ls")

    def ours() -> list[float | None]:
        return [score.value for score in metric.score(items, Tools())]

    def plain() -> list[float]:
        return [nested_loop(item.response or "", item.keywords.weighted) for item in items if item.keywords]

    first, second = ours(), plain()
    off = max(abs((a or 0.0) - b) for a, b in zip(first, second, strict=True))
    if off > 1e-12:
        raise SystemExit(f"the scores differ by {off}")
    words = sum(len((item.response or "").split()) for item in items) / len(items)
    keywords = sum(len(item.keywords.weighted) for item in items if item.keywords) / len(items)
    fast, slow = seconds(ours, turns), seconds(plain, turns)
    print(
        f"scoring: {len(items)} responses of {words:.0f} words, {keywords:.1f} keywords each, mean LS "
        f"{sum(second) / len(second):.3f}; ours {fast:.2f} s ({len(items) / fast:,.0f}/s), plain nested loop "
        f"{slow:.2f} s ({len(items) / slow:,.0f}/s): {slow / fast:.1f}x"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--benchmark", type=Path, help="a benchmark's folder; left out, a hospital is invented")
    parser.add_argument("--responses", type=int, default=50_000)
    parser.add_argument("--turns", type=int, default=3)
    given = parser.parse_args()
    settings = {"synthetic": 400, "note_length": "long"}
    benchmark = Benchmark.load(given.benchmark) if given.benchmark else build("amnesia", settings)
    keywords = extraction(benchmark, given.turns)
    scoring(answers(benchmark, keywords, given.responses), given.turns)


if __name__ == "__main__":
    main()
