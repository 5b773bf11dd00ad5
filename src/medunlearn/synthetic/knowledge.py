"""General knowledge of each disease: symptoms, tests, imaging, treatments and courses.

The facts are in ``diseases/*.yaml``, one file per category of AMNESIA's Table 1. A test's ``range`` has plausible
values in that disease, its ``normal`` the usual reference range of adults. They are general textbook knowledge,
sufficient for realistic overlap between patients, and not medical advice.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import Any, Literal

import numpy as np
import yaml

Pace = Literal["day", "week"]
Sex = Literal["female", "male"]

SEXES: tuple[Sex, ...] = ("female", "male")

COUNTS: Mapping[str, int] = MappingProxyType(
    {
        "Cancer": 2669,
        "Infectious/Immune": 1964,
        "Cardiovascular": 1426,
        "Digestive and Liver": 590,
        "Dementia and Mental Health": 490,
        "Arthritis and Bone": 441,
        "Respiratory and Allergies": 435,
        "Kidney Disease": 350,
        "Diabetes": 208,
        "Oral and Dental Health": 192,
        "Anemia or Iron Deficiency": 55,
    }
)
"""Patients a category in AMNESIA (Table 1), 8,820 in all."""

DISEASES: tuple[str, ...] = tuple(COUNTS)
"""AMNESIA's 11 disease categories, in the order of its Table 1."""

AMNESIA_PROPORTIONS: Mapping[str, float] = MappingProxyType(
    {disease: count / sum(COUNTS.values()) for disease, count in COUNTS.items()}
)
"""A category's share of the patients, in (0, 1); the shares add up to 1 (AMNESIA, Table 1)."""


@dataclass(frozen=True, slots=True)
class Grid:
    """The numbers ``low, low + step, ..., high`` with ``step = 10**-decimals``, all equally likely.

    Counting in whole steps keeps every value exact.
    """

    low: int
    high: int
    decimals: int

    @property
    def values(self) -> int:
        """Number of values to draw from."""
        return self.high - self.low + 1

    def draw(self, rng: np.random.Generator) -> str:
        """Draw a value, formatted with its decimals."""
        return f"{self.draw_integer(rng) / 10**self.decimals:.{self.decimals}f}"

    def draw_integer(self, rng: np.random.Generator) -> int:
        """Draw a value, as a number of steps."""
        return int(rng.integers(self.low, self.high + 1))


@dataclass(frozen=True, slots=True)
class Test:
    """A laboratory test or a clinical score.

    Attributes:
        unit: empty for a ratio or a score without one.
        abnormal: values of untreated patients.
        treated: values between ``abnormal`` and the normal limit, for a repeat after treatment. They never
            overlap with ``abnormal``, so a repeat is always closer to normal than the first value.
        reference: the normal range, written out.
        high: whether abnormal means too high (else too low).
    """

    __test__ = False  # pytest would otherwise try to collect a class of this name

    name: str
    unit: str
    abnormal: Grid
    treated: Grid
    reference: str
    high: bool

    def format(self, value: str) -> str:
        """A value with its unit: ``8.4 ng/mL``, ``31%``, ``1.92``."""
        return f"{value}{self.unit}" if self.unit == "%" else f"{value} {self.unit}".strip()


@dataclass(frozen=True, slots=True)
class Imaging:
    """A finding of imaging, endoscopy or biopsy; ``finding`` has the placeholders ``{size}`` and ``{site}``."""

    study: str
    finding: str
    sites: tuple[str, ...]
    size: Grid


@dataclass(frozen=True, slots=True)
class Treatment:
    """A drug with its dose; ``course`` is its length in ``unit``, and ``aim`` completes "to ..."."""

    drug: str
    dose: str
    aim: str
    course: Grid
    unit: str


@dataclass(frozen=True, slots=True)
class Condition:
    """One diagnosis of a category; ``ages`` in years (inclusive), ``onset`` in ``onset_unit``."""

    name: str
    ages: tuple[int, int]
    sex: Sex | None
    onset: Grid
    onset_unit: str
    background: str
    symptoms: tuple[str, ...]
    tests: tuple[Test, ...]
    imaging: tuple[Imaging, ...]
    treatments: tuple[Treatment, ...]


@dataclass(frozen=True, slots=True)
class Disease:
    """A category with the common parts of its conditions; ``pace`` is the time unit of its course."""

    name: str
    pace: Pace
    tests: tuple[Test, ...]
    complications: tuple[str, ...]
    outcomes: tuple[str, ...]
    comorbidities: tuple[str, ...]
    advice: tuple[str, ...]
    conditions: tuple[Condition, ...]


@cache
def diseases() -> Mapping[str, Disease]:
    """All knowledge by category, in the order of :data:`DISEASES`."""
    folder = files(__package__) / "diseases"
    rows = [yaml.safe_load(file.read_text(encoding="utf-8")) for file in sorted(folder.iterdir(), key=str)]
    by_name = {row["name"]: _disease(row) for row in rows}
    return MappingProxyType({name: by_name[name] for name in DISEASES})


def _disease(row: dict[str, Any]) -> Disease:
    lists = {name: tuple(row[name]) for name in ("complications", "outcomes", "comorbidities", "advice")}
    tests, conditions = tuple(map(_test, row["tests"])), tuple(map(_condition, row["conditions"]))
    return Disease(row["name"], row["pace"], tests, **lists, conditions=conditions)


def _condition(row: dict[str, Any]) -> Condition:
    low, high, unit = row["onset"]
    return Condition(
        name=row["name"],
        ages=(row["ages"][0], row["ages"][1]),
        sex=row.get("sex"),
        onset=Grid(low, high, 0),
        onset_unit=unit,
        background=row["background"],
        symptoms=tuple(row["symptoms"]),
        tests=tuple(_test(test) for test in row["tests"]),
        imaging=tuple(_imaging(finding) for finding in row["imaging"]),
        treatments=tuple(_treatment(treatment) for treatment in row["treatments"]),
    )


def _test(row: dict[str, Any]) -> Test:
    decimals = int(row["decimals"])
    low, high = (_steps(bound, decimals) for bound in row["range"])
    least, most = (_steps(bound, decimals) for bound in row["normal"])
    too_high = low > most
    treated = Grid(most + 1, low - 1, decimals) if too_high else Grid(high + 1, least - 1, decimals)
    reference = f"{row['normal'][0]}-{row['normal'][1]}"
    return Test(row["test"], row["unit"], Grid(low, high, decimals), treated, reference, too_high)


def _imaging(row: dict[str, Any]) -> Imaging:
    decimals = int(row.get("decimals", 0))
    low, high = (_steps(bound, decimals) for bound in row["size"])
    return Imaging(row["study"], row["finding"], tuple(row["sites"]), Grid(low, high, decimals))


def _treatment(row: dict[str, Any]) -> Treatment:
    low, high, unit = row["course"]
    return Treatment(row["drug"], row["dose"], row["aim"], Grid(low, high, 0), unit)


def _steps(value: float, decimals: int) -> int:
    return round(value * 10.0**decimals)
