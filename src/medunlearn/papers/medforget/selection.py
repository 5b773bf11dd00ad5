"""MedForget's filters: who is in the benchmark, under which names, and which sections of each study.

Source: MedForget, Section 3.2 (Data Collection).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from medunlearn.config import MedforgetSettings
from medunlearn.data.radiology import MASK, Exclusion, RadiologySource, RadiologyStudy, in_order
from medunlearn.errors import InputError
from medunlearn.papers.medforget.items import has_gap
from medunlearn.seeds import generator
from medunlearn.synthetic.identities import institution_names, invent_names
from medunlearn.synthetic.knowledge import Sex

Group = list[list[RadiologyStudy]]
"""Eligible patients of an institution, each by their studies."""

_WORD = re.compile(r"[^\W\d_]{3,}")
_FEMALE = re.compile(r"\b(?:woman|female|lady|girl)\b", re.IGNORECASE)
_MALE = re.compile(r"\b(?:man|male|gentleman|boy)\b", re.IGNORECASE)


@dataclass(frozen=True)
class ChosenStudy:
    """A study of the benchmark.

    Attributes:
        node: its name, which is the paper's ``study_chest_xray_001``.
        study: as the source gave it.
        sections: name -> text, of those that are asked about.
    """

    node: str
    study: RadiologyStudy = field(repr=False)
    sections: Mapping[str, str] = field(repr=False)


@dataclass(frozen=True)
class ChosenPatient:
    """A patient of the benchmark.

    Attributes:
        node: ``patient-0001``.
        name: invented for the benchmark, whatever the source.
        institution, institution_name: where the benchmark puts them.
    """

    node: str
    name: str
    institution: str
    institution_name: str
    studies: tuple[ChosenStudy, ...]


@dataclass(frozen=True)
class Selection:
    """Who was chosen, and who was looked at and left out.

    Attributes:
        patients: in order of their nodes.
        excluded: studies and patients that a filter left out.
        looked_at: patients of the source that were read.
    """

    patients: tuple[ChosenPatient, ...]
    excluded: tuple[Exclusion, ...]
    looked_at: int


def select(source: RadiologySource, settings: MedforgetSettings) -> Selection:
    """Patients in an order drawn by the seed until there are enough, each with so many studies and sections.

    Every ``settings.patients`` eligible patients are one synthetic institution; where the source names
    institutions, those are kept.

    Raises:
        InputError: too few are eligible; says why, and what to ask for.
    """
    everyone = list(source.patients())
    order = [everyone[place] for place in _stream(settings, "patients").permutation(len(everyone))]
    excluded: list[Exclusion] = []
    eligible: dict[str, Group] = {}
    complete, looked_at = 0, 0
    for patient in order:
        if complete == settings.institutions:
            break
        looked_at += 1
        studies = _studies(source, patient, settings, excluded)
        if not studies:
            continue
        where = studies[0].institution or f"synthetic {sum(map(len, eligible.values())) // settings.patients}"
        group = eligible.setdefault(where, [])
        if len(group) < settings.patients:
            group.append(studies)
            complete += len(group) == settings.patients
    full = {where: group for where, group in eligible.items() if len(group) == settings.patients}
    if len(full) < settings.institutions:
        raise InputError(_too_few(source, settings, full, eligible, [*source.excluded, *excluded], looked_at))
    return Selection(_named(full, settings), tuple(excluded), looked_at)


def askable(text: str) -> bool:
    """Whether anything can be asked about a section: a word was not removed from it, and one can be left out."""
    return bool(_WORD.search(text.replace(MASK, " "))) and has_gap(text)


def _studies(
    source: RadiologySource, patient: str, settings: MedforgetSettings, excluded: list[Exclusion]
) -> list[RadiologyStudy]:
    """A drawn sample of the patient's studies that have all that is needed; empty where they are too few."""
    found = []
    for study in source.studies(patient):
        if reason := unfit(source, study, settings):
            excluded.append(Exclusion("study", study.study, reason))
        else:
            found.append(study)
    if len(found) < settings.studies:
        excluded.append(Exclusion("patient", patient, f"has {len(found)} of the {settings.studies} studies needed"))
        return []
    places = _stream(settings, "studies", patient).permutation(len(found))[: settings.studies]
    return [found[place] for place in sorted(places.tolist())]


