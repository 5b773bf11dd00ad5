"""Suppressed is not forgotten: facts ranked first, by unlearning method, beside the retrained model.

python benchmarks_perf/suppressed.py OUT [--read]

Invented hospitals of 100 patients, a tenth of whom are forgotten, at random or of one disease; two seeds, every
method with the tiny model's settings. Prints the table of docs/suppressed.md and writes its figure. About two hours
of CPU; a second call goes on. --read makes table and figure of what is there.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

SPLITS, SEEDS = ("random_10", "cardiovascular_10"), (0, 1)
METHODS = ("counterfactual", "altpo", "npo", "kl_min", "graddiff", "simnpo", "rmu")
FIGURE = Path(__file__).parents[1] / "docs" / "suppressed.svg"


def run(out: Path, split: str, seed: int) -> None:
    """One experiment; its report is kept beside those of the other splits."""
    values = {
        "name": f"{split}, seed {seed}",
        "out": str(out / f"seed-{seed}"),
        "seed": seed,
        "benchmark": {"builder": "amnesia", "synthetic": 100, "note_length": "short", "seed": seed},
        "split": split,
        "train": {"model": "tiny"},
        "retrain": True,
        "unlearn": {"methods": list(METHODS)},
        "evaluate": {"folds": ["train", "holdout"], "ranked": 10, "alternatives": 49},
    }
    out.mkdir(parents=True, exist_ok=True)
    path = out / f"{split}-{seed}.yaml"
    path.write_text(yaml.safe_dump(values))
    subprocess.run([sys.executable, "-m", "medunlearn", "run", str(path)], check=True)
    shutil.copy(out / f"seed-{seed}" / "report" / "report.json", out / f"{split}-{seed}.json")


def ranked_first(out: Path, split: str, seed: int) -> Iterator[tuple[str, str, float]]:
    """Model, side, and the share of its train-fold facts that rank first."""
    for path in (out / f"seed-{seed}").glob("*/evaluations/*/facts.parquet"):
        info = json.loads((path.parents[2] / "run.json").read_text())
        asked = json.loads((path.parent / "run.json").read_text())["config"]["split"]
        if asked != split or info["config"].get("without") not in (None, split):
            continue
        facts = pd.read_parquet(path).dropna(subset=["p"])
        for side, own in facts[facts["fold"] == "train"].groupby("side"):
            yield info["label"], str(side), float((own["rank"] == 1).mean())


def gathered(out: Path) -> pd.DataFrame:
    """One row a model: means over splits and seeds, and how many of them."""
    rows: list[dict[str, Any]] = []
    for split in SPLITS:
        for seed in SEEDS:
            headline = json.loads((out / f"{split}-{seed}.json").read_text())["headline"]
            rows += [
                {"model": model, "what": "distance", "split": split, "value": value or 0.0}
                for model, value in headline["distance_to_retrained"].items()
            ]
            rows += [
                {"model": model, "what": side, "split": split, "value": value}
                for model, side, value in ranked_first(out, split, seed)
            ]
    table = pd.DataFrame(rows).pivot_table(index="model", columns=["what", "split"], values="value", aggfunc="mean")
    return table.sort_values(("forget", SPLITS[0]))


def figure(table: pd.DataFrame) -> str:
    """Bars of the forgotten patients' facts ranked first, a row a model; the retrained model's level is a line."""
    left, width, height = 130, 420, 22
    level = float(table.loc["retrained", ("forget", SPLITS[0])])
    parts = []
    for place, (model, row) in enumerate(table.iterrows()):
        share, top = float(row["forget", SPLITS[0]]), 34 + place * height
        colour = "#4a7" if model == "retrained" else "#c54" if model == "target" else "#57a"
        parts += [
            f'<text x="{left - 8}" y="{top + 12}" text-anchor="end">{model}</text>',
            f'<rect x="{left}" y="{top}" width="{width * share:.0f}" height="15" fill="{colour}"/>',
            f'<text x="{left + width * share + 6:.0f}" y="{top + 12}">{share:.2f}</text>',
        ]
    bottom = 34 + len(table) * height
    x = left + width * level
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {left + width + 50} {bottom + 8}" role="img" '
            'font-family="sans-serif" font-size="12">',
            f'<rect width="{left + width + 50}" height="{bottom + 8}" fill="#fff"/>',
            '<text x="8" y="18" font-size="13">Share of forgotten facts that rank first among 50</text>',
            *parts,
            f'<line x1="{x:.0f}" x2="{x:.0f}" y1="30" y2="{bottom}" stroke="#333" stroke-dasharray="4 3"/>',
            "</svg>\n",
        ]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--read", action="store_true", help="run nothing")
    chosen = parser.parse_args()
    for seed in SEEDS if not chosen.read else ():
        for split in SPLITS:
            run(chosen.out, split, seed)
    table = gathered(chosen.out)
    print("| model | " + " | ".join(f"{what}, {split}" for what, split in table.columns) + " |")
    print("|---" * (1 + len(table.columns)) + "|")
    for model, row in table.iterrows():
        print(f"| {model} | " + " | ".join(f"{value:.3f}" for value in row) + " |")
    FIGURE.write_text(figure(table))


if __name__ == "__main__":
    main()
