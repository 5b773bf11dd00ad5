"""Disease diagnosis from an admission: history and laboratory results in, a list of diagnoses out.

A record is one admission without its diagnoses; they are the answer to its one question. Records of the validation
and the test part are of the fold ``holdout``: no model is trained on them.

Source: Memorization in Large Language Models in Medicine, Section 3.3. The paper's 13,000 patients are 10,000 for
training, 2,000 for validation and 1,000 for testing in that section; elsewhere it has the last two the other way
round. So sizes are settings, and the section's are the default shares.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from medunlearn.config import DiagnosisSettings
from medunlearn.data.benchmark import Benchmark
from medunlearn.data.hierarchy import Hierarchy
from medunlearn.data.records import Identifier, Question, Record
from medunlearn.data.splits import Split, nested_splits, shuffled
from medunlearn.errors import ConfigError, InputError
from medunlearn.papers.memorization.diagnosis.admissions import AdmissionColumns, is_iso_date, read_admissions
from medunlearn.synthetic.admissions import invent_admissions

Part = Literal["train", "validation", "test"]
PARTS: tuple[Part, ...] = ("train", "validation", "test")
PART, SPECIALTY = "part", "specialty"
SHARES: Mapping[str, float] = {"validation": 2 / 13, "test": 1 / 13}

ASK = (
    "Which diagnoses does this patient have? List them from the history and the results above, the likeliest "
    "first, one a line."
)
"""The question; the model sees history and results before it."""


@dataclass(frozen=True, slots=True)
class _Stay:
    """An admission, wherever it comes from."""

    name: str
    patient: str
    date: str
    history: str
    labs: str
    diagnoses: tuple[str, ...]
    specialty: str = ""
    part: str = ""
    identifiers: tuple[Identifier, ...] = ()


def build(settings: DiagnosisSettings) -> Benchmark:
    """The benchmark of a file of admissions or of an invented hospital.

    Raises:
        ConfigError: wrong settings or columns, all at once.
        SourceError: rows that cannot be used, each with its place.
        InputError: too few patients for the parts, or dates by which the latest stay cannot be told.
    """
    if (settings.admissions is None) == (settings.synthetic is None):
        raise ConfigError(["give either a file of admissions or --synthetic N (patients to invent)"])
    stays, notes = _invented(settings) if settings.admissions is None else _own(settings)
    parts = _own_parts(stays) if any(stay.part for stay in stays) else _drawn_parts(stays, settings)
    records = tuple(_record(stay, parts[stay.patient]) for stay in stays)
    invented = settings.admissions is None
    return Benchmark(
        name=f"Diagnosis on {'an invented hospital' if invented else 'admissions'} of {len(parts)} patients",
        builder="diagnosis",
        levels=(PART, "patient"),
        subject_level="patient",
        records=records,
        questions=tuple(_question(stay, parts[stay.patient]) for stay in stays),
        splits=_splits(records, settings),
        seed=settings.seed,
        source="medunlearn.synthetic (no person in it exists)" if invented else "a file of admissions",
        licence="apache-2.0" if invented else "",
        data_use="open" if invented else settings.data_use,
        notes={
            **({"invented": True} if invented else {}),
            "patients by part": {part: list(parts.values()).count(part) for part in PARTS},
            "records by specialty": dict(Counter(s.specialty for s in stays if s.specialty).most_common()),
            **notes,
        },
    )


def answer_of(diagnoses: Sequence[str]) -> str:
    """Diagnoses as the reference answer writes them, numbered, one a line."""
    return "\n".join(f"{number}. {name}" for number, name in enumerate(diagnoses, start=1))


def text_of(date: str, history: str, labs: str) -> str:
    """An admission as a record's text; what is empty is left out."""
    lines = (("Date", date), ("History of present illness", history), ("Laboratory results", labs))
    return "\n".join(f"{name}: {value}" for name, value in lines if value)


def _invented(settings: DiagnosisSettings) -> tuple[list[_Stay], dict[str, Any]]:
    assert settings.synthetic is not None
    admissions = invent_admissions(settings.synthetic, seed=settings.seed, institutions=settings.institutions)
    return [
        _Stay(
            one.admission_id,
            one.patient,
            one.date,
            one.history,
            one.labs,
            one.diagnoses,
            one.specialty,
            identifiers=one.identifiers,
        )
        for one in admissions
    ], {}


