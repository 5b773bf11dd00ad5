"""Metrics on many responses: ours against the plain way, in turns in one process; the best turn of each counts.

Times are processor time of one thread, so that other work on the machine weighs less, and wall-clock time where
processes are started. ROUGE-L is timed against the rouge-score package from text to score: cutting into words,
stemming and comparing, with our memory of stems emptied before each turn. The other plain ways are written here.
Each pair of ways is checked to give the same numbers before anything is timed.

    python benchmarks_perf/metrics.py                          text of an invented hospital
    python benchmarks_perf/metrics.py --text FILE [FILE ...]   any text
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from medunlearn.metrics import Item, get_metric, words
from medunlearn.metrics.item_scoring import score
from medunlearn.metrics.ngrams import shared_ngrams, token_entropies
from medunlearn.metrics.text import rouge_l_recalls, token_entropy
from medunlearn.metrics.verbatim import SharedRun, longest_run, runs_of_at_least
from medunlearn.seeds import generator
from medunlearn.study.benchmark_builds import build

Ids = Sequence[int]


def race(
    what: str, unit: int, plain: Callable[[], Any], ours: Callable[[], Any], turns: int, share: int = 1
) -> None:
    """Time both in turns and print the ratio; ``plain`` does one ``share``-th of what ``ours`` does."""
    slow = fast = float("inf")
    for _ in range(turns):
        slow = min(slow, seconds(plain) * share)
        fast = min(fast, seconds(ours))
    per = 1e6 / unit
    print(f"{what:58} plain {slow * per:10.1f} us  ours {fast * per:8.2f} us  {slow / fast:7.1f}x", flush=True)


def seconds(work: Callable[[], Any], clock: Callable[[], float] = time.process_time) -> float:
    started = clock()
    work()
    return clock() - started


def answers(text: list[str], pairs: int, shortest: int, longest: int) -> tuple[list[str], list[str]]:
    """References cut from the text, and responses that say them again with words left out, put in and replaced."""
    draw = generator("metrics", pairs, shortest)
    references, responses = [], []
    for _ in range(pairs):
        start = int(draw.integers(0, len(text) - longest))
        reference = text[start : start + int(draw.integers(shortest, longest + 1))]
        fate = draw.random(len(reference))
        other = draw.integers(0, len(text), len(reference))
        response = [
            text[at] if luck < 0.15 else word
            for word, luck, at in zip(reference, fate, other, strict=True)
            if luck < 0.85
        ]
        references.append(" ".join(reference))
        responses.append(" ".join(response))
    return responses, references


def rouge(text: list[str], pairs: int, shortest: int, longest: int, turns: int) -> None:
    from rouge_score.rouge_scorer import RougeScorer

    responses, references = answers(text, pairs, shortest, longest)
    theirs = RougeScorer(["rougeL"], use_stemmer=True)

    def plain() -> list[float]:
        both = zip(responses, references, strict=True)
        return [theirs.score(reference, response)["rougeL"].recall for response, reference in both]

    def cold() -> list[float | None]:
        words.porter_stem.cache_clear()
        return rouge_l_recalls(responses, references)

    off = max(abs(a - (b or 0.0)) for a, b in zip(plain(), cold(), strict=True))
    different = len({word for text in (*responses, *references) for word in words._WORD.findall(text.lower())})
    print(
        f"ROUGE-L, {pairs} pairs of {shortest}-{longest} words, {different} different; largest difference {off:.1e}"
    )
    if off > 1e-12:
        raise SystemExit("the scores differ")
    race("  from text to score, no stem known", pairs, plain, cold, turns)
    race("  the same with the stems known", pairs, plain, lambda: rouge_l_recalls(responses, references), turns)


def nested_loops(response: Ids, suffix: Ids, length: int) -> bool:
    """Whether a run of so many tokens stands in both: every pair of places, as far as the tokens agree."""
    for said in range(len(response) - length + 1):
        for true in range(len(suffix) - length + 1):
            run = 0
            while run < length and response[said + run] == suffix[true + run]:
                run += 1
            if run == length:
                return True
    return False


def longest_by_table(response: Ids, suffix: Ids) -> SharedRun:
    """The longest run that stands in both, by a table of all pairs of places, a row at a time."""
    best, above = SharedRun(0, 0, 0), [0] * (len(response) + 1)
    for true in range(len(suffix)):
        row = [0] * (len(response) + 1)
        for said in range(len(response)):
            if response[said] == suffix[true]:
                row[said + 1] = above[said] + 1
                if row[said + 1] > best.length:
                    best = SharedRun(row[said + 1], said + 1 - row[said + 1], true + 1 - row[said + 1])
        above = row
    return best


def tokens(pairs: int, length: int, vocabulary: int) -> tuple[list[Any], list[Any]]:
    """Ids drawn as often as words are in text (Zipf); one pair in twenty has 40 tokens in a row in common."""
    draw = generator("metrics", "tokens", length)
    often = 1.0 / np.arange(1, vocabulary + 1)
    both = draw.choice(vocabulary, (2, pairs, length), p=often / often.sum()).astype(np.int32)
    for pair in range(0, pairs, 20):
        both[1, pair, 300:340] = both[0, pair, 50:90]
    return [*both[0]], [*both[1]]


def runs(pairs: int, slow_pairs: int, turns: int) -> None:
    responses, suffixes = tokens(pairs, 500, 32_000)
    said, true = ([ids.tolist() for ids in side] for side in (responses, suffixes))
    some = list(zip(said, true, strict=True))[1 : slow_pairs + 1]
    check = list(zip(said, true, strict=True))[: 2 * slow_pairs]
    found = runs_of_at_least(responses, suffixes, [30])[:, 0].tolist()
    if [nested_loops(a, b, 30) for a, b in check] != found[: len(check)]:
        raise SystemExit("the runs differ")
    if [longest_by_table(a, b) for a, b in check] != [longest_run(a, b) for a, b in check]:
        raise SystemExit("the longest runs differ")
    print(f"Runs, pairs of 500 tokens; {sum(found)} of {pairs} pairs share 30 in a row")
    share = pairs // slow_pairs

    def plain() -> list[bool]:
        return [nested_loops(a, b, 30) for a, b in some]

    def table() -> list[SharedRun]:
        return [longest_by_table(a, b) for a, b in some]

    race(
        "  30 in a row, ids in arrays",
        pairs,
        plain,
        lambda: runs_of_at_least(responses, suffixes, [30]),
        turns,
        share,
    )
    race(
        "  30 and 50 in a row, ids in arrays",
        pairs,
        plain,
        lambda: runs_of_at_least(responses, suffixes),
        turns,
        share,
    )
    race("  30 in a row, ids in lists", pairs, plain, lambda: runs_of_at_least(said, true, [30]), turns, share)
    longest = [*zip(responses, suffixes, strict=True)]
    race("  the longest run", pairs, table, lambda: [longest_run(a, b) for a, b in longest], turns, share)
    for length in (1_000, 10_000, 100_000):
        one, other = (side[0] for side in tokens(1, length, 32_000))
        spent = seconds(partial(longest_run, one, other))
        print(f"  the longest run of {length:7,} tokens and as many: {spent:.4f} s")


def counts(texts: int, turns: int) -> None:
    arrays, others = tokens(texts, 500, 32_000)
    lists, other_lists = ([tuple(ids.tolist()) for ids in side] for side in (arrays, others))

    def slow_shared(n: int) -> list[int]:
        bags = [
            [Counter(zip(*(text[start:] for start in range(n)), strict=False)) for text in side]
            for side in (lists, other_lists)
        ]
        return [(a & b).total() for a, b in zip(*bags, strict=True)]

    print(f"Counts, {texts} responses of 500 tokens")
    slow = [token_entropy(text) for text in lists]
    if np.abs(token_entropies(arrays) - slow).max() > 1e-12 or any(
        slow_shared(n) != shared_ngrams(arrays, others, n).shared.tolist() for n in (1, 4)
    ):
        raise SystemExit("the counts differ")
    entropy = lambda: [token_entropy(text) for text in lists]  # noqa: E731
    race("  token entropy, ids in arrays", texts, entropy, lambda: token_entropies(arrays), turns)
    race("  token entropy, ids in tuples", texts, entropy, lambda: token_entropies(lists), turns)
    for n in (1, 2, 4):
        shared = lambda n=n: shared_ngrams(arrays, others, n)  # noqa: E731
        race(f"  shared {n}-grams", texts, lambda n=n: slow_shared(n), shared, turns)


def several_processes(text: list[str], count: int, processes: int) -> None:
    responses, references = answers(text, count, 20, 60)
    both = zip(responses, references, strict=True)
    items = [Item(str(n), "forget", "?", wanted, response=said) for n, (said, wanted) in enumerate(both)]
    metrics = [get_metric(name) for name in ("rouge_l", "token_f1", "exact_match")]
    print(f"Processes, {count} responses, three metrics")
    one = score(items, metrics, processes=1)
    for asked in (1, processes, None):
        spent = min(
            seconds(lambda asked=asked: score(items, metrics, processes=asked), time.perf_counter) for _ in range(2)
        )
        print(f"  processes={asked}: {spent:.2f} s")
    if not one.equals(score(items, metrics, processes=processes)):
        raise SystemExit("the tables differ")


def first_scores() -> None:
    """Seconds of a whole Python process that scores one answer."""
    ours = (
        "from medunlearn.metrics.text import rouge_l_recall\nrouge_l_recall('clear lungs', 'the lungs are clear')"
    )
    theirs = (
        "from rouge_score.rouge_scorer import RougeScorer\n"
        "RougeScorer(['rougeL'], use_stemmer=True).score('the lungs are clear', 'clear lungs')"
    )
    best = {}
    for _ in range(3):
        for name, code in (("nothing", "pass"), ("rouge-score", theirs), ("ours", ours)):
            spent = seconds(
                lambda code=code: subprocess.run([sys.executable, "-c", code], check=True), time.perf_counter
            )
            best[name] = min(spent, best.get(name, spent))
    print("A new Python process up to its first ROUGE-L: " + ", ".join(f"{n} {s:.2f} s" for n, s in best.items()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--text", type=Path, nargs="+", help="files whose words make the answers")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--pairs", type=int, default=5000, help="short answers")
    parser.add_argument("--probes", type=int, default=4000, help="responses of 500 tokens")
    parser.add_argument("--processes", type=int, default=2)
    chosen = parser.parse_args()
    if chosen.text:
        text = " ".join(path.read_text(encoding="utf-8") for path in chosen.text).split()
    else:
        text = " ".join(record.text for record in build("amnesia", {"synthetic": 300}).records).split()
    rouge(text, chosen.pairs, 20, 60, chosen.turns)
    rouge(text, max(1, chosen.pairs // 10), 400, 400, min(chosen.turns, 3))
    runs(chosen.probes, max(1, chosen.probes // 400), chosen.turns)
    counts(chosen.probes, chosen.turns)
    several_processes(text, 40 * chosen.pairs, chosen.processes)
    first_scores()


if __name__ == "__main__":
    main()
