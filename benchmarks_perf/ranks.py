"""Ranks of facts: branches of one prompt against a padded batch of whole sequences for each fact.

python benchmarks_perf/ranks.py
"""

from __future__ import annotations

import argparse
import math
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from medunlearn.data.alternatives import pool_of
from medunlearn.data.benchmark import Benchmark
from medunlearn.data.fact_ranks import facts_with_alternatives, texts_to_rate
from medunlearn.data.records import Question
from medunlearn.data.responses import ResponseStore
from medunlearn.generation import fact_ranking
from medunlearn.generation.fact_ranking import FactRanker, RankSequences
from medunlearn.models.sequences import Rendering, question_sequence
from medunlearn.models.tiny import build_tiny
from medunlearn.papers.amnesia.build import build
from medunlearn.papers.amnesia.settings import AmnesiaSettings


@torch.no_grad()
def separate(
    language_model: Any, questions: Sequence[Question], benchmark: Benchmark, count: int, rendering: Rendering
) -> Mapping[tuple[str, int], int]:
    """Rank of each fact, from the log-likelihood of whole answers under whole prompts."""
    pool, ranks, tokenizer = pool_of(benchmark, count), {}, language_model.tokenizer
    for question in questions:
        record = benchmark.record[question.record_id]
        for place, (_, alternatives) in enumerate(facts_with_alternatives(question, benchmark.record, pool)):
            if not alternatives.texts:
                continue
            texts = texts_to_rate(question.answer, alternatives)
            times = Counter(alternatives.texts)
            rows = [
                question_sequence(replace(question, answer=text), record, tokenizer, rendering) for text in texts
            ]
            longest = max(len(row.ids) for row in rows)
            ids = torch.zeros(len(rows), longest, dtype=torch.long)
            seen = torch.zeros_like(ids)
            for number, row in enumerate(rows):
                ids[number, : len(row.ids)] = torch.tensor(row.ids)
                seen[number, : len(row.ids)] = 1
            shown = {"input_ids": ids.to(language_model.device), "attention_mask": seen.to(language_model.device)}
            logits = language_model.model(**shown, use_cache=False).logits
            said = logits.float().log_softmax(-1)
            likelihoods = []
            for number, row in enumerate(rows):
                at = said[number, row.scored_from - 1 : len(row.ids) - 1]
                targets = torch.tensor(row.ids[row.scored_from :], device=said.device)
                likelihoods.append(math.fsum(at.gather(1, targets[:, None]).flatten().tolist()))
            true, *others = likelihoods
            ranks[question.question_id, place] = 1 + sum(
                n for other, n in zip(others, times.values(), strict=True) if other >= true
            )
    return ranks


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--questions", type=int, default=24)
    parser.add_argument("--alternatives", type=int, default=49)
    parser.add_argument("--note", default="long", choices=("short", "medium", "long"))
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    benchmark = build(AmnesiaSettings(synthetic=20, note_length=chosen.note))
    questions = benchmark.questions[: chosen.questions]
    language_model = build_tiny([record.text for record in benchmark.records], vocabulary=2048)
    pool = pool_of(benchmark, chosen.alternatives)
    print("| context | facts | branches, CPU ms a fact | whole sequences | ratio | to the end | equal ranks |")
    print("|---|---|---|---|---|---|---|")
    for context in ("closed_book", "note"):
        rendering = Rendering("plain", context)  # type: ignore[arg-type]
        seconds = {}
        found = {}
        facts_of = {q.question_id: facts_with_alternatives(q, benchmark.record, pool) for q in questions}
        sequences = RankSequences(language_model.tokenizer, benchmark.record, rendering)
        for after in (fact_ranking.AFTER, 10_000):
            fact_ranking.AFTER = after
            with tempfile.TemporaryDirectory() as folder:
                ranker = FactRanker(language_model, sequences, ResponseStore(Path(folder), {}))
                started = time.process_time()
                found[after] = ranker.of_questions(questions, facts_of)
                seconds[after] = time.process_time() - started
        fact_ranking.AFTER, whole = min(seconds), max(seconds)
        started = time.process_time()
        alone = separate(language_model, questions, benchmark, chosen.alternatives, rendering)
        plain = time.process_time() - started
        facts = len(alone)
        same = sum(found[whole][name][place].rank == rank for (name, place), rank in alone.items())
        ours, to_end = (1000 * seconds[after] / facts for after in (fact_ranking.AFTER, whole))
        print(
            f"| {context} | {facts} | {ours:.1f} | {1000 * plain / facts:.1f} | {1000 * plain / facts / ours:.1f} "
            f"| {to_end:.1f} | {same} of {facts} |"
        )


if __name__ == "__main__":
    main()
