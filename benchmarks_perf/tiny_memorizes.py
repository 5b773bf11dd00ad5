"""How long the tiny model takes to memorize an invented hospital, closed-book, on this machine.

Prints seconds, tokens per second, peak memory, and ROUGE-L recall on the train fold before any unlearning.

    python benchmarks_perf/tiny_memorizes.py --patients 100 --out runs/tiny-memorizes
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch

from medunlearn.config import EvaluateSettings, check
from medunlearn.probes.evaluate import evaluate_one
from medunlearn.study.benchmark_builds import build
from medunlearn.study.presets import train_settings
from medunlearn.study.train import train

SPLIT = "random_10"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--patients", type=int, default=100)
    parser.add_argument("--out", type=Path, required=True)
    chosen = parser.parse_args()
    benchmark = build("amnesia", {"synthetic": chosen.patients})
    run = train(benchmark, train_settings({"model": "tiny"}), chosen.out)
    history, results = run.history(), run.info["results"]
    seconds, tokens = history["seconds"].sum(), results["tokens"]
    size = results["parameters"] / 1e6
    print(f"{chosen.patients} patients, {size:.2f} M parameters, {torch.get_num_threads()} threads")
    print(f"{len(history)} steps, {tokens:,} tokens in {seconds:.0f} s: {tokens / seconds:,.0f} a second")
    print(f"peak memory {run.info['peak_memory_bytes'] / 2**30:.2f} GiB")
    settings = check(EvaluateSettings, {"split": SPLIT, "folds": ["train"], "metrics": ["rouge_l", "em"]})
    table = evaluate_one(run, benchmark, settings).summary.query("kind == 'all'")
    for row in table[table["measure"].isin(["rouge_l", "em"])].itertuples():
        print(f"{row.side:7} {row.measure:8} {row.value:.4f} on {row.n_scored} questions")


if __name__ == "__main__":
    main()
