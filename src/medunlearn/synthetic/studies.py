"""Dated chest X-ray reports: structured findings, and four report sections based on them.

Findings are drawn first and stored in the study; the findings section, the impression and the image are generated
from them, so they always agree.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
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
    "effusion": (20, 96),
    "opacity": (36, 84),
    "cardiomegaly": (174, 220),
    "nodule": (14, 29),
    "pneumothorax": (12, 48),
}
_FREQUENCY: Mapping[FindingKind, float] = {
    "effusion": 0.45,
    "opacity": 0.45,
    "cardiomegaly": 0.25,
    "nodule": 0.28,
    "pneumothorax": 0.4,
    "device": 0.45,
}
"""Share of patients who have it at some time in four studies; a study has about a quarter of each."""
_LASTING: frozenset[str] = frozenset(("cardiomegaly", "nodule", "pacemaker", "port catheter"))
"""Kinds and devices that stay once they are there; the others come and go."""
MOST_FINDINGS = 3
"""Of a study."""
_ZONES: tuple[Zone, ...] = ("upper", "middle", "lower")
_SIDES: tuple[Laterality, ...] = ("left", "right")


@dataclass(frozen=True, slots=True)
class ChestFinding:
    """One abnormality of a chest X-ray.

    Attributes:
        laterality: the patient's side; ``central`` only for the heart.
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
    """Invent ``count`` studies of a patient from ``first`` on, 5 to 200 days apart."""
    lists = word_lists("texts/reports")["studies"]
    studies = []
    day = first
    for number, findings in enumerate(_invent_course(count, rng), start=1):
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


def _invent_course(count: int, rng: np.random.Generator) -> list[tuple[ChestFinding, ...]]:
    """Findings of each study: at most three, each of a different kind, in the order of ``FindingKind``.

    An enlarged heart is present from the first study on; nodules, pacemakers and ports persist on their side.
    Others last one to three studies, with changing sizes.
    """
    findings: dict[FindingKind, ChestFinding] = {}
    for kind in get_args(FindingKind):
        if rng.random() < _FREQUENCY[kind]:
            findings[kind] = _in_sight(_invent_finding(kind, rng), findings)
    courses = [_course_of(finding, count, rng) for finding in findings.values()]
    order = rng.permutation(len(courses)).tolist()
    studies = []
    for number in range(count):
        # What came first keeps its place where there are more than a study has.
        present = sorted(place for place in order if number in courses[place])
        present.sort(key=lambda place: (min(courses[place]), order.index(place)))
        studies.append(tuple(courses[place][number] for place in sorted(present[:MOST_FINDINGS])))
    return studies


def _in_sight(finding: ChestFinding, others: Mapping[FindingKind, ChestFinding]) -> ChestFinding:
    """A finding placed where no other hides it: in the lung without effusion, a nodule outside of an opacity's
    zone.
    """
    effusion, opacity = others.get("effusion"), others.get("opacity")
    if finding.kind in ("opacity", "nodule") and effusion is not None:
        finding = replace(finding, laterality="left" if effusion.laterality == "right" else "right")
    if finding.kind == "nodule" and opacity is not None and finding.zone == opacity.zone:
        finding = replace(finding, zone=_ZONES[(_ZONES.index(finding.zone) + 1) % 3])
    return finding


def _course_of(finding: ChestFinding, count: int, rng: np.random.Generator) -> dict[int, ChestFinding]:
    """Index of each study with a finding -> the finding in that study."""
    lasting = finding.kind in _LASTING or finding.device in _LASTING
    first = 0 if finding.kind == "cardiomegaly" or not count else int(rng.integers(count))
    last = count if lasting else first + int(rng.integers(1, 4))
    course = {}
    for number in range(first, min(last, count)):
        course[number] = finding
        if finding.size_mm is not None:
            finding = replace(finding, size_mm=_later_size(finding.kind, finding.size_mm, rng))
    return course


def _later_size(kind: FindingKind, size: int, rng: np.random.Generator) -> int:
    """Size in the next study: a heart within measurement error, a nodule slightly larger, others random."""
    low, high = _SIZES[kind]
    change = {"cardiomegaly": (-2, 4), "nodule": (0, 3)}.get(kind, (-24, 15))
    return min(high, max(low, size + int(rng.integers(*change))))


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
    """A finding in a few words with side and size, as used in both sections."""
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
