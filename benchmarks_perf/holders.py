"""Whose strings a vocabulary holds, and which files hold a patient: on a large vocabulary and many records.

The owners of a sample of strings are also found by a search of every text, which must give the same; its time is
told for the whole vocabulary. Files are those of a benchmark, and tables of answers that quote its notes.

    python benchmarks_perf/holders.py --patients 4000 --vocabulary 150000
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from pathlib import Path

import pandas as pd
from tokenizers import Tokenizer, models

from medunlearn.models.vocabulary import Vocabulary, vocabulary_owners
from medunlearn.papers.amnesia.build import build
from medunlearn.papers.amnesia.settings import AmnesiaSettings
from medunlearn.request.holders.file_search import find_holders
from medunlearn.seeds import generator


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--patients", type=int, default=4000)
    parser.add_argument("--vocabulary", type=int, default=150_000)
    parser.add_argument("--sample", type=int, default=200, help="strings that are searched for in every text")
    parser.add_argument("--copies", type=int, default=10, help="tables of answers")
    chosen = parser.parse_args()
    benchmark = build(AmnesiaSettings(synthetic=chosen.patients))
    draw, words = generator("vocabulary", 0), [word for record in benchmark.records for word in record.text.split()]
    strings = dict.fromkeys(words)
    while len(strings) < chosen.vocabulary:
        word = words[int(draw.integers(len(words)))]
        start = int(draw.integers(len(word)))
        strings[word[start:] + (word if len(strings) % 2 else str(len(strings)))] = None
    vocabulary = Vocabulary.of(
        Tokenizer(models.WordLevel({text: n for n, text in enumerate(strings)}, unk_token=""))
    )
    forgotten = sorted({record.groups["patient"] for record in benchmark.records})[: chosen.patients // 10]
    started = time.perf_counter()
    owners = vocabulary_owners(vocabulary, benchmark, forgotten)
    seconds = time.perf_counter() - started
    texts: dict[str, list[str]] = {}
    for record in benchmark.records:
        texts.setdefault(record.groups["patient"], []).append(record.text)
        texts[record.groups["patient"]] += [identifier.value for identifier in record.identifiers]
    for question in benchmark.questions:
        texts[benchmark.subject(question.record_id)] += [question.question, question.answer, *question.options]
    joined = {name: "\0".join(parts) for name, parts in texts.items()}
    sample = sorted(vocabulary.strings)[:: max(1, len(vocabulary.strings) // chosen.sample)]
    started = time.perf_counter()
    private = {text for text in sample if sum(text in owned for owned in joined.values()) == 1}
    naive = (time.perf_counter() - started) / len(sample) * len(vocabulary.strings)
    assert private == {owned.text for owned in owners.private} & set(sample)
    print(
        f"vocabulary: {len(vocabulary.strings):,} strings, {len(benchmark.records):,} records, "
        f"{len(owners.private):,} private: {seconds:.1f} s; by a search of every text {naive:,.0f} s"
    )
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder)
        benchmark.save(tree / "bench")
        answers = [
            {"item": q.question_id, "response": benchmark.record[q.record_id].text} for q in benchmark.questions
        ]
        for number in range(chosen.copies):
            pd.DataFrame(answers).to_parquet(tree / f"answers-{number}.parquet")
        pd.DataFrame(answers).to_csv(tree / "answers.csv")
        started = time.perf_counter()
        log = find_holders([tree], benchmark, f"patient={forgotten[0]}", quiet=True)
        seconds = time.perf_counter() - started
        size = sum(sum(len(row["response"]) for row in answers) for _ in range(chosen.copies + 1)) / 1e6
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"holders: {log.files} files, {size:,.0f} MB of text, {len(log.holders)} hold her: {seconds:.1f} s; "
        f"peak {peak:,.0f} MB"
    )


if __name__ == "__main__":
    main()
