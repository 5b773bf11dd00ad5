"""The numbers that AMNESIA published, as a layer to compare with: never a target, never mixed with our own."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

import yaml


@dataclass(frozen=True, slots=True)
class Published:
    """One cell of AMNESIA's Table 2, in percent: leakage and degradation score on the forget set, by kind."""

    ls_factual: float
    ds_factual: float
    ls_reasoning: float
    ds_reasoning: float


@dataclass(frozen=True, slots=True)
class Statement:
    """What the text of Section 6 says of a figure, in numbers.

    Attributes:
        methods: whom it is about; empty for the target model or for all.
    """

    figure: int
    about: str
    methods: tuple[str, ...]
    says: str


@cache
def _content() -> dict[str, Any]:
    text = files("medunlearn.papers.amnesia.report").joinpath("published.yaml").read_text(encoding="utf-8")
    found: dict[str, Any] = yaml.safe_load(text)
    return found


def setting() -> str:
    """What the published numbers were measured on."""
    return str(_content()["setting"])


def table_2() -> dict[tuple[str, str, int], Published]:
    """Scope, method, percent -> the cell of Table 2; sizes that the paper did not run are left out."""
    rows = _content()["table_2"]["rows"]
    return {(scope, method, percent): Published(*numbers) for scope, method, percent, *numbers in rows}


def statements(figure: int) -> tuple[Statement, ...]:
    """What Section 6 says of Figure 2, 3 or 4."""
    return tuple(
        Statement(row["figure"], row["about"], tuple(row["methods"]), row["says"])
        for row in _content()["figures"]
        if row["figure"] == figure
    )
