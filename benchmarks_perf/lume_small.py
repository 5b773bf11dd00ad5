"""LUME's small experiment with several training seeds, and the tables of docs/results.md that come out of it.

Every seed runs examples/lume-small.yaml on the same documents, but for the evaluations after every epoch, which the
tables have no place for. What is done is not done again, so the script may be stopped and given again. It ends with
Markdown: the mean over the seeds, and in brackets the least and the greatest.

    python benchmarks_perf/lume_small.py --released ../shared/data/lume --out runs/lume-seeds
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd

from medunlearn.config import read_yaml
from medunlearn.reports.content import ReportContent
from medunlearn.study.experiment import plan, run_experiment

EXAMPLE = Path(__file__).parents[1] / "examples" / "lume-small.yaml"
TASKS = ("story", "personal_biography", "public_biography")
SIDES = ("forget", "retain")
UTILITY = "H(rouge_l, em, te)"
Numbers = Mapping[str, Mapping[str, Sequence[float]]]
"""Column -> model -> the number of each seed."""


def run(released: Path, out: Path, seed: int) -> ReportContent:
    """Run one seed, or the rest of it."""
    values = read_yaml(EXAMPLE)
    values |= {"seed": seed, "out": out / f"seed-{seed}"}
    values["benchmark"] |= {"released": released}
    values["unlearn"] |= {"evaluate_every": 0}
    experiment = plan(values)
    return run_experiment(
        experiment, quiet=True, say=lambda line: print(f"seed {seed}: {line}", flush=True)
    ).content


def by_model(contents: Sequence[ReportContent]) -> Numbers:
    """The numbers of every seed after the last epoch: over all tasks, and each task's regurgitation."""
    numbers: dict[str, dict[str, list[float]]] = {}

    def add(column: str, rows: pd.DataFrame) -> None:
        for model, values in rows.dropna(subset="value").groupby("model", sort=False)["value"]:
            numbers.setdefault(column, {}).setdefault(str(model), []).append(float(values.mean()))

    for content in contents:
        groups = content.groups[(content.groups["fold"] == "train") & (content.groups["level"] == "task")]
        for measure in ("regurgitation", "knowledge"):
            for side in SIDES:
                add(f"{measure}, {side}", groups[(groups["measure"] == measure) & (groups["side"] == side)])
        areas = content.membership.table
        public = (areas["group"] == "public_biography") & (areas["attack"] == "loss") & (areas["measure"] == "auc")
        add("membership AUC", areas[public])
        summary = pd.concat([model.summary.assign(model=model.label) for model in content.models])
        whole = (summary["fold"] == "train") & (summary["kind"] == "all") & (summary["measure"] == UTILITY)
        add("utility", summary[whole])
        for task in TASKS:
            for side in SIDES:
                here = (groups["node"] == task) & (groups["measure"] == "regurgitation") & (groups["side"] == side)
                add(f"{task.replace('_', ' ')}, {side}", groups[here])
    return numbers


def table(numbers: Numbers, columns: Sequence[str]) -> str:
    """Markdown: a row a model, mean over the seeds with the least and the greatest."""
    models = list(dict.fromkeys(model for column in columns for model in numbers[column]))
    head = ["| | " + " | ".join(columns) + " |", "|---" * (len(columns) + 1) + "|"]
    rows = (
        f"| {model} | " + " | ".join(shown(numbers[c].get(model, [])) for c in columns) + " |" for model in models
    )
    return "\n".join([*head, *rows])


def shown(values: Sequence[float]) -> str:
    """``0.52 (0.41-0.60)``."""
    return f"{sum(values) / len(values):.2f} ({min(values):.2f}-{max(values):.2f})" if values else "unscored"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--released", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", type=int, nargs="+", default=(0, 1, 2))
    chosen = parser.parse_args()
    contents = [run(chosen.released, chosen.out, seed) for seed in chosen.seeds]
    numbers = by_model(contents)
    whole = [f"{measure}, {side}" for measure in ("regurgitation", "knowledge") for side in SIDES]
    print(f"\n{len(contents)} seeds, after the last epoch: mean (least-greatest), tasks weighed alike.\n")
    print(table(numbers, [*whole, "membership AUC", "utility"]))
    print("\nRegurgitation by task:\n")
    print(table(numbers, [f"{task.replace('_', ' ')}, {side}" for task in TASKS for side in SIDES]))
    for seed, content in zip(chosen.seeds, contents, strict=True):
        reasons = content.reference.reasons if content.reference else ("no retrained model",)
        print(f"\nSeed {seed}, reference check: {' '.join(reasons) or 'passed'}")


if __name__ == "__main__":
    main()