def unfit(source: RadiologySource, study: RadiologyStudy, settings: MedforgetSettings) -> str:
    """Why a study cannot be in the benchmark; empty where it can."""
    lacking = [name for name in settings.required if not askable(study.sections.get(name, ""))]
    if lacking:
        return f"its report has no {' and no '.join(lacking)}"
    if len(_candidates(study, settings)) < settings.sections:
        return f"its report has fewer than {settings.sections} sections"
    if source.has_images and not study.shown and not settings.text_only:
        return "it has no image"
    return ""


def _candidates(study: RadiologyStudy, settings: MedforgetSettings) -> list[str]:
    """Sections that may be drawn, in the order of a report."""
    names = [name for name, text in study.sections.items() if askable(text)]
    if settings.sample_from == "required":
        names = [name for name in names if name in settings.required]
    return in_order(names)


def _named(
    full: Mapping[str, list[list[RadiologyStudy]]], settings: MedforgetSettings
) -> tuple[ChosenPatient, ...]:
    people = [(place, studies) for place, group in enumerate(full.values()) for studies in group]
    houses = institution_names(len(full), _stream(settings, "institution names"))
    draws = _stream(settings, "sexes")
    names = invent_names([_sex(studies, draws) for _, studies in people], _stream(settings, "names"))
    total = len(people) * settings.studies
    widths = [max(least, len(str(count))) for least, count in ((2, len(full)), (4, len(people)), (3, total))]
    chosen, number = [], 0
    for place, ((house, studies), name) in enumerate(zip(people, names, strict=True), start=1):
        own = []
        for study in studies:
            number += 1
            node = f"study_chest_xray_{number:0{widths[2]}d}"
            own.append(ChosenStudy(node, study, _sections(study, settings)))
        institution = f"institution-{house + 1:0{widths[0]}d}"
        chosen.append(ChosenPatient(f"patient-{place:0{widths[1]}d}", name, institution, houses[house], tuple(own)))
    return tuple(chosen)


def _sections(study: RadiologyStudy, settings: MedforgetSettings) -> dict[str, str]:
    names = _candidates(study, settings)
    places = _stream(settings, "sections", study.patient, study.study).permutation(len(names))
    kept = [names[place] for place in sorted(places[: settings.sections].tolist())]
    return {name: study.sections[name] for name in kept}


def _sex(studies: Sequence[RadiologyStudy], draws: np.random.Generator) -> Sex:
    """By the words of the reports, so that a name does not contradict them; by chance where they do not say."""
    text = " ".join(text for study in studies for text in study.sections.values())
    women, men = len(_FEMALE.findall(text)), len(_MALE.findall(text))
    chance = bool(draws.random() < 0.5)
    return "female" if women > men or (women == men and chance) else "male"


def _too_few(
    source: RadiologySource,
    settings: MedforgetSettings,
    full: Mapping[str, object],
    eligible: Mapping[str, Group],
    excluded: Sequence[Exclusion],
    looked_at: int,
) -> str:
    wanted = settings.institutions * settings.patients
    counted = Counter(f"{one.what}: {one.reason}" for one in excluded).most_common(6)
    shown = "".join(f"\n  - {count} x {reason}" for reason, count in counted)
    return (
        f"{wanted} patients ({settings.institutions} institutions of {settings.patients}) with {settings.studies} "
        f"studies of {settings.sections} sections are asked for, and of {looked_at} patients in {source.source} "
        f"{sum(map(len, eligible.values()))} are eligible, which fill {len(full)} institutions.{shown}\n"
        "Ask for less (--institutions, --patients, --studies, --sections), for other sections (required=...), or "
        "for text alone (--text-only)."
    )


def _stream(settings: MedforgetSettings, *purpose: str) -> np.random.Generator:
    return generator("medforget", settings.seed, *purpose)
