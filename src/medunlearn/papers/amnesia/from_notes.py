"""AMNESIA benchmark of labelled notes: held-out questions, and a patient's disease.

Source: AMNESIA, Sections 3.1 and 3.2.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from medunlearn.data.benchmark import Benchmark
from medunlearn.data.hierarchy import Hierarchy
from medunlearn.data.records import Fold, Question, Record
from medunlearn.errors import InputError
from medunlearn.papers.amnesia.build import LARGEST_DISEASES, PERCENTS, amnesia_splits
from medunlearn.seeds import generator
from medunlearn.sources.notes import Note

Kind = Literal["factual", "reasoning"]
KINDS: tuple[Kind, ...] = ("factual", "reasoning")


@dataclass(frozen=True, slots=True)
class QuestionedNote:
    """A note with its disease and questions.

    Attributes:
        pairs: kind -> questions with answers.
    """

    note: Note = field(repr=False)
    disease: str
    pairs: Mapping[Kind, Sequence[tuple[str, str]]] = field(repr=False)


@dataclass(frozen=True, slots=True)
class NotesOrigin:
    """Where notes and questions come from, for the benchmark's manifest."""

    name: str
    source: str
    licence: str
    data_use: Literal["open", "credentialed"]
    provenance: str
    notes: Mapping[str, Any] = field(default_factory=dict)


def from_notes(
    notes: Sequence[QuestionedNote],
    origin: NotesOrigin,
    *,
    seed: int,
    outside: Iterable[str] = (),
    named: Sequence[str] = (),
    percents: Sequence[int] = PERCENTS,
) -> Benchmark:
    """The benchmark of labelled notes with questions.

    A patient's disease is what most of the patient's notes are labelled with; of several the first.

    Args:
        outside: diseases that get no splits of their own (``Other`` is none of the paper's), unless named.
        named: diseases that get splits of their own; none: the three largest.
        percents: shares of all patients that are forgotten.

    Raises:
        UnknownNameError: nobody has a disease that is named.
        InputError: fewer than two patients, or too few with a disease that is named.
    """
    diseases = _disease_of_subject(notes)
    if len(diseases) < 2:
        raise InputError(f"{len(diseases)} patients are left, and a benchmark needs two at least.")
    records = tuple(_record(questioned.note, diseases[questioned.note.subject]) for questioned in notes)
    counts = Counter(diseases.values())
    prominent = [name for name, _ in counts.most_common() if name not in set(outside)][:LARGEST_DISEASES]
    return Benchmark(
        name=origin.name,
        builder="amnesia",
        levels=("disease", "patient"),
        subject_level="patient",
        records=records,
        questions=_questions(notes, origin.provenance, seed),
        splits=amnesia_splits(
            Hierarchy(("disease", "patient"), records), named or prominent, seed, percents, must=bool(named)
        ),
        seed=seed,
        source=origin.source,
        licence=origin.licence,
        data_use=origin.data_use,
        notes={**origin.notes, "patients by disease": dict(counts.most_common())},
    )


def _disease_of_subject(notes: Sequence[QuestionedNote]) -> dict[str, str]:
    labels: dict[str, Counter[str]] = defaultdict(Counter)
    for questioned in notes:
        labels[questioned.note.subject][questioned.disease] += 1
    # most_common keeps the order of first sight where counts are equal.
    return {subject: counted.most_common(1)[0][0] for subject, counted in labels.items()}


def _record(note: Note, disease: str) -> Record:
    # A record's identifiers are those that stand in its text; others are known, and not there to be leaked.
    there = tuple(identifier for identifier in note.identifiers or () if identifier.value in note.text)
    return Record(note.note_id, note.text, {"disease": disease, "patient": note.subject}, there)


def _questions(notes: Sequence[QuestionedNote], provenance: str, seed: int) -> tuple[Question, ...]:
    held_out = _held_out(notes, seed)
    questions = []
    for questioned in notes:
        for kind in KINDS:
            for number, (question, answer) in enumerate(questioned.pairs[kind], start=1):
                name = f"{questioned.note.note_id}-{kind}-{number}"
                fold: Fold = "holdout" if name in held_out else "train"
                probe = (kind, "patient", question, answer)
                questions.append(Question(name, questioned.note.note_id, fold, *probe, provenance=provenance))
    return tuple(questions)


def _held_out(notes: Sequence[QuestionedNote], seed: int) -> set[str]:
    """One question of each kind a patient, drawn by the patient's name: nobody else's notes change it."""
    names: dict[tuple[str, Kind], list[str]] = defaultdict(list)
    for questioned in notes:
        for kind in KINDS:
            own = (
                f"{questioned.note.note_id}-{kind}-{number}" for number in range(1, len(questioned.pairs[kind]) + 1)
            )
            names[questioned.note.subject, kind] += own
    return {
        sorted(own)[generator("holdout", subject, kind, seed).integers(len(own))]
        for (subject, kind), own in names.items()
        if own
    }
