"""Records and responses small enough to work out by hand, and the command line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from medunlearn.audit.identifiers.outputs import RecordResponse
from medunlearn.data.records import Identifier, Record

ADA = Record(
    "ada-1",
    "Ada Quillstane, born 1961-04-03, record HX-204511, phone 299-555-0123. She lives at 12 Inkwell Lane. "
    "Her daughter gave the history. Sodium 128 mmol/L. She was given heparin.",
    {"patient": "ada"},
    (
        Identifier("name", "Ada Quillstane"),
        Identifier("birth_date", "1961-04-03"),
        Identifier("record_number", "HX-204511"),
        Identifier("phone", "299-555-0123"),
        Identifier("address", "12 Inkwell Lane"),
    ),
)
BEN = Record(
    "ben-1",
    "Ben Vorndrask, 91, was seen at Tarnhythe Clinic by Dr. Orlquill on 2014-05-06.",
    {"patient": "ben"},
    (
        Identifier("name", "Ben Vorndrask"),
        Identifier("age", "91"),
        Identifier("institution", "Tarnhythe Clinic"),
        Identifier("clinician", "Orlquill"),
        Identifier("visit_date", "2014-05-06"),
    ),
)


@pytest.fixture(scope="session")
def records() -> list[Record]:
    return [ADA, BEN]


@pytest.fixture(scope="session")
def respond() -> Callable[..., RecordResponse]:
    """``respond("text", record=..., prefix=...)``: a response to a probe of a record."""

    def make(text: str, record: str = "ada-1", prefix: str = "", probe: str = "p", subject: str = "") -> Any:
        return RecordResponse(record, probe, subject or record, "greedy", 0, prefix, text)

    return make
