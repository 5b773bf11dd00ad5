"""Suppressed is not forgotten: facts ranked first, by unlearning method, beside the retrained model.

python benchmarks_perf/suppressed.py OUT [--table methods|shares] [--read]

Invented hospitals of 100 patients; two seeds, every method with the tiny model's settings. In the table `methods` a
tenth of the patients is forgotten, at random or of one disease; in `shares` a twentieth and a quarter, at random.
Writes the table of docs/suppressed.md, and the figure of `methods`. About half an hour of CPU a table; a second
call goes on. --read makes table and figure of what is there.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import yaml
from page_tables import markdown, replace_table, with_interval

from medunlearn.statistics.intervals import SubjectMean, interval, mean_over_subjects

SEEDS = (0, 1)
TABLES = {"methods": ("random_10", "cardiovascular_10"), "shares": ("random_05", "random_25")}
"""Table of docs/suppressed.md -> its splits; the figure shows the first one of ``methods``."""
METHODS = ("counterfactual", "altpo", "npo", "kl_min", "graddiff", "simnpo", "rmu")
ABLATED = "ablation"
"""Begins the names of runs of ablation.py, which stand beside those of this script."""
FIGURE = Path(__file__).parents[1] / "docs" / "suppressed.svg"


def settings_of(out: Path, split: str, seed: int) -> dict[str, Any]:
    """The experiment on one split of one hospital."""
    return {
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


def run(out: Path, split: str, seed: int) -> None:
    """One experiment; its report is kept beside those of the other splits."""
    out.mkdir(parents=True, exist_ok=True)
    path = out / f"{split}-{seed}.yaml"
    path.write_text(yaml.safe_dump(settings_of(out, split, seed)))
    subprocess.run([sys.executable, "-m", "medunlearn", "run", str(path)], check=True)
    shutil.copy(out / f"seed-{seed}" / "report" / "report.json", out / f"{split}-{seed}.json")


def ranked_facts(out: Path, split: str, seed: int) -> Iterator[tuple[str, pd.DataFrame]]:
    """Each model of a hospital with its facts that were ranked on a split."""
    for path in (out / f"seed-{seed}").glob("*/evaluations/*/facts.parquet"):
        info = json.loads((path.parents[2] / "run.json").read_text())
        asked = json.loads((path.parent / "run.json").read_text())["config"]["split"]
        if (
            asked == split
            and info["config"].get("without") in (None, split)
            and not path.parts[-4].startswith(ABLATED)
        ):
            yield info["label"], pd.read_parquet(path).assign(seed=seed)


def first_over_subjects(facts: pd.DataFrame, side: str) -> SubjectMean | None:
    """Share of a side's train-fold facts that rank first, over patients of all hospitals in the table."""
    own = facts[facts["side"].eq(side) & facts["fold"].eq("train") & facts["p"].notna()]
    keys = ["seed", "subject"] if "seed" in own else ["subject"]
    by_subject = (own["rank"] == 1).groupby([own[key] for key in keys])
    sums, counts = (np.asarray(each, dtype=np.float64) for each in (by_subject.sum(), by_subject.count()))
    return mean_over_subjects(sums, counts, (0.0, 1.0))


def first_with_interval(facts: pd.DataFrame, side: str) -> str:
    """``0.15 (0.08–0.25)``: the share and its 95% interval over patients."""
    mean = first_over_subjects(facts, side)
    return "–" if mean is None else with_interval(mean.value, *interval(mean))


@dataclass(frozen=True)
class Measured:
    """One model on one split.

    Attributes:
        distance: mean over seeds of the distance to the retrained model.
        facts: ranked ones, of all seeds.
    """

    distance: float
    facts: pd.DataFrame


def gathered(out: Path, splits: Sequence[str]) -> dict[str, dict[str, Measured]]:
    """Model -> split -> what was measured; from the fewest facts ranked first on the first split to the most."""
    models: dict[str, dict[str, Measured]] = defaultdict(dict)
    for split in splits:
        reports = [json.loads((out / f"{split}-{seed}.json").read_text())["headline"] for seed in SEEDS]
        tables: dict[str, list[pd.DataFrame]] = defaultdict(list)
        for seed in SEEDS:
            for model, facts in ranked_facts(out, split, seed):
                tables[model].append(facts)
        for model, own in tables.items():
            distances = [report["distance_to_retrained"].get(model) or 0.0 for report in reports]
            models[model][split] = Measured(sum(distances) / len(distances), pd.concat(own, ignore_index=True))
    return dict(sorted(models.items(), key=lambda entry: level_of(entry[1][splits[0]])))


def level_of(measured: Measured) -> float:
    """Share of the forgotten patients' facts that rank first."""
    mean = first_over_subjects(measured.facts, "forget")
    return 0.0 if mean is None else mean.value


def rows(models: Mapping[str, Mapping[str, Measured]], splits: Sequence[str]) -> list[dict[str, str]]:
    """One row a model; distance, forget and retain on each split."""
    return [
        {
            "model": model,
            **{f"distance, {split}": f"{measured[split].distance:.3f}" for split in splits},
            **{
                f"{side}, {split}": first_with_interval(measured[split].facts, side)
                for side in ("forget", "retain")
                for split in splits
            },
        }
        for model, measured in models.items()
    ]


def figure(levels: Mapping[str, float]) -> str:
    """Bars of the forgotten patients' facts ranked first, a row a model; the retrained model's level is a line."""
    left, width, height = 130, 420, 22
    level = levels["retrained"]
    parts = []
    for place, (model, share) in enumerate(levels.items()):
        top = 34 + place * height
        colour = "#4a7" if model == "retrained" else "#c54" if model == "target" else "#57a"
        parts += [
            f'<text x="{left - 8}" y="{top + 12}" text-anchor="end">{model}</text>',
            f'<rect x="{left}" y="{top}" width="{width * share:.0f}" height="15" fill="{colour}"/>',
            f'<text x="{left + width * share + 6:.0f}" y="{top + 12}">{share:.2f}</text>',
        ]
    bottom = 34 + len(levels) * height
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
    parser.add_argument("--table", choices=[*TABLES], default="methods")
    parser.add_argument("--read", action="store_true", help="run nothing")
    arguments = parser.parse_args()
    splits = TABLES[arguments.table]
    for seed in SEEDS if not arguments.read else ():
        for split in splits:
            run(arguments.out, split, seed)
    models = gathered(arguments.out, splits)
    table = markdown(rows(models, splits))
    replace_table("suppressed.md", arguments.table, table)
    print(table)
    if arguments.table == "methods":
        levels = {model: level_of(measured[splits[0]]) for model, measured in models.items()}
        FIGURE.write_text(figure(levels))


if __name__ == "__main__":
    main()
