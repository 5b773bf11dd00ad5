"""Disease diagnosis from an admission: history and laboratory results in, a list of diagnoses out.

A record is one admission without its diagnoses; they are the answer to its one question. Records of the validation
and test parts are in the fold ``holdout``: no model is trained on them.

Source: Memorization in Large Language Models in Medicine, Section 3.3. The paper's 13,000 patients are 10,000 for
training, 2,000 for validation and 1,000 for testing in that section; elsewhere it swaps the last two. So sizes are
settings, with that section's shares as defaults.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from medunlearn.data.benchmark import Benchmark
from medunlearn.data.data_use import build_use, use_of_file
from medunlearn.data.hierarchy import Hierarchy
from medunlearn.data.records import Question, Record
from medunlearn.data.splits import Split, nested_splits, shuffled
from medunlearn.errors import ConfigError, InputError
from medunlearn.papers.memorization.diagnosis.admissions import FIELDS, is_iso_date, read_admissions
from medunlearn.papers.memorization.diagnosis.settings import DiagnosisSettings
from medunlearn.synthetic.admissions import Admission, invent_admissions

PARTS = ("train", "validation", "test")
PART, SPECIALTY = "part", "specialty"
SHARES: Mapping[str, float] = {"validation": 2 / 13, "test": 1 / 13}

ASK = (
    "Which diagnoses does this patient have? List them from the history and the results above, the likeliest "
    "first, one a line."
)
"""The question; the model sees history and results before it."""


def build(settings: DiagnosisSettings) -> Benchmark:
    """Build the benchmark from a file of admissions or an invented hospital.

    Raises:
        ConfigError: wrong settings or columns, all at once.
        SourceError: unusable rows, each with its place.
        InputError: too few patients for the parts, or dates that do not determine the latest stay.
    """
    if (settings.admissions is None) == (settings.synthetic is None):
        raise ConfigError(["give either a file of admissions or --synthetic N (patients to invent)"])
    notes: dict[str, Any] = {}
    parts: Mapping[str, str] = {}
    if settings.synthetic is not None:
        stays: Sequence[Admission] = invent_admissions(
            settings.synthetic, seed=settings.seed, institutions=settings.institutions
        )
    else:
        stays, parts, notes = _read_stays(settings)
    parts = _own_parts(stays, parts) if any(parts.values()) else _drawn_parts(stays, settings)
    records = tuple(_record(stay, parts[stay.patient]) for stay in stays)
    invented = settings.admissions is None
    source = "medunlearn.synthetic (no person in it exists)" if invented else "a file of admissions"
    use = "open" if settings.admissions is None else use_of_file(settings.admissions)
    counts = {
        "patients by part": {part: list(parts.values()).count(part) for part in PARTS},
        "records by specialty": dict(Counter(s.specialty for s in stays if s.specialty).most_common()),
    }
    return Benchmark(
        name=f"Diagnosis on {'an invented hospital' if invented else 'admissions'} of {len(parts)} patients",
        builder="diagnosis",
        levels=(PART, "patient"),
        subject_level="patient",
        records=records,
        questions=tuple(map(_question, stays, records)),
        splits=_splits(records, settings),
        seed=settings.seed,
        source=source,
        licence="apache-2.0" if invented else settings.licence,
        data_use=build_use(settings.data_use, {source: use}),
        notes={**({"invented": True} if invented else {}), **counts, **notes},
    )


def _read_stays(settings: DiagnosisSettings) -> tuple[list[Admission], dict[str, str], dict[str, Any]]:
    """Stays of a file, the part of each if the file has parts, and notes on skipped rows."""
    assert settings.admissions is not None
    columns = {field: getattr(settings, f"{field}_column") for field in FIELDS}
    read = read_admissions(settings.admissions, columns, skip_bad_rows=settings.skip_bad_rows)
    stays = _latest(read.admissions) if settings.stays == "latest" else list(read.admissions)
    earlier = len(read.admissions) - len(stays)
    notes: dict[str, Any] = {"earlier stays left out": earlier} if earlier else {}
    if read.excluded:
        notes["skipped rows"] = [f"{place}: {reason}" for place, reason in read.excluded]
    return stays, {stay.admission_id: read.parts[stay.admission_id] for stay in stays}, notes


def _latest(stays: Sequence[Admission]) -> list[Admission]:
    """Select one stay per patient, the latest."""
    several = {patient for patient, n in Counter(stay.patient for stay in stays).items() if n > 1}
    undated = [stay.admission_id for stay in stays if stay.patient in several and not is_iso_date(stay.date)]
    if undated:
        raise InputError(
            f"{len(several)} patients have several admissions, and {len(undated)} of these have no date like "
            f"2019-03-02 (first: {undated[0]!r}), so the latest is unknown. Use such dates, or keep all with "
            "--stays all."
        )
    # Of a patient's stays on one day the last of the file is the latest; the others keep their order.
    newest = {stay.patient: stay.admission_id for stay in sorted(stays, key=lambda stay: stay.date)}
    return [stay for stay in stays if newest[stay.patient] == stay.admission_id]


def _own_parts(stays: Sequence[Admission], part_of: Mapping[str, str]) -> dict[str, str]:
    """The file's own partition; refused if a part is unknown or missing, or a patient is in two."""
    problems = []
    parts: dict[str, str] = {}
    for stay in stays:
        name, part = stay.admission_id, part_of[stay.admission_id]
        if part not in PARTS:
            problems.append(f"{name!r} is in part {part!r}; parts are {', '.join(PARTS)}")
        elif parts.setdefault(stay.patient, part) != part:
            problems.append(f"patient of {name!r} is in {parts[stay.patient]} and in {part}")
    if problems:
        more = f"; and {len(problems) - 5} more" if len(problems) > 5 else ""
        raise InputError(f"The file's own partition cannot be used: {'; '.join(problems[:5])}{more}.")
    if missing := [part for part in PARTS if part not in parts.values()]:
        raise InputError(f"The file's own partition has no patient in: {', '.join(missing)}.")
    return parts


