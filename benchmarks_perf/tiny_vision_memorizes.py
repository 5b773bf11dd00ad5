"""How well the tiny vision-language model memorizes an invented hospital with drawn X-rays, and how long it takes.

Prints seconds and, by kind of question, how many of the training questions it answers word for word, and how many
classifications by the most probable option. ``trainable=all`` among the settings trains the tower too.

    python benchmarks_perf/tiny_vision_memorizes.py --out runs/tiny-vision [epochs=40 lr=4e-3 trainable=all ...]
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch

from medunlearn import build
from medunlearn.config import EvaluateSettings, as_value, check
from medunlearn.probes.evaluate import evaluate_one
from medunlearn.study.presets import train_settings
from medunlearn.study.train import train

SPLIT = "patient_25"
METRICS = ["rouge_l", "exact_match", "option_accuracy"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--institutions", type=int, default=2)
    parser.add_argument("--patients", type=int, default=4)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("settings", nargs="*")
    chosen = parser.parse_args()
    size = {"institutions": chosen.institutions, "image_size": 64}
    benchmark = build.medforget(
        synthetic=chosen.institutions * chosen.patients, out=chosen.out / "bench", rephrase="none", **size
    )
    settings = train_settings(
        {
            "model": "tiny-vision",
            **{key: as_value(value) for key, _, value in (word.partition("=") for word in chosen.settings)},
        }
    )
    run = train(benchmark, settings, chosen.out / "target")
    history, results = run.history(), run.info["results"]
    seconds = history["seconds"].sum()
    print(f"{results['parameters'] / 1e6:.2f} M parameters, {torch.get_num_threads()} threads; {results['images']}")
    print(f"{len(history)} steps, {results['tokens']:,} tokens in {seconds:.0f} s")
    asked = check(EvaluateSettings, {"split": SPLIT, "folds": ["train"], "metrics": METRICS, "replicates": 100})
    table = evaluate_one(run, benchmark, asked).summary
    for row in table[(table["n_scored"] > 0) & table["measure"].isin(METRICS)].itertuples():
        print(f"{row.side:7} {row.kind:14} {row.measure:15} {row.value:.4f} on {row.n_scored} questions")


if __name__ == "__main__":
    main()
