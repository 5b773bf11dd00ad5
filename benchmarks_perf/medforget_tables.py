"""Tables of docs/results.md from the report of the sweep on drawn X-rays.

medunlearn sweep examples/medforget-tiny-vision.yaml
python benchmarks_perf/medforget_tables.py runs/medforget-tiny-vision/report/report.json
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
from page_tables import markdown, replace_table

PAGE = "results.md"
TASKS = ("rouge_l", "classification", "cloze")
SETS = {"forget": "forget", "rephrased": "rephrase", "retain": "retain", "retain minus forget": "gap"}
"""Head of a column -> its set in the report."""


def models_of(report: dict[str, Any]) -> list[dict[str, str]]:
    """Role, method and split of every model: the target once, then the others by level."""
    numbers = pd.DataFrame(report["numbers"])
    levels = [scope["split"] for scope in report["splits"] if scope["level"] != "flat"]
    everyone = [("target", ""), ("retrained", ""), *(("unlearned", method) for method in report["methods"])]
    there = set(zip(numbers["role"], numbers["method"], numbers["split"], strict=True))
    return [
        {"role": role, "method": method, "split": split}
        for role, method in everyone
        for split in (levels[:1] if role == "target" else levels)
        if (role, method, split) in there
    ]


def level_rows(report: dict[str, Any]) -> Iterator[dict[str, str]]:
    """ROUGE-L, classification and cloze in percent, on every set and on private forget questions."""
    numbers, private = (pd.DataFrame(report[name]) for name in ("numbers", "private"))
    for model in models_of(report):
        row = {"model": model["method"] or model["role"], "split": model["split"]}
        row |= {head: percents(numbers, model, group) for head, group in SETS.items()}
        yield row | {"private, forget": percents(private, model, "forget")}


def percents(table: pd.DataFrame, model: dict[str, str], group: str) -> str:
    """The three tasks of a model on a set, ``98 / 100 / 95``; a dash where one was not measured."""
    if table.empty:
        return "–"
    rows = table[(table[[*model]] == pd.Series(model)).all(axis=1) & (table["group"] == group)]
    values = rows.set_index("measure")["value"].reindex(TASKS)
    return " / ".join("–" if pd.isna(value) else f"{100 * value:.0f}" for value in values)


def image_rows(report: dict[str, Any]) -> Iterator[dict[str, str]]:
    """The target's numbers on the first level's forget set by kind of question, and its loss with other images."""
    table = pd.DataFrame(report["image_control"])
    target = models_of(report)[0]
    rows = table[(table[[*target]] == pd.Series(target)).all(axis=1)]
    for kind, of_kind in rows.groupby("kind", sort=False):
        row = {"questions": str(kind), "true image": f"{100 * of_kind['true'].iloc[0]:.0f}"}
        for image in ("swapped", "blank"):
            (loss,) = of_kind[of_kind["image"] == image].to_dict("records")
            row[f"minus {image}"] = points(loss["difference"], loss["low"], loss["high"])
        yield row


def points(value: float, low: float | None, high: float | None) -> str:
    """A difference in percent points with its interval."""
    shown = f"{100 * value:+.0f}"
    return shown if pd.isna(low) or pd.isna(high) else f"{shown} ({100 * low:+.0f} to {100 * high:+.0f})"


def verdict_rows(report: dict[str, Any]) -> Iterator[dict[str, str]]:
    """A row a finding, with its cases counted."""
    for finding in report["findings"]:
        counts = ", ".join(f"{number} {verdict}" for verdict, number in finding["counts"].items() if number)
        yield {"finding": finding["claim"], "verdict": finding["verdict"], "cases": counts or "none"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("report", type=Path, help="report.json of the sweep")
    report = json.loads(parser.parse_args().report.read_text(encoding="utf-8"))
    for name, rows in (("levels", level_rows), ("findings", verdict_rows), ("images", image_rows)):
        replace_table(PAGE, f"drawn X-rays: {name}", markdown([*rows(report)]))


if __name__ == "__main__":
    main()
