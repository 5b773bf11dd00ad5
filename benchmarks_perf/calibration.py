"""Ranks of facts about patients whom a model never saw: are their p-values uniform?

python benchmarks_perf/calibration.py OUT [--seeds 0,1,2] [--read]

For each seed an invented hospital of 100 patients and a tiny model that was trained without every second one of
them. All facts of these are ranked: in answers, in records in place, and whole notes among versions. Writes the
table of docs/unlearn.md and prints it. Three minutes of CPU a seed; a second call goes on. --read makes the
table of what is there.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
from page_tables import markdown, replace_table

from medunlearn.config import EvaluateSettings, check
from medunlearn.data.benchmark import Benchmark
from medunlearn.probes.evaluate import evaluate_one
from medunlearn.results.fact_table import FILE, calibration_by_kind
from medunlearn.study.benchmark_builds import build
from medunlearn.study.presets import train_settings
from medunlearn.study.train import train

PATIENTS = 100
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
    values = {"model": "tiny", "without": unseen, "retrained_length": "epochs", "seed": seed, **(training or {})}
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
    """Calibration of each kind of fact in each place, of the patients that were left out."""
    unseen = facts[facts["side"] == "forget"]
    places = unseen["context"].mask(unseen["fact"] == "note", "note").map(PLACES)
    for place in PLACES.values():
        for row in calibration_by_kind(unseen[places == place]).to_dict("records"):
            yield {
                "seed": str(seed),
                "in": place,
                "fact": row["fact"],
                "facts": str(row["facts"]),
                "patients": str(row["subjects"]),
                "first": f"{row['first']:.3f}",
                "due": f"{row['due']:.3f}",
                "distance": f"{row['distance']:.3f}",
                "p": f"{row['p']:.3f}",
            }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--seeds", type=lambda text: [int(seed) for seed in text.split(",")], default=[0, 1, 2])
    parser.add_argument("--read", action="store_true", help="run nothing")
    chosen = parser.parse_args()
    for seed in chosen.seeds if not chosen.read else ():
        run(chosen.out, seed)
    table = [row for seed in chosen.seeds for row in rows(pd.read_parquet(chosen.out / f"{seed}-{FILE}"), seed)]
    table.sort(key=lambda row: ([*PLACES.values()].index(row["in"]), row["fact"], row["seed"]))
    text = markdown(table)
    replace_table("unlearn.md", "calibration", text)
    print(text)


if __name__ == "__main__":
    main()
