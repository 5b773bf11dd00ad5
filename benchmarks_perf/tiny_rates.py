"""A learning rate for each method on the tiny model: the same small search for all, on a hospital of its own.

Each method is run at each rate of one grid, and the rate is kept whose model lies closest to the retrained
model in the plane of utility on the retain set (mean ROUGE-L recall of the train fold) and forgetting on the
forget set (1 minus the same). The hospital's seed differs from the demo's, so the demo is not tuned on itself.

    python benchmarks_perf/tiny_rates.py --out runs/tiny-rates
"""

from __future__ import annotations

import argparse
import math
from pathlib import Path

from medunlearn.config import EvaluateSettings, check
from medunlearn.probes.evaluate import evaluate_one
from medunlearn.results.evaluated import Evaluated
from medunlearn.study.benchmark_builds import build
from medunlearn.study.presets import train_settings, unlearn_settings
from medunlearn.study.train import train
from medunlearn.study.unlearn import unlearn

METHODS = ("ga", "graddiff", "kl_min", "npo", "simnpo", "rmu")
RATES = (1e-4, 3e-4, 6e-4, 1e-3, 3e-3, 1e-2)
SPLIT = "random_10"


def place(evaluated: Evaluated) -> tuple[float, float]:
    """ROUGE-L recall on the retain set and on the forget set, train fold, all kinds."""
    table = evaluated.summary.query("metric == 'rouge_l' and fold == 'train' and kind == 'all'").set_index("side")
    return float(table.loc["retain", "value"]), float(table.loc["forget", "value"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--patients", type=int, default=60)
    parser.add_argument("--methods", nargs="+", default=METHODS)
    parser.add_argument("--rates", nargs="+", type=float, default=RATES)
    chosen = parser.parse_args()
    benchmark = build("amnesia", {"synthetic": chosen.patients, "seed": 1})
    asking = check(EvaluateSettings, {"split": SPLIT, "subjects": 20, "folds": ["train"]})
    target = train(benchmark, train_settings({"model": "tiny", "seed": 1}), chosen.out / "target")
    retrained = train(
        benchmark, train_settings({"model": "tiny", "seed": 1, "without": SPLIT}), chosen.out / "retrained"
    )
    goal = place(evaluate_one(retrained, benchmark, asking))
    print(f"target    {place(evaluate_one(target, benchmark, asking))}\nretrained {goal}")
    for method in chosen.methods:
        for rate in chosen.rates:
            settings = unlearn_settings({"method": method, "split": SPLIT, "lr": rate}, tiny=True)
            run = unlearn(target, benchmark, settings, chosen.out / f"{method}-{rate:g}")
            retain, forget = place(evaluate_one(run, benchmark, asking))
            distance = math.dist((retain, forget), goal)
            print(
                f"{method:9} lr {rate:<7g} retain {retain:.3f} forget {forget:.3f} distance {distance:.3f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
