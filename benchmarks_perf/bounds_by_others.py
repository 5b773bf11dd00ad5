"""How narrow the bounds of a deletion request are, by the number of unseen patients and of facts.

    python benchmarks_perf/bounds_by_others.py OUT [--holdout]

One tiny model, one request with 40 unseen patients (invented ones, or real notes with --holdout), measured once.
Smaller numbers are drawn from these 40 (200 draws each). Written: ``bounds.csv``, one row a check and number:
spread among unseen patients, half width of the bound (high - excess), and how often the bound is below the margin.
"""

from __future__ import annotations

import random
import statistics
import sys
from pathlib import Path

import pandas as pd

import medunlearn as mu
from medunlearn import api
from medunlearn.config import ForgetSettings, check
from medunlearn.request.battery_checks import LEAST_SPREAD
from medunlearn.request.case.signing_keys import make_key
from medunlearn.request.measuring_models import ModelMeter
from medunlearn.request.request_benchmarks import RequestBenchmarks
from medunlearn.results.runs import Run
from medunlearn.statistics.others import compare_with_others
from medunlearn.synthetic.note_table import write_note_table

PATIENTS, UNSEEN, DRAWS, MARGIN = 40, 40, 200, 0.25
NUMBERS = (3, 5, 8, 12, 20, 40)
TINY = {"tiny_width": 64, "tiny_layers": 2, "epochs": 60, "batch_size": 8, "lr": 3e-3, "precision": "fp32"}


def main(out: Path, *, real: bool) -> None:
    """Train, carry one request out, and read its standings again with fewer unseen patients."""
    notes = write_note_table(out / "notes.csv", PATIENTS, seed=0, studies=0)
    unseen = write_note_table(out / "unseen.csv", UNSEEN, seed=1, studies=0)
    key = out / "owner" / "signing.key"
    if not key.exists():
        make_key(key)
    bench = mu.build.notes(notes, out=out / "bench", quiet=True)
    run = api.train(bench, model="tiny", train_on="records", pretrain_epochs=0, out=out / "run", quiet=True, **TINY)
    rows = []
    for facts in (4, 8, 16, 32):
        settings = {
            "patient": "100003", "key": key, "others": UNSEEN, "facts": facts, "battery": (), "margin": MARGIN,
            "method": "counterfactual", "unlearn": {"epochs": 30, "precision": "fp32"},
            "evaluate": {"max_new_tokens": 16}, "build": {"data_use": "open"},
            **({"holdout": unseen} if real else {}),
        }  # fmt: skip
        done = api.forget(run, notes, out=out / f"case-{facts}", quiet=True, **settings)
        made = RequestBenchmarks.load(done.work)
        meter = ModelMeter(made, check(ForgetSettings, settings), "cpu", True)
        (after,) = done.work.glob("trials/*")
        rows += _rows(meter.verify(Run.open(after)).standings, made, facts)
    table = pd.DataFrame(rows)
    table.to_csv(out / "bounds.csv", index=False)
    print(table.groupby(["facts", "others"])[["spread", "half width", "below"]].mean().round(3).to_string())


def _rows(standing, made, facts):
    rng, unseen = random.Random(0), sorted(made.unseen)
    for name in standing.ways:
        mine, theirs = standing.of(name, made.patients), standing.of(name, unseen)
        for number in NUMBERS:
            draws = [rng.sample(theirs, min(number, len(theirs))) for _ in range(DRAWS)]
            gaps = [compare_with_others(mine, one, least_spread=LEAST_SPREAD * MARGIN) for one in draws]
            gaps = [gap for gap in gaps if gap is not None]
            if gaps:
                yield {
                    "facts": facts, "check": name, "others": number, "excess": gaps[0].value,
                    "spread": statistics.stdev(theirs),
                    "half width": statistics.mean(gap.high - gap.value for gap in gaps),
                    "below": statistics.mean(gap.high - gap.value < MARGIN for gap in gaps),
                }  # fmt: skip


if __name__ == "__main__":
    main(Path(sys.argv[1]), real="--holdout" in sys.argv)
