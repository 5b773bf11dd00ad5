"""The memorization paper's printed numbers, to compare with: never a target, never mixed with our own."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

import yaml

from medunlearn.reports.blocks import Cell, Table

_EXACT = ("Run of 30", "Run of 50")
_SOFT = ("ROUGE-L", "BLEU", "BERTScore", "BARTScore")
_NAMES = {
    "only_before": "memorized before only",
    "common": "common",
    "only_after": "memorized after only",
    "run_30": "run of 30",
    "run_50": "run of 50",
}


@cache
def published() -> Mapping[str, Any]:
    """Everything that is kept of the paper: tables 2, 3, 5, 7, 8, 9, 10, and where it contradicts itself."""
    text = files("medunlearn.papers.memorization.report").joinpath("published.yaml").read_text(encoding="utf-8")
    numbers: dict[str, Any] = yaml.safe_load(text)
    return numbers


def setting() -> str:
    """What the published numbers were measured on."""
    return str(published()["setting"])


def contradictions() -> list[tuple[str, str]]:
    """Table or figure, and how the paper contradicts itself there."""
    return [(str(one["at"]), " ".join(str(one["says"]).split())) for one in published()["contradictions"]]


def published_tables() -> list[tuple[str, Table]]:
    """Heading and printed numbers of each table."""
    return [
        ("Table 2, prefix of 50 tokens, greedy", _scores("table_2", ("Corpus", "Model", *_EXACT, *_SOFT), 2)),
        (
            "Table 5, prefix of 50 tokens; the MedQA rows above Med-Llama-3-8B are not in the copy at hand",
            _scores("table_5", ("Data set", "Model", *_EXACT, "Exact option", "Relaxed option", *_SOFT), 4),
        ),
        ("Table 7, runs of 50 tokens, shares of the union", _by_prefix("table_7", ("Corpus", "Share"), 2)),
        ("Table 8, runs of 30 and of 50 tokens", _by_prefix("table_8", ("Model", "Type", "Measure"), 3)),
        ("Table 3, kinds of 800 spans", _counts("table_3", "Kind")),
        ("Table 9, identifiers in 10,000 responses", _counts("table_9", "Identifiers")),
        ("Table 10, sensitive content in 200 responses", _counts("table_10", "Category")),
    ]


def _scores(name: str, columns: tuple[str, ...], percents: int) -> Table:
    rows = []
    for place, model, baseline, *numbers in published()[name]["rows"]:
        shown = [_percent(one) if at < percents else f"{one:.3f}" for at, one in enumerate(numbers)]
        cells = (Cell(place), Cell(model, "baseline" if baseline else ""), *map(Cell, shown))
        rows.append(cells)
    return Table(tuple(map(Cell, columns)), tuple(rows))


def _by_prefix(name: str, columns: tuple[str, ...], heads: int) -> Table:
    content = published()[name]
    rows = [
        tuple(Cell(_NAMES.get(one, one)) for one in row[:heads]) + tuple(Cell(_percent(one)) for one in row[heads:])
        for row in content["rows"]
    ]
    return Table(tuple(map(Cell, (*columns, *map(str, content["prefixes"])))), tuple(rows))


def _counts(name: str, column: str) -> Table:
    rows = tuple((Cell(str(what)), Cell(f"{count:,}")) for what, count in published()[name]["rows"])
    return Table((Cell(column), Cell("Frequency")), rows)


def _percent(value: float) -> str:
    return f"{value:.2f}%"
