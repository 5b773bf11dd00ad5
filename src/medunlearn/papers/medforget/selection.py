"""MedForget's filters: selection of patients, their names in the benchmark, and the sections of each study.

Source: MedForget, Section 3.2 (Data Collection).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from medunlearn.data.images import image_problem
from medunlearn.data.studies_of_patients import MASK, Exclusion, RadiologySource, RadiologyStudy, in_order
from medunlearn.errors import InputError
from medunlearn.papers.medforget.items import has_gap, meaning
from medunlearn.papers.medforget.settings import MedforgetSettings
from medunlearn.seeds import generator
from medunlearn.synthetic.identities import institution_names, invent_names
from medunlearn.synthetic.knowledge import Sex

Institutions = Mapping[str, list[list[RadiologyStudy]]]
"""Institution -> its eligible patients, each by their studies."""

_WORD = re.compile(r"[^\W\d_]{3,}")
_FEMALE = re.compile(r"\b(?:woman|female|lady|girl)\b", re.IGNORECASE)
_MALE = re.compile(r"\b(?:man|male|gentleman|boy)\b", re.IGNORECASE)


@dataclass(frozen=True)
class ChosenStudy:
    """A study of the benchmark, with its patient and institution.

    Attributes:
        node, patient, institution: ``study_chest_xray_001`` (the paper's), ``patient-0001``, ``institution-01``.
        names: level -> answer of identity questions; patients' names are always invented.
        study: the study in the source.
        sections: name -> text, of the selected sections.
    """

    node: str
    patient: str
    institution: str
    names: Mapping[str, str]
    study: RadiologyStudy = field(repr=False)
    sections: Mapping[str, str] = field(repr=False)


@dataclass(frozen=True)
class Selection:
    """Selected patients, and excluded ones with reasons.

    Attributes:
        studies: in order of their nodes, grouped by patient.
        excluded: studies and patients excluded by a filter.
        looked_at: number of patients read from the source.
    """

    studies: tuple[ChosenStudy, ...]
    excluded: tuple[Exclusion, ...]
    looked_at: int

    def sections(self) -> Iterator[tuple[str, ChosenStudy, str, str]]:
        """Node (``study_chest_xray_001-findings``), study, section and its text."""
        for study in self.studies:
            for section, text in study.sections.items():
                yield f"{study.node}-{section}", study, section, text


def select(source: RadiologySource, settings: MedforgetSettings) -> Selection:
    """Select patients in seeded order until there are enough, each with a number of studies and sections.

    Every ``settings.patients`` eligible patients form one synthetic institution; institutions named by the source
    are kept.

    Raises:
        InputError: too few are eligible; the message gives reasons and a fix.
    """
    everyone = list(source.patients())
    excluded: list[Exclusion] = []
    eligible: dict[str, list[list[RadiologyStudy]]] = {}
    complete, looked_at = 0, 0
    for place in stream(settings, "patients").permutation(len(everyone)):
        if complete == settings.institutions:
            break
        looked_at += 1
        studies = _studies(source, everyone[place], settings, excluded)
        if studies:
            where = studies[0].institution or f"synthetic {sum(map(len, eligible.values())) // settings.patients}"
            group = eligible.setdefault(where, [])
            if len(group) < settings.patients:
                group.append(studies)
                complete += len(group) == settings.patients
    full = {where: group for where, group in eligible.items() if len(group) == settings.patients}
    if len(full) < settings.institutions:
        people = sum(map(len, eligible.values()))
        raise InputError(_too_few(source, settings, len(full), people, [*source.excluded, *excluded], looked_at))
    return Selection(tuple(_name_nodes(full, settings)), tuple(excluded), looked_at)


def askable(text: str) -> bool:
    """True if a question can be asked about a section: it has words, and one can be a gap."""
    words = meaning(text.replace(MASK, " "))
    return any(_WORD.fullmatch(word) for word in words) and has_gap(text)


def _studies(
    source: RadiologySource, patient: str, settings: MedforgetSettings, excluded: list[Exclusion]
) -> list[RadiologyStudy]:
    """A random sample of the patient's complete studies; empty if there are too few."""
    fitting = []
    for study in source.studies(patient):
        if reason := unfit(source, study, settings):
            excluded.append(Exclusion("study", study.study, reason))
        else:
            fitting.append(study)
    places: list[int] = []
    for place in stream(settings, "studies", patient).permutation(len(fitting)).tolist():
        # Files are opened last, and no more of them than are needed.
        views = () if settings.text_only else fitting[place].views(settings.images_per_study)
        problems = (image_problem(view.path) for view in views if view.path is not None)
        if reason := next(filter(None, problems), ""):
            excluded.append(Exclusion("study", fitting[place].study, reason))
        else:
            places.append(place)
        if len(places) == settings.studies:
            return [fitting[place] for place in sorted(places)]
    reason = f"has {len(places)} of the {settings.studies} studies needed"
    excluded.append(Exclusion("patient", patient, reason))
    return []


def unfit(source: RadiologySource, study: RadiologyStudy, settings: MedforgetSettings) -> str:
    """Reason why a study cannot be in the benchmark; empty if it can."""
    lacking = [name for name in settings.required if not askable(study.sections.get(name, ""))]
    if lacking:
        return f"its report has no {' and no '.join(lacking)}"
    if len(_candidates(study, settings)) < settings.sections:
        return f"its report has fewer than {settings.sections} sections"
    if source.has_images and not study.shown and not settings.text_only:
        return "it has no image"
    return study.missing if not settings.text_only else ""


def _candidates(study: RadiologyStudy, settings: MedforgetSettings) -> list[str]:
    """Sections that may be selected, in report order."""
    names = [name for name, text in study.sections.items() if askable(text)]
    if settings.sample_from == "required":
        names = [name for name in names if name in settings.required]
    return in_order(names)


def _name_nodes(full: Institutions, settings: MedforgetSettings) -> Iterator[ChosenStudy]:
    """Nodes and names of all selected items, in order; numbers are zero-padded to the largest, or as in the
    paper.
    """
    people = [(house, studies) for house, group in enumerate(full.values()) for studies in group]
    houses = institution_names(len(full), stream(settings, "institution names"))
    draws = stream(settings, "sexes")
    names = invent_names([_sex(studies, draws) for _, studies in people], stream(settings, "names"))
    counts = ((2, len(full)), (4, len(people)), (3, len(people) * settings.studies))
    widths = [max(least, len(str(count))) for least, count in counts]
    number = 0
    for place, ((house, studies), name) in enumerate(zip(people, names, strict=True), start=1):
        patient, institution = f"patient-{place:0{widths[1]}d}", f"institution-{house + 1:0{widths[0]}d}"
        for study in studies:
            number += 1
            node = f"study_chest_xray_{number:0{widths[2]}d}"
            called = {"institution": houses[house], "patient": name, "study": node}
            yield ChosenStudy(node, patient, institution, called, study, _sections(study, settings))


def _sections(study: RadiologyStudy, settings: MedforgetSettings) -> dict[str, str]:
    names = _candidates(study, settings)
    places = stream(settings, "sections", study.patient, study.study).permutation(len(names))
    return {names[place]: study.sections[names[place]] for place in sorted(places[: settings.sections].tolist())}


def _sex(studies: Sequence[RadiologyStudy], draws: np.random.Generator) -> Sex:
    """Sex from the words of the reports, so that the name fits; random if they do not mention it."""
    text = " ".join(text for study in studies for text in study.sections.values())
    women, men = len(_FEMALE.findall(text)), len(_MALE.findall(text))
    chance = bool(draws.random() < 0.5)
    return "female" if women > men or (women == men and chance) else "male"


def _too_few(
    source: RadiologySource,
    settings: MedforgetSettings,
    full: int,
    eligible: int,
    excluded: Sequence[Exclusion],
    looked_at: int,
) -> str:
    reasons = Counter(f"{item.what}: {item.reason}" for item in excluded).most_common(6)
    lines = "".join(f"\n  - {count} x {reason}" for reason, count in reasons)
    return (
        f"{settings.institutions * settings.patients} patients ({settings.institutions} institutions of "
        f"{settings.patients}) with {settings.studies} studies of {settings.sections} sections are asked for, and "
        f"of {looked_at} patients in {source.source} {eligible} are eligible, which fill {full} "
        f"institutions.{lines}\n"
        "Ask for less (--institutions, --patients, --studies, --sections), for other sections (required=...), or "
        "for text alone (--text-only)."
    )


def stream(settings: MedforgetSettings, *purpose: str) -> np.random.Generator:
    """The random number generator of one purpose."""
    return generator("medforget", settings.seed, *purpose)
