"""AMNESIA: patients with a note, four factual and four reasoning questions; random and disease-level splits.

Source: AMNESIA, Sections 3.1 and 3.2 and Table 5. This module uses an invented hospital; :mod:`amnesia_notes`
builds the same from real notes.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import replace

from medunlearn.data.benchmark import Benchmark
from medunlearn.data.hierarchy import Hierarchy
from medunlearn.data.records import Record
from medunlearn.data.splits import Split, nested_splits, request, share, shuffled
from medunlearn.errors import InputError
from medunlearn.papers.amnesia.settings import AmnesiaSettings
from medunlearn.synthetic import CHANCE, invent_hospital
from medunlearn.synthetic.patients import Patient

PERCENTS = (5, 10, 15, 20, 25)
LARGEST_DISEASES = 3


def build(settings: AmnesiaSettings) -> Benchmark:
    """Build the benchmark from an invented hospital, deterministically."""
    hospital = invent_hospital(
        settings.synthetic + settings.nonmember_patients,
        seed=settings.seed,
        institutions=settings.institutions,
        studies=settings.studies,
        note_length=settings.note_length,
    )
    levels = ("disease", "patient", "study", "section") if settings.studies else ("disease", "patient")
    outside = {patient.patient_id for patient in hospital.patients[settings.synthetic :]}
    records = tuple(_held_out(record, outside) for record in hospital.records())
    trained_on = {record.record_id for record in records if record.fold == "train"}
    hierarchy = Hierarchy(levels, [record for record in records if record.fold == "train"])
    counts = Counter(patient.disease for patient in hospital.patients if patient.patient_id not in outside)
    diseases = settings.diseases or [name for name, _ in counts.most_common(LARGEST_DISEASES)]
    splits = amnesia_splits(hierarchy, diseases, settings.seed, settings.percents, must=bool(settings.diseases))
    titles = {patient.patient_id: _title(patient) for patient in hospital.patients}
    notes = {question.record_id for question in hospital.questions()}
    return Benchmark(
        name=f"AMNESIA on an invented hospital of {settings.synthetic} patients",
        builder="amnesia",
        levels=levels,
        subject_level="patient",
        records=records,
        questions=tuple(question for question in hospital.questions() if question.record_id in trained_on),
        splits={name: replace(split, retain=(*split.retain, *sorted(outside))) for name, split in splits.items()},
        seed=settings.seed,
        source="medunlearn.synthetic (no person in it exists)",
        licence="apache-2.0",
        data_use="open",
        titles={
            record.record_id: titles[record.groups["patient"]] for record in records if record.record_id in notes
        },
        notes={
            "invented": True,
            "right by chance at most": CHANCE,
            "patients by disease": dict(counts.most_common()),
            **({"patients that no model is trained on": len(outside)} if outside else {}),
        },
    )


def _title(patient: Patient) -> str:
    """A case report's title: the patient's condition, without identifiers."""
    case = patient.case
    return f"{case.condition[0].upper()}{case.condition[1:]} with {case.complication}: a case report"


def _held_out(record: Record, outside: Collection[str]) -> Record:
    return replace(record, fold="holdout") if record.groups["patient"] in outside else record


def amnesia_splits(
    hierarchy: Hierarchy,
    diseases: Sequence[str],
    seed: int,
    percents: Sequence[int] = PERCENTS,
    *,
    must: bool = False,
) -> dict[str, Split]:
    """Random splits of 5 to 25% of the patients, and splits of the same sizes within single diseases.

    Both kinds are cut from one order of the patients. So each split contains the smaller ones of its kind, and
    a disease's split contains every patient of that disease who is in the random split of the same percentage
    (Section 3.2). A percentage for which a disease has too few patients is skipped, as in the paper.

    Args:
        diseases: diseases with separate splits.
        percents: shares of all patients, in percent.
        must: a disease that is too rare for the smallest split is an error; otherwise it gets none.

    Raises:
        UnknownNameError: no patient has such a disease.
        InputError: with ``must``, a disease of too few patients.
    """
    splits = nested_splits(hierarchy, "patient", percents, prefix="random", seed=seed)
    patients = hierarchy.nodes("patient")
    order = shuffled(patients, "splits", "patient", seed)
    for disease in diseases:
        members = hierarchy.closure("disease", [disease])
        own = [patient for patient in order if hierarchy.closure("patient", [patient]) <= members]
        sizes = {percent: share(percent, len(patients)) for percent in sorted(percents)}
        fitting = {percent: size for percent, size in sizes.items() if size <= len(own) and size < len(patients)}
        if must and not fitting:
            raise InputError(
                f"{len(own)} of {len(patients)} patients have {disease!r}, too few for a split of {min(sizes)}% of "
                f"all patients ({min(sizes.values())}). Name a smaller share in percents, or leave the disease out."
            )
        for percent, size in fitting.items():
            name = f"{_prefix(disease, diseases)}_{percent:02d}"
            splits[name] = request(hierarchy, name, "patient", own[:size])
    return splits


def _prefix(disease: str, diseases: Sequence[str]) -> str:
    """The first word of a disease's name; the whole name if another disease begins with the same word."""
    short = _first_word(disease)
    if short != "random" and [_first_word(other) for other in diseases].count(short) == 1:
        return short
    return f"disease_{re.sub(r'[^a-z0-9]+', '_', disease.lower()).strip('_')}"


def _first_word(disease: str) -> str:
    return disease.lower().split("/")[0].split(" ")[0]