def _drawn_parts(stays: Sequence[Admission], settings: DiagnosisSettings) -> dict[str, str]:
    order = shuffled({stay.patient for stay in stays}, "diagnosis parts", settings.seed)
    sizes = {part: getattr(settings, part) or max(1, round(share * len(order))) for part, share in SHARES.items()}
    if sum(sizes.values()) >= len(order):
        raise InputError(
            f"{sizes['validation']} patients for validation and {sizes['test']} for testing leave none of "
            f"{len(order)} for training. Set validation and test lower."
        )
    names = [part for part, size in sizes.items() for _ in range(size)]
    return dict(zip(order, names + ["train"] * (len(order) - len(names)), strict=True))


def _record(stay: Admission, part: str) -> Record:
    lines = {
        "Date": stay.date,
        "History of present illness": stay.history,
        "Laboratory results": stay.labs,
    }
    return Record(
        stay.admission_id,
        "\n".join(f"{name}: {value}" for name, value in lines.items() if value),
        {PART: part, "patient": stay.patient} | ({SPECIALTY: stay.specialty} if stay.specialty else {}),
        stay.identifiers,
        fold="train" if part == "train" else "holdout",
    )


def _question(stay: Admission, record: Record) -> Question:
    return Question(
        question_id=f"{record.record_id}-diagnoses",
        record_id=record.record_id,
        fold=record.fold,
        kind="reasoning",
        level="patient",
        question=ASK,
        answer="\n".join(f"{number}. {name}" for number, name in enumerate(stay.diagnoses, start=1)),
        provenance="diagnosis",
    )


def _splits(records: Iterable[Record], settings: DiagnosisSettings) -> dict[str, Split]:
    """Random shares of the training patients to forget, for unlearning; the other parts are retained."""
    every = list(records)
    trained = Hierarchy((PART, "patient"), [record for record in every if record.fold == "train"])
    outside = tuple(dict.fromkeys(record.groups["patient"] for record in every if record.fold != "train"))
    splits = nested_splits(trained, "patient", settings.percents, prefix="random", seed=settings.seed)
    return {name: replace(split, retain=(*split.retain, *outside)) for name, split in splits.items()}