def _own(settings: DiagnosisSettings) -> tuple[list[_Stay], dict[str, Any]]:
    assert settings.admissions is not None
    columns = AdmissionColumns(
        **{name: getattr(settings, f"{name}_column") for name in AdmissionColumns.__dataclass_fields__}
    )
    read = read_admissions(settings.admissions, columns, skip_bad_rows=settings.skip_bad_rows)
    stays = [
        _Stay(
            one.admission_id, one.patient, one.date, one.history, one.labs, one.diagnoses, one.specialty, one.part
        )
        for one in read.admissions
    ]
    kept = _latest(stays) if settings.stays == "latest" else stays
    notes: dict[str, Any] = {"earlier stays left out": len(stays) - len(kept)} if len(kept) < len(stays) else {}
    if read.excluded:
        notes["skipped rows"] = [f"{place}: {reason}" for place, reason in read.excluded]
    return kept, notes


def _latest(stays: Sequence[_Stay]) -> list[_Stay]:
    """One stay a patient."""
    several = {patient for patient, n in Counter(stay.patient for stay in stays).items() if n > 1}
    undated = [stay.name for stay in stays if stay.patient in several and not is_iso_date(stay.date)]
    if undated:
        raise InputError(
            f"{len(several)} patients have several admissions, and {len(undated)} of these have no date like "
            f"2019-03-02 (first: {undated[0]!r}), so that the latest cannot be told. Write dates so, or keep all "
            "with --stays all."
        )
    newest: dict[str, _Stay] = {}
    for stay in stays:
        before = newest.get(stay.patient)
        if before is None or stay.date >= before.date:
            newest[stay.patient] = stay
    kept = {stay.name for stay in newest.values()}
    return [stay for stay in stays if stay.name in kept]


def _own_parts(stays: Sequence[_Stay]) -> dict[str, str]:
    """The file's own partition.

    Raises:
        InputError: a part of another name or none, a patient in two parts, or no training part.
    """
    problems = []
    parts: dict[str, str] = {}
    for stay in stays:
        if stay.part not in PARTS:
            problems.append(f"{stay.name!r} is in part {stay.part!r}; parts are {', '.join(PARTS)}")
        elif parts.setdefault(stay.patient, stay.part) != stay.part:
            problems.append(f"patient of {stay.name!r} is in {parts[stay.patient]} and in {stay.part}")
    if problems:
        more = f"; and {len(problems) - 5} more" if len(problems) > 5 else ""
        raise InputError(f"The file's own partition cannot be used: {'; '.join(problems[:5])}{more}.")
    if missing := [part for part in PARTS if part not in parts.values()]:
        raise InputError(f"The file's own partition has no patient in: {', '.join(missing)}.")
    return parts


def _drawn_parts(stays: Sequence[_Stay], settings: DiagnosisSettings) -> dict[str, str]:
    order = shuffled({stay.patient for stay in stays}, "diagnosis parts", settings.seed)
    sizes = {part: getattr(settings, part) or max(1, round(share * len(order))) for part, share in SHARES.items()}
    if sum(sizes.values()) >= len(order):
        raise InputError(
            f"{sizes['validation']} patients for validation and {sizes['test']} for testing leave none of "
            f"{len(order)} for training. Set validation and test lower."
        )
    bounds = sizes["validation"], sizes["validation"] + sizes["test"]
    return {
        patient: "validation" if place < bounds[0] else "test" if place < bounds[1] else "train"
        for place, patient in enumerate(order)
    }


def _record(stay: _Stay, part: str) -> Record:
    groups = {PART: part, "patient": stay.patient} | ({SPECIALTY: stay.specialty} if stay.specialty else {})
    return Record(
        stay.name,
        text_of(stay.date, stay.history, stay.labs),
        groups,
        stay.identifiers,
        fold="train" if part == "train" else "holdout",
    )


def _question(stay: _Stay, part: str) -> Question:
    return Question(
        question_id=f"{stay.name}-diagnoses",
        record_id=stay.name,
        fold="train" if part == "train" else "holdout",
        kind="reasoning",
        level="patient",
        question=ASK,
        answer=answer_of(stay.diagnoses),
        provenance="diagnosis",
    )


def _splits(records: Iterable[Record], settings: DiagnosisSettings) -> dict[str, Split]:
    """Random shares of the training patients, for unlearning; the other parts are retained."""
    every = list(records)
    trained = Hierarchy((PART, "patient"), [record for record in every if record.fold == "train"])
    outside = tuple(dict.fromkeys(record.groups["patient"] for record in every if record.fold != "train"))
    splits = nested_splits(trained, "patient", settings.percents, prefix="random", seed=settings.seed)
    return {name: replace(split, retain=(*split.retain, *outside)) for name, split in splits.items()}
