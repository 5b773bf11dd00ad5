"""The leaderboard of docs/results.md: every method's row in the report of examples/leaderboard.yaml.

    python benchmarks_perf/leaderboard.py OUT [--quick] [--write]

OUT is the folder of the sweep. Runs the sweep there if it has no report (ten minutes of two cores with --quick;
given again, it goes on), prints the table, and with --write puts it into docs/results.md.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from page_tables import markdown, replace_table, with_interval

import medunlearn as mu
from medunlearn.data.storage import read_json

FILE = Path(__file__).parents[1] / "examples" / "leaderboard.yaml"


def reading(value: Mapping[str, Any] | None) -> str:
    return "–" if value is None or value["value"] is None else with_interval(*(value[key] for key in _PARTS))


_PARTS = ("value", "low", "high")


def row(standing: Mapping[str, Any], split: str) -> dict[str, str]:
    """A model's row; of several splits and seeds each part's own."""
    distance, seconds = standing["distance"], standing["cpu_seconds"]
    return {
        "model": standing["model"],
        "part": split,
        "distance": "–" if distance is None else f"{distance:.2f}",
        "utility": reading(standing["utility"]),
        "forgetting": reading(standing["forgetting"]),
        "ranked first": reading(standing["ranked_first"]),
        "what brings it back": standing["brought_back"] or "–",
        "CPU s": "–" if seconds is None else f"{seconds:.1f}",
    }


def place(standing: Mapping[str, Any]) -> tuple[bool, float]:
    """Order of the rows: target and retrained model, then methods by distance, those without one last."""
    distance = standing["distance"]
    return standing["role"] == "unlearned", math.inf if distance is None else distance


def rows(report: Path) -> list[dict[str, str]]:
    """The target, the retrained model, then the methods, nearest to the retrained model first."""
    parts: Mapping[str, Any] = read_json(report)["parts"]
    made = []
    for title, part in parts.items():
        ranked = sorted(part["standings"], key=place)
        made += [row(standing, title) for standing in ranked]
    if len(parts) == 1:
        made = [{name: text for name, text in own.items() if name != "part"} for own in made]
    return made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--quick", action="store_true", help="one seed and forty patients")
    parser.add_argument("--write", action="store_true", help="put the table into docs/results.md")
    chosen = parser.parse_args()
    report = chosen.out / "report" / "report.json"
    if not report.exists():
        mu.sweep(FILE, quick=chosen.quick, out=chosen.out, say=print)
    table = markdown(rows(report))
    print(table)
    if chosen.write:
        replace_table("results.md", "leaderboard", table)


if __name__ == "__main__":
    main()
