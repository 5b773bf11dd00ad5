"""Build an AMNESIA benchmark from labelled notes: held-out questions, and a disease per patient.

Source: AMNESIA, Sections 3.1 and 3.2.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from medunlearn.data.benchmark import Benchmark
from medunlearn.data.hierarchy import Hierarchy
from medunlearn.data.records import Fold, Kind, Question, Record
from medunlearn.errors import InputError
from medunlearn.papers.amnesia.build import LARGEST_DISEASES, PERCENTS, amnesia_splits
from medunlearn.seeds import generator
from medunlearn.sources.patient_notes import PatientNote

KINDS: tuple[Kind, ...] = ("factual", "reasoning")
LEVELS = ("disease", "patient")


@dataclass(frozen=True, slots=True)
class QuestionedNote:
    """A note with its disease and questions.

    Attributes:
        pairs: kind -> questions with answers.
    """

    note: PatientNote = field(repr=False)
    disease: str
    pairs: Mapping[Kind, Sequence[tuple[str, str]]] = field(repr=False)


def from_notes(
    notes: Sequence[QuestionedNote],
    /,
    *,
    provenance: str,
    seed: int,
    outside: Iterable[str] = (),
    named: Sequence[str] = (),
    percents: Sequence[int] = PERCENTS,
    **manifest: Any,
) -> Benchmark:
    """Build the benchmark from labelled notes with questions.

    A patient's disease is the most frequent label of the patient's notes; ties go to the first.

    Args:
        provenance: provenance of the questions.
        outside: diseases without separate splits (``Other`` is not one of the paper's), unless named.
        named: diseases with separate splits; none: the three largest.
        percents: shares of all patients to forget.
        manifest: name, source, licence, data_use and notes of the benchmark.

    Raises:
        UnknownNameError: a named disease has no patients.
        InputError: fewer than two patients, or too few with a named disease.
    """
    labels: dict[str, Counter[str]] = defaultdict(Counter)
    for questioned in notes:
        labels[questioned.note.patient][questioned.disease] += 1
    # most_common keeps the order of first sight where counts are equal.
    diseases = {subject: counts.most_common(1)[0][0] for subject, counts in labels.items()}
    if len(diseases) < 2:
        raise InputError(f"{len(diseases)} patients are left, and a benchmark needs at least two.")
    records = tuple(_record(questioned.note, diseases[questioned.note.patient]) for questioned in notes)
    counts = Counter(diseases.values())
    prominent = [name for name, _ in counts.most_common() if name not in set(outside)][:LARGEST_DISEASES]
    splits = amnesia_splits(Hierarchy(LEVELS, records), named or prominent, seed, percents, must=bool(named))
    manifest["notes"] = {**manifest.get("notes", {}), "patients by disease": dict(counts.most_common())}
    return Benchmark(
        builder="amnesia",
        levels=LEVELS,
        subject_level="patient",
        records=records,
        questions=tuple(written_questions(notes, provenance, seed)),
        splits=splits,
        seed=seed,
        **manifest,
    )


def _record(note: PatientNote, disease: str) -> Record:
    # A record's identifiers are those that stand in its text; others are known, and not there to be leaked.
    there = tuple(identifier for identifier in note.identifiers or () if identifier.value in note.text)
    return Record(note.note_id, note.text, {"disease": disease, "patient": note.patient}, there)


def written_questions(notes: Sequence[QuestionedNote], provenance: str, seed: int) -> list[Question]:
    """Hold out one question of each kind per patient, drawn by the patient's name, independent of other notes."""
    rows = [
        (f"{questioned.note.note_id}-{kind}-{number}", questioned.note, kind, pair)
        for questioned in notes
        for kind in KINDS
        for number, pair in enumerate(questioned.pairs[kind], start=1)
    ]
    names: dict[tuple[str, Kind], list[str]] = defaultdict(list)
    for name, note, kind, _ in rows:
        names[note.patient, kind].append(name)
    held_out = {
        sorted(own)[generator("holdout", subject, kind, seed).integers(len(own))]
        for (subject, kind), own in names.items()
    }
    folds: dict[str, Fold] = {name: "holdout" if name in held_out else "train" for name, *_ in rows}
    return [
        Question(name, note.note_id, folds[name], kind, "patient", *pair, provenance=provenance)
        for name, note, kind, pair in rows
    ]
