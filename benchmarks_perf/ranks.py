"""Ranks of facts: their speed beside whole sequences, and what a model with random weights ranks first.

python benchmarks_perf/ranks.py [--lume FOLDER]

The first table has branches of one prompt beside a padded batch of whole sequences for each fact, scored as far
behind the fact as evaluations do, and to the end of the answer. The second, with the released LUME files, has the
facts that a model with random weights ranks first, with tokenizers fitted on these documents, on words that two of
all documents share, and on other texts. Both are written into docs/results.md. Four minutes of CPU.
"""

from __future__ import annotations

import argparse
import math
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import torch
from page_tables import markdown, replace_table

from medunlearn.data.alternatives import pool_of
from medunlearn.data.fact_ranks import (
    OTHER_LENGTH,
    VOCABULARY,
    Facts,
    facts_with_alternatives,
    p_value,
    texts_to_rate,
)
from medunlearn.data.facts import FactKind
from medunlearn.data.records import Question
from medunlearn.data.responses import ResponseStore
from medunlearn.data.splits import shuffled
from medunlearn.generation import fact_ranking
from medunlearn.generation.fact_ranking import ANY_LENGTH, FactRanker, RankSequences
from medunlearn.generation.value_branches import answer_sequences
from medunlearn.models.sequences import Rendering, question_sequence
from medunlearn.models.tiny import build_tiny, common_words
from medunlearn.papers.amnesia.build import build
from medunlearn.papers.amnesia.settings import AmnesiaSettings
from medunlearn.study.benchmark_builds import build as build_benchmark


@torch.no_grad()
def separate(
    language_model: Any,
    questions: Sequence[Question],
    facts_of: Mapping[str, Facts],
    sequences: RankSequences,
    after: int,
) -> Mapping[tuple[str, int], int]:
    """Rank of each fact, from whole answers under whole prompts, scored to some tokens behind the fact."""
    ranks, rendering = {}, sequences.rendering
    for question in questions:
        record = sequences.records[question.record_id]
        for place, (fact, drawn) in enumerate(facts_of[question.question_id]):
            if not drawn.texts:
                continue
            alternatives = drawn
            if fact.kind not in ANY_LENGTH:
                alternatives = sequences.comparable(question.answer, fact, drawn)
            if not alternatives.texts:
                continue
            texts = texts_to_rate(question.answer, alternatives)
            how = (record, sequences.tokenizer, rendering)
            rows = [question_sequence(replace(question, answer=text), *how) for text in texts]
            scored = answer_sequences(question, texts, *how, after=after)
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
            for number, (row, branch) in enumerate(zip(rows, scored, strict=True)):
                end = len(branch.ids)
                at = said[number, branch.scored_from - 1 : end - 1]
                targets = torch.tensor(row.ids[branch.scored_from : end], device=said.device)
                likelihoods.append(math.fsum(at.gather(1, targets[:, None]).flatten().tolist()))
            true, *others = likelihoods
            times = Counter(alternatives.texts)
            ranks[question.question_id, place] = 1 + sum(
                n for other, n in zip(others, times.values(), strict=True) if other >= true
            )
    return ranks


