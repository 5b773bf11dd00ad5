"""Ranks of facts about patients whom a model never saw: are their p-values uniform?

python benchmarks_perf/calibration.py OUT [--seeds 0,1,2] [--patients 16,24,240] [--read]

First a reader of letters (benchmarks_perf/ward.py) ranks the facts of notes that it never saw, in invented wards
whose values are as uneven as real ones; the table is written into docs/results.md. Three minutes of CPU.

Then, for each seed, an invented hospital of 100 patients and a tiny model that was trained without every second one
of them. All facts of these are ranked: in answers, in records in place, and whole notes among versions. Writes the
table of docs/results.md. Three minutes of CPU a seed; a second call goes on. --read makes this table of what is
there, and nothing else.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
from page_tables import markdown, replace_table
from ward import Reader, ward

from medunlearn.config import EvaluateSettings, check
from medunlearn.data.alternatives import AlternativePool, Alternatives
from medunlearn.data.benchmark import Benchmark
from medunlearn.data.fact_ranks import FactRank, p_value
from medunlearn.data.facts import Fact, facts_in
from medunlearn.probes.evaluate import evaluate_one
from medunlearn.results.fact_table import ALPHA, FILE, calibration_by_kind
from medunlearn.study.benchmark_builds import build
from medunlearn.study.presets import train_settings
from medunlearn.study.train import train

PATIENTS = 100
NOTES = 240
"""Notes of all wards of one size together."""
AFTER_LETTERS = 4
"""Letters behind a value that count beside its own."""
PLACES = {"closed_book": "answers", "record": "records", "note": "whole notes"}


def hospital(seed: int, patients: int = PATIENTS) -> tuple[Benchmark, str]:
    """A benchmark, and the request that leaves every second patient out."""
    benchmark = build("amnesia", {"synthetic": patients, "note_length": "short", "seed": seed})
    subjects = sorted({benchmark.subject(record.record_id) for record in benchmark.records})
    return benchmark, f"{benchmark.subject_level}={','.join(subjects[::2])}"


def run(out: Path, seed: int, *, patients: int = PATIENTS, training: dict[str, Any] | None = None) -> None:
    """Train one model and rank the facts of both halves; its table is kept in ``out``.

    Args:
        training: settings of the training besides the tiny model's.
    """
    benchmark, unseen = hospital(seed, patients)
    # As many epochs as a target has: the half of the patients in half of the steps.
    # No token is one patient's, so that all facts can be ranked, whole notes too.
    tiny = {"model": "tiny", "tiny_tokenizer": "common"}
    values = {**tiny, "without": unseen, "retrained_length": "epochs", "seed": seed, **(training or {})}
    model = train(benchmark, train_settings(values), out / f"without-half-{seed}")
    asked = {
        "split": unseen,
        "metrics": ["ranked_first", "note_rank"],
        "ranked": None,
        "facts": None,
        "rank_in": "both",
        "allow_broken": True,
    }
    evaluated = evaluate_one(model, benchmark, check(EvaluateSettings, asked))
    evaluated.facts.to_parquet(out / f"{seed}-{FILE}")


def rows(facts: pd.DataFrame, seed: int) -> Iterator[dict[str, Any]]:
    """Calibration of each kind of fact in each place, of the patients that were left out.

    Facts that count in no p are tested apart from those that do.
    """
    unseen = facts[facts["side"] == "forget"]
    places = unseen["context"].mask(unseen["fact"] == "note", "note").map(PLACES)
    inexact = unseen["inexact"].notna()
    none = pd.array([None] * len(unseen), dtype="string")
    for place in PLACES.values():
        for alternatives, part in (("exact", ~inexact), ("inexact", inexact)):
            own = unseen.assign(inexact=none)[(places == place) & part]
            for row in calibration_by_kind(own).to_dict("records"):
                yield {
                    "seed": str(seed),
                    "in": place,
                    "fact": row["fact"],
                    "alternatives": alternatives,
                    "facts": str(row["facts"]),
                    "patients": str(row["subjects"]),
                    **{name: f"{row[name]:.3f}" for name in ("first", "due", "low", "distance", "p")},
                }


def reader_rows(patients: int, seeds: Iterable[int]) -> Iterator[dict[str, str]]:
    """Facts of every second note of wards, ranked by a reader of the others, by kind of value."""
    ranks: dict[str, list[FactRank]] = defaultdict(list)
    for seed in seeds:
        records = ward(patients, seed)
        pool, reader = AlternativePool(records, [], "patient", 59), Reader(record.text for record in records[::2])
        for record in records[1::2]:
            for fact in facts_in(record):
                ranks[_kind(record.text, fact)].append(
                    _rank(reader, record.text, fact, pool.in_record(record, fact))
                )
    for kind, own in ranks.items():
        counted = [rank for rank in own if p_value(rank) is not None and rank.inexact is None]
        low = sum((p_value(rank) or 1.0) <= ALPHA + 1e-9 for rank in counted)
        yield {
            "patients": str(patients),
            "fact": kind,
            "facts": str(len(own)),
            "in p": str(len(counted)),
            "p ≤ 0.05": f"{low / len(counted):.3f}" if counted else "–",
            "by share": str(sum(rank.rank is not None and rank.reason is not None for rank in own)),
            "inexact": str(sum(rank.inexact is not None and rank.reason is None for rank in own)),
            "no rank": str(sum(rank.rank is None for rank in own)),
        }


def _kind(text: str, fact: Fact) -> str:
    """Type of an identifier, or the word before a number."""
    before = text[: fact.start].replace(" was", "").replace(" since", "").split()
    return (fact.type or before[-1].lower()).replace("_", " ")


def _rank(reader: Reader, text: str, fact: Fact, alternatives: Alternatives) -> FactRank:
    if not alternatives.texts:
        return FactRank(fact.kind, None, 0, alternatives.reason)
    behind, likelihoods = len(text) - fact.end, dict[str, float]()
    for version in {text, *alternatives.texts}:
        likelihoods[version] = reader.log_prob(version, fact.start, len(version) - behind + AFTER_LETTERS)
    ahead = sum(likelihoods[version] >= likelihoods[text] for version in alternatives.texts)
    of = 1 + len(alternatives.texts) + alternatives.equal
    return FactRank(fact.kind, 1 + ahead, of, alternatives.reason, alternatives.equal, alternatives.inexact)


def numbers(text: str) -> list[int]:
    """Numbers between commas."""
    return [int(number) for number in text.split(",")]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--seeds", type=numbers, default=[0, 1, 2])
    parser.add_argument("--patients", type=numbers, default=[16, 24, 240], help="of the wards that are read")
    parser.add_argument("--read", action="store_true", help="run nothing")
    chosen = parser.parse_args()
    if not chosen.read:
        wards = {patients: max(1, NOTES // patients) for patients in chosen.patients}
        of_reader = [row for patients, count in wards.items() for row in reader_rows(patients, range(count))]
        replace_table("results.md", "reader", markdown(of_reader))
        print(markdown(of_reader))
    for seed in chosen.seeds if not chosen.read else ():
        run(chosen.out, seed)
    table = [row for seed in chosen.seeds for row in rows(pd.read_parquet(chosen.out / f"{seed}-{FILE}"), seed)]
    table.sort(key=lambda row: ([*PLACES.values()].index(row["in"]), row["fact"], row["alternatives"], row["seed"]))
    text = markdown(table)
    replace_table("results.md", "calibration", text)
    print(text)


if __name__ == "__main__":
    main()
