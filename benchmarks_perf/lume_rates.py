"""A learning rate for each of LUME's methods on the tiny model: the same small search for all, on another subset.

Each method is tried at the rates of one grid, from the smallest up, and gets the first at which it forgets: where
the mean of regurgitation and knowledge of all tasks on the forget set, after ten epochs, is below a tenth of the
target's; the largest where none does. Nothing on the retain set is looked at, so that what methods do to it is not
chosen. The subset has another seed than the example's, which is thus not tuned on itself.

    python benchmarks_perf/lume_rates.py --released ../shared/data/lume --out runs/lume-rates
"""

from __future__ import annotations

import argparse
from pathlib import Path

import pandas as pd

from medunlearn.config import EvaluateSettings, check
from medunlearn.papers.lume.build import SPLIT
from medunlearn.probes.evaluate import evaluate_one
from medunlearn.results.evaluated import Evaluated
from medunlearn.study.benchmark_builds import build
from medunlearn.study.presets import train_settings, unlearn_settings
from medunlearn.study.train import train
from medunlearn.study.unlearn import unlearn

METHODS = ("ga", "graddiff", "kl_min", "npo", "ngdiff")
RATES = (1e-4, 3e-4, 1e-3)
FORGOTTEN = 0.1
SEED = 0


def on(side: str, evaluated: Evaluated) -> float:
    """Mean of regurgitation and knowledge of all tasks."""
    table = evaluated.groups
    rows: pd.DataFrame = table[(table["level"] == "task") & (table["fold"] == "train") & (table["side"] == side)]
    return float(rows["value"].astype("float64").mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--released", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--methods", nargs="+", default=METHODS)
    parser.add_argument("--rates", nargs="+", type=float, default=RATES)
    chosen = parser.parse_args()
    settings = {"released": chosen.released, "documents_per_task": 10, "nonmember_documents": 20, "seed": SEED}
    benchmark = build("lume", settings)
    asking = check(EvaluateSettings, {"split": SPLIT, "folds": ["train"], "replicates": 2})
    shared = {"preset": "lume-tiny", "seed": SEED}
    target = train(benchmark, train_settings({"model": "tiny", **shared}), chosen.out / "target")
    before = evaluate_one(target, benchmark, asking)
    print(f"target    forget {on('forget', before):.3f} retain {on('retain', before):.3f}", flush=True)
    for method in chosen.methods:
        for rate in sorted(chosen.rates):
            values = {"method": method, "split": SPLIT, "lr": rate, "evaluate_every": 0, **shared}
            run = unlearn(target, benchmark, unlearn_settings(values, tiny=True), chosen.out / f"{method}-{rate:g}")
            after = evaluate_one(run, benchmark, asking)
            forgot = on("forget", after) < FORGOTTEN * on("forget", before)
            print(
                f"{method:9} lr {rate:<7g} forget {on('forget', after):.3f} retain {on('retain', after):.3f}"
                + (" chosen" if forgot else ""),
                flush=True,
            )
            if forgot:
                break


if __name__ == "__main__":
    main()
