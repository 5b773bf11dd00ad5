"""Invented patients, where there are no notes of real ones whom the model never saw.

An invented patient is a retained patient's note under another identity and with other values. No model has seen
her, so what it says of her is what it says of anybody. Her values are drawn as alternatives are, which makes them
less usual than real ones: a real patient whom no model saw may rank a little higher.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from medunlearn.config.clinical_notes import NotesSettings
from medunlearn.data.alternatives import AlternativePool, pool_of
from medunlearn.data.benchmark import Benchmark
from medunlearn.data.records import Record
from medunlearn.data.splits import shuffled
from medunlearn.data.strangers import redrawn, strangers
from medunlearn.notes.note_probes import NoteProbes
from medunlearn.seeds import generator

PREFIX = "invented-"
_POOL = 9


def with_invented(
    benchmark: Benchmark, count: int, settings: NotesSettings, *, without: Collection[str] = ()
) -> Benchmark:
    """The benchmark with notes of invented patients whom no model is trained on, and probes of these.

    Args:
        count: how many at most: one of each patient who is trained on.
        without: patients whose notes none is made of.
    """
    level, pool = benchmark.subject_level, pool_of(benchmark, _POOL)
    notes = {
        record.groups[level]: record
        for record in reversed(benchmark.records)
        if record.fold == "train" and record.groups[level] not in without
    }
    chosen = shuffled(notes, "invented patients", settings.seed)[:count]
    invented = [
        _invented(notes[patient], patient_id, level, pool, settings.seed)
        for patient_id, patient in _numbered(benchmark, chosen)
    ]
    probes = NoteProbes(settings.prefixes, settings.clozes, (), settings.longest, settings.seed)
    questions = [question for record in invented for question in probes.of(record, {})]
    splits = {
        name: replace(split, retain=(*split.retain, *(record.groups[level] for record in invented)))
        if split.level == level
        else split
        for name, split in benchmark.splits.items()
    }
    return replace(
        benchmark,
        records=(*benchmark.records, *invented),
        questions=(*benchmark.questions, *questions),
        splits=splits,
        notes={**benchmark.notes, "invented patients": len(invented)},
        folder=None,
    )


def _numbered(benchmark: Benchmark, chosen: Collection[str]) -> list[tuple[str, str]]:
    """Ids that nobody has, each with the patient whose note is changed."""
    taken = {*benchmark.hierarchy.nodes(benchmark.subject_level), *benchmark.record}
    free = (name for number in range(1, 10**9) if (name := f"{PREFIX}{number:04d}") not in taken)
    return list(zip(free, chosen, strict=False))


def _invented(record: Record, patient: str, level: str, pool: AlternativePool, seed: int) -> Record:
    (stranger,) = strangers(record, pool, 1, seed)
    rng = generator("invented patient", seed, record.record_id)
    values = {one.value: stranger.values.get(one.value, one.value) for one in record.identifiers}
    text = redrawn(stranger.replaced(record.text), rng, keep=tuple(values.values()))
    identifiers = tuple(
        replace(one, value=values[one.value]) for one in record.identifiers if values[one.value] in text
    )
    groups = {**record.groups, level: patient}
    return Record(patient, text, groups, identifiers, fold="holdout")
