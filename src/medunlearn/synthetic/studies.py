"""Dated chest X-ray reports: structured findings, and the four sections that tell them.

Findings are drawn first and kept on the study; both the findings section and the impression are written from
them, so the two cannot disagree, and an image can be drawn from the same source.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Literal, get_args

import numpy as np

from medunlearn.synthetic.clinical_cases import pick
from medunlearn.synthetic.grammar import capitalized, word_lists

FindingKind = Literal["effusion", "opacity", "cardiomegaly", "nodule", "pneumothorax", "device"]
Laterality = Literal["left", "right", "central"]
Zone = Literal["upper", "middle", "lower"]
Section = Literal["examination", "indication", "findings", "impression"]

SECTIONS: tuple[Section, ...] = ("examination", "indication", "findings", "impression")
"""The sections of a report, in their order."""

CHEST_WIDTH_MM = 320
"""Inner width of every chest, so that a heart's width is its cardiothoracic ratio."""

_SIZES: Mapping[FindingKind, tuple[int, int]] = {
    "effusion": (12, 96),
    "opacity": (18, 84),
    "cardiomegaly": (170, 224),
    "nodule": (5, 29),
    "pneumothorax": (6, 48),
}
_ZONES: tuple[Zone, ...] = ("upper", "middle", "lower")
_SIDES: tuple[Laterality, ...] = ("left", "right")


@dataclass(frozen=True, slots=True)
class ChestFinding:
    """One abnormality of a chest X-ray.

    Attributes:
        laterality: the patient's side; ``central`` for the heart alone.
        zone: the third of the lung; the lower one for an effusion, the upper one for a pneumothorax.
        size_mm: depth of an effusion, diameter of an opacity or a nodule, width of the heart, width of the gap of
            a pneumothorax, in mm; None for a device.
    """

    kind: FindingKind
    laterality: Laterality
    zone: Zone
    size_mm: int | None
    device: str = ""


@dataclass(frozen=True, slots=True)
class Study:
    """A chest X-ray: date, abnormal findings, and the four sections of its report in their order."""

    study_id: str
    date: date
    findings: tuple[ChestFinding, ...]
    sections: Mapping[Section, str]


def invent_studies(
    patient_id: str, name: str, record_number: str, first: date, count: int, rng: np.random.Generator
) -> tuple[Study, ...]:
    """``count`` studies of a patient from ``first`` on, 5 to 200 days apart."""
    lists = word_lists("texts/reports")["studies"]
    studies = []
    day = first
    for number in range(1, count + 1):
        findings = _invent_findings(rng)
        view, reason = pick(rng, lists["views"]), pick(rng, lists["reasons"])
        sections: dict[Section, str] = {
            "examination": f"Chest radiograph, {view}, {day.isoformat()}. {name}, {record_number}.",
            "indication": f"{name}: {reason}.",
            "findings": _findings_text(findings, rng),
            "impression": _impression_text(findings),
        }
        studies.append(Study(f"{patient_id}-study-{number}", day, findings, sections))
        day += timedelta(days=int(rng.integers(5, 201)))
    return tuple(studies)


def _invent_findings(rng: np.random.Generator) -> tuple[ChestFinding, ...]:
    """None to three findings, each of another kind, in the order of ``FindingKind``."""
    kinds: tuple[FindingKind, ...] = get_args(FindingKind)
    count = int(rng.integers(0, 4))
    places = sorted(rng.permutation(len(kinds))[:count].tolist())
    return tuple(_invent_finding(kinds[place], rng) for place in places)


def _invent_finding(kind: FindingKind, rng: np.random.Generator) -> ChestFinding:
    side, zone = pick(rng, _SIDES), pick(rng, _ZONES)
    if kind == "device":
        return ChestFinding(kind, side, "upper", None, pick(rng, word_lists("texts/reports")["studies"]["devices"]))
    low, high = _SIZES[kind]
    size = int(rng.integers(low, high + 1))
    if kind == "cardiomegaly":
        return ChestFinding(kind, "central", "lower", size)
    fixed: Mapping[FindingKind, Zone] = {"effusion": "lower", "pneumothorax": "upper"}
    return ChestFinding(kind, side, fixed.get(kind, zone), size)


def phrase(finding: ChestFinding) -> str:
    """A finding in a few words, with its side and size, as both sections write it."""
    side, zone, size = finding.laterality, finding.zone, finding.size_mm
    match finding.kind:
        case "effusion":
            return f"{side} pleural effusion {size} mm deep"
        case "opacity":
            return f"{side} {zone} zone opacity of {size} mm"
        case "cardiomegaly":
            return f"cardiomegaly with a heart width of {size} mm in a chest of {CHEST_WIDTH_MM} mm"
        case "nodule":
            return f"{side} {zone} zone nodule of {size} mm"
        case "pneumothorax":
            return f"{side} apical pneumothorax of {size} mm"
        case "device":
            return f"{finding.device} on the {side}"


def _findings_text(findings: tuple[ChestFinding, ...], rng: np.random.Generator) -> str:
    present = {finding.kind: phrase(finding) for finding in findings}
    sentences = []
    for kind, negatives in word_lists("texts/reports")["studies"]["absent"].items():
        article = "" if kind == "cardiomegaly" else "a "
        sentences.append(f"There is {article}{present[kind]}." if kind in present else pick(rng, negatives))
    return " ".join(sentences)


def _impression_text(findings: tuple[ChestFinding, ...]) -> str:
    if not findings:
        return "No acute cardiopulmonary abnormality."
    return " ".join(f"{number}. {capitalized(phrase(finding))}." for number, finding in enumerate(findings, 1))
