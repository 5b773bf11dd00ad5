"""The numbers that MedForget published, as a layer to compare with: never a target, never mixed with our own."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from typing import Any

import yaml

from medunlearn.papers.amnesia.report.content import Measured
from medunlearn.papers.medforget.report.content import (
    CLASSIFICATION,
    CLOZE,
    FACTUALITY,
    GEN_SCORE,
    GROUPS,
    ROUGE,
    TARGET_MODEL,
    Measure,
    Who,
    unlearned,
)
from medunlearn.reports.readings import Reading

TABLE_3: tuple[Measure, ...] = (GEN_SCORE, CLASSIFICATION, CLOZE)
TABLE_5: tuple[Measure, ...] = (ROUGE, FACTUALITY, GEN_SCORE)
VANILLA = "Vanilla"

Key = tuple[str, Who, str, str]
"""Level (of the target: every one), model, set, measure."""


@cache
def _content() -> dict[str, Any]:
    text = files("medunlearn.papers.medforget.report").joinpath("published.yaml").read_text(encoding="utf-8")
    found: dict[str, Any] = yaml.safe_load(text)
    return found


def setting() -> str:
    """What the published numbers were measured on."""
    return str(_content()["setting"])


def statements() -> list[tuple[int, str]]:
    """What the text says of Figures 5, 6 and 7."""
    return [(int(row["figure"]), str(row["says"])) for row in _content()["figures"]]


def contradictions() -> list[str]:
    """Where the paper's own numbers do not agree."""
    return [str(line) for line in _content()["contradictions"]]


def methods() -> list[str]:
    """The paper's methods, by the names that ours have."""
    rows = _content()["table_3"]["rows"]
    return [name for name in dict.fromkeys(str(row[0]) for row in rows) if name != VANILLA]


@cache
def table(number: int) -> dict[Key, float]:
    """Table 3 or 5, as shares of 1."""
    measures = {3: TABLE_3, 5: TABLE_5}[number]
    return dict(_numbers(_content()[f"table_{number}"]["rows"], measures))


def _numbers(rows: list[list[Any]], measures: tuple[Measure, ...]) -> Iterator[tuple[Key, float]]:
    for method, level, *percents in rows:
        who = TARGET_MODEL if method == VANILLA else unlearned(method)
        places = [(group.name, measure.name) for group in GROUPS for measure in measures]
        for (group, measure), percent in zip(places, percents, strict=True):
            yield (level, who, group, measure), percent / 100


def published(number: int, level: str, who: Who, group: str, measure: str) -> Measured | None:
    """A number of Table 3 or 5 in the form of one of ours; it has no interval."""
    value = table(number).get(("" if who == TARGET_MODEL else level, who, group, measure))
    return None if value is None else Measured(Reading(value, None, None, 0, 0, 0))
