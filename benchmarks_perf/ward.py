"""An invented ward whose values are as unevenly spread as real ones, and a reader who knows all but the patient.

Names are drawn from lists by Zipf's law, telephone numbers have one of three area codes, record numbers begin with
a year, admissions lie in half a year, discharges follow within two weeks, ages go with birth dates, and sodium
hardly varies. The reader is a model of letters (interpolated n-grams, Witten & Bell 1991). It learns such rules
from few notes, and never saw the patient's.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from datetime import date, timedelta
from typing import TypeVar

import numpy as np

from medunlearn.data.records import Identifier, Record

GIVEN = (
    *("Maria", "Anna", "Jose", "Elena", "Peter", "Paul", "Laura", "Sofia", "Jonas", "Emma"),
    *("Lukas", "Clara", "Felix", "Nora", "Simon", "Alma", "Oskar", "Ida", "Viktor", "Greta"),
)
FAMILY = (
    *("Garcia", "Muller", "Silva", "Novak", "Rossi", "Weber", "Costa", "Larsen", "Moreau", "Keller"),
    *("Santos", "Fischer", "Lopez", "Berg", "Ricci", "Horvat", "Dubois", "Lind", "Kovac", "Jensen"),
    *("Marin", "Vogel", "Ferrari", "Blanc", "Nilsson", "Petrov", "Duarte", "Hofer", "Bianchi", "Leroy"),
)
T = TypeVar("T")
AREAS = ("617", "508", "781")


def ward(patients: int, seed: int) -> list[Record]:
    """One note a patient."""
    rng = np.random.default_rng(seed)
    return [_note(place, rng) for place in range(patients)]


def _note(place: int, rng: np.random.Generator) -> Record:
    name = f"{_zipf(GIVEN, rng)} {_zipf(FAMILY, rng)}"
    admitted = date(2023, 1, 1) + timedelta(days=int(rng.integers(180)))
    left = admitted + timedelta(days=1 + int(rng.integers(14)))
    born = date(1930, 1, 1) + timedelta(days=int(rng.integers(70 * 365)))
    number = f"MRN-{2015 + int(rng.integers(8))}-{int(rng.integers(100_000)):05d}"
    area = AREAS[int(rng.choice(3, p=(0.6, 0.3, 0.1)))]
    phone = f"{area}-{int(rng.integers(200, 1000))}-{int(rng.integers(10_000)):04d}"
    age = (admitted - born).days // 365
    text = (
        f"{name}, {number}, born {born}, phone {phone}. Admitted on {admitted}, discharged on {left}. "
        f"Aged {age}. Sodium was {rng.normal(139, 3):.0f} mmol/L, potassium was {rng.normal(4.2, 0.4):.1f} mmol/L, "
        f"creatinine was {np.exp(rng.normal(4.4, 0.4)):.0f} umol/L. Ramipril {_zipf((5, 10, 2), rng)} mg daily. "
        f"Pain since {1 + int(rng.geometric(0.2))} days, weight was {rng.normal(75, 12):.1f} kg."
    )
    identifiers = (
        Identifier("name", name),
        Identifier("record_number", number),
        Identifier("birth_date", f"{born}"),
        Identifier("phone", phone),
        Identifier("admission_date", f"{admitted}"),
        Identifier("discharge_date", f"{left}"),
    )
    return Record(f"r{place}", text, {"patient": f"p{place}"}, identifiers)


def _zipf(values: Sequence[T], rng: np.random.Generator) -> T:
    weights = 1.0 / np.arange(1, len(values) + 1)
    return values[int(rng.choice(len(values), p=weights / weights.sum()))]


class Reader:
    """Letters after letters in some texts.

    Args:
        order: letters before a letter that count.
    """

    def __init__(self, texts: Iterable[str], order: int = 12) -> None:
        self.order = order
        self._counts: dict[str, Counter[str]] = defaultdict(Counter)
        for text in texts:
            for place, letter in enumerate(text):
                for reach in range(min(order, place) + 1):
                    self._counts[text[place - reach : place]][letter] += 1

    def log_prob(self, text: str, start: int, end: int) -> float:
        """Log-probability of the letters from start to end, given those before them."""
        return math.fsum(
            math.log(self._probability(text[max(0, place - self.order) : place], text[place]))
            for place in range(start, min(end, len(text)))
        )

    def _probability(self, before: str, letter: str) -> float:
        value = 1 / 256
        for reach in range(len(before) + 1):
            counts = self._counts.get(before[len(before) - reach :])
            if counts is None:
                break
            total, kinds = counts.total(), len(counts)
            value = (counts[letter] + kinds * value) / (total + kinds)
        return value