def random_weights(folder: Path, documents: int) -> Iterator[dict[str, str]]:
    """What a model with random weights ranks first of LUME's facts, by tokenizer.

    Args:
        documents: number of documents whose facts are ranked, among the values of all.
    """
    benchmark = build_benchmark("lume", {"released": str(folder)})
    subjects = shuffled({benchmark.subject(r.record_id) for r in benchmark.records}, "random weights")
    chosen = {*subjects[:documents]}
    questions = [q for q in benchmark.questions if benchmark.subject(q.record_id) in chosen]
    owned: dict[str, list[str]] = defaultdict(list)
    for record in benchmark.records:
        owned[benchmark.subject(record.record_id)].append(record.text)
    for question in questions:
        owned[benchmark.subject(question.record_id)].append(
            f"Question: {question.question}\nAnswer: {question.answer}"
        )
    others = [record.text for record in build(AmnesiaSettings(synthetic=200)).records]
    mine = {subject: texts for subject, texts in owned.items() if subject in chosen}
    tokenizers = {
        "of these documents": [text for texts in mine.values() for text in texts],
        "of words that two documents share": [*common_words(owned)],
        "of other texts": others,
    }
    pool = pool_of(benchmark, 59)
    facts = {q.question_id: facts_with_alternatives(q, benchmark.record, pool) for q in questions}
    for name, texts in tokenizers.items():
        language_model = build_tiny(texts, vocabulary=4096)
        sequences = RankSequences(language_model.tokenizer, benchmark.record, Rendering("plain", "closed_book"))
        for length in ("any", "the same"):
            fact_ranking.ANY_LENGTH = ANY_LENGTH if length == "the same" else get_args(FactKind)
            with tempfile.TemporaryDirectory() as store:
                ranker = FactRanker(language_model, sequences, ResponseStore(Path(store), {}))
                ranks = [rank for own in ranker.of_questions(questions, facts).values() for rank in own]
            ranked = [rank for rank in ranks if p_value(rank) is not None]
            exact = [rank for rank in ranked if rank.inexact is None]
            yield {
                "tokenizer": name,
                "tokens of alternatives": length,
                "facts": str(len(ranked)),
                "first": _share(rank.rank == 1 for rank in ranked),
                "in p": str(len(exact)),
                "first ": _share(rank.rank == 1 for rank in exact),
                "chance": f"{sum((1 + rank.equal) / rank.of for rank in exact) / max(1, len(exact)):.3f}",
                "p ≤ 0.05": _share((p_value(rank) or 1.0) <= 0.05 for rank in exact),
                "refused by tokens": str(sum(rank.reason in (VOCABULARY, OTHER_LENGTH) for rank in ranks)),
            }


def _share(values: Iterable[bool]) -> str:
    own = [*values]
    return f"{sum(own) / len(own):.3f}" if own else "–"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--questions", type=int, default=24)
    parser.add_argument("--alternatives", type=int, default=49)
    parser.add_argument("--note", default="long", choices=("short", "medium", "long"))
    parser.add_argument("--lume", type=Path, help="folder of the released LUME files")
    parser.add_argument("--documents", type=int, default=80, help="of LUME, whose facts are ranked")
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    benchmark = build(AmnesiaSettings(synthetic=20, note_length=chosen.note))
    questions = benchmark.questions[: chosen.questions]
    language_model = build_tiny([record.text for record in benchmark.records], vocabulary=2048)
    pool = pool_of(benchmark, chosen.alternatives)
    table = []
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
        alone = separate(language_model, questions, facts_of, sequences, fact_ranking.AFTER)
        plain = time.process_time() - started
        facts = len(alone)
        same = [
            sum(found[shipped][name][place].rank == rank for (name, place), rank in alone.items())
            for shipped in (fact_ranking.AFTER, whole)
        ]
        ours, to_end = (1000 * seconds[after] / facts for after in (fact_ranking.AFTER, whole))
        row = {
            "context": context,
            "facts": str(facts),
            "branches, CPU ms a fact": f"{ours:.1f}",
            "whole sequences": f"{1000 * plain / facts:.1f}",
            "ratio": f"{1000 * plain / facts / ours:.1f}",
            "equal ranks": f"{same[0]} of {facts}",
            "branches to the end": f"{to_end:.1f}",
            "their equal ranks": f"{same[1]} of {facts}",
        }
        table.append(row)
    replace_table("results.md", "branches", markdown(table))
    print(markdown(table))
    if chosen.lume is not None:
        text = markdown([*random_weights(chosen.lume, chosen.documents)])
        replace_table("results.md", "random weights", text)
        print(text)


if __name__ == "__main__":
    main()
