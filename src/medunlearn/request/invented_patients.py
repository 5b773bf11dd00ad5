"""Invented patients for a request without notes of patients whom no model saw.

An invented patient has the note of a retained one with another identity, values of two others
(:mod:`medunlearn.data.value_sets`), and all dates shifted together (:mod:`medunlearn.data.date_shifts`). No model
has seen it, so answers about it show a model's background level.

What is protected, and what is not: no known identifier of a single real patient stays, and numbers are those of
several patients, mixed and most of them smoothed. Wording, diagnoses, drugs, ages, values that nobody else has, and
identifiers that several patients share (an institution) or that nobody declared stay those of the note. So these
notes are no anonymous data: they stay in the request's work folder.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from medunlearn.config.clinical_notes import NotesSettings
from medunlearn.data.alternatives import AlternativePool, pool_of
from medunlearn.data.benchmark import Benchmark
from medunlearn.data.date_shifts import DateRanges, DateShift, is_any_date
from medunlearn.data.facts import NAMES
from medunlearn.data.records import Identifier, Record
from medunlearn.data.splits import shuffled
from medunlearn.data.strangers import Stranger, invent_strangers
from medunlearn.data.value_draws import codes_like
from medunlearn.data.value_sets import ValueSets
from medunlearn.notes.note_probes import NoteProbes
from medunlearn.seeds import generator

PREFIX = "invented-"
"""Of the ids of invented patients."""
DONORS = 400
"""Most patients whose values are used."""
_POOL, _TRIES = 9, 9
_ADDRESS = re.compile(r"\S+@\S+")


def with_invented(
    benchmark: Benchmark, count: int, settings: NotesSettings, *, without: Collection[str] = ()
) -> Benchmark:
    """The benchmark with notes of invented patients that no model is trained on, and probes of these.

    Args:
        count: most patients to invent, one per trained patient.
        without: patients whose notes are not used.
    """
    level = benchmark.subject_level
    inventor = PatientInventor.of(benchmark, settings.seed, without)
    existing_ids = {*benchmark.hierarchy.nodes(level), *benchmark.record}
    ids = (name for number in range(1, 10**9) if (name := f"{PREFIX}{number:04d}") not in existing_ids)
    invented = [
        replace(record, record_id=name, groups={**record.groups, level: name})
        for record, name in zip(inventor.notes(count), ids, strict=False)
    ]
    probes = replace(NoteProbes.of_settings(settings), prompts=())
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


@dataclass(frozen=True)
class PatientInventor:
    """Invented notes from those of retained patients.

    Attributes:
        records: notes of the retained patients, whose wording and values are used.
        everybody: all notes, whose identifiers are real.
        pool: gives names and codes.
    """

    records: Sequence[Record]
    everybody: Sequence[Record]
    level: str
    pool: AlternativePool
    seed: int

    @staticmethod
    def of(benchmark: Benchmark, seed: int, without: Collection[str]) -> PatientInventor:
        """The inventor of a benchmark's trained patients without some."""
        level = benchmark.subject_level
        records = [one for one in benchmark.records if one.fold == "train" and one.groups[level] not in without]
        return PatientInventor(records, benchmark.records, level, pool_of(benchmark, _POOL), seed)

    def notes(self, count: int) -> Iterator[Record]:
        """Up to ``count`` invented notes, each of another patient's first one, as far as these can be changed."""
        first = {record.groups[self.level]: record for record in reversed(self.records)}
        for patient in shuffled(first, "invented patients", self.seed):
            if count and (record := self._invent(first[patient])) is not None:
                count -= 1
                yield record

    def _invent(self, record: Record) -> Record | None:
        """A note with another identity, values and dates; None if an identifier or all of it stays."""
        shift = self._dates.shift(record, generator("invented dates", self.seed, record.record_id))
        identity = self._identity(record, shift)
        if identity is None:
            return None
        values = self._values.changes(record, generator("invented values", self.seed, record.record_id))
        text = identity.replaced(_changed(record.text, [*values, *shift.changes(record.text)]))
        # An address may be written in a form that is no identifier: jane\_doe@example.org.
        words = _name_words(record, identity.values)
        text = _ADDRESS.sub(lambda match: _renamed(match.group(), words), text)
        if text == record.text or self._left_of(record.groups[self.level], text):
            return None
        new = [replace(own, value=_new_value(own, identity, shift)) for own in record.identifiers]
        groups = {level: shift.of(node) if is_any_date(node) else node for level, node in record.groups.items()}
        identifiers = tuple(own for own in new if own.value in text)
        return Record(record.record_id, text, groups, identifiers, fold="holdout")

    def _identity(self, record: Record, shift: DateShift) -> Stranger | None:
        """New names and codes, none of them anybody's; None if one of the patient's own cannot be replaced."""
        dates = {own.value for own in record.identifiers if is_any_date(own.value)}
        unique = {own for own in record.identifiers if own.value not in dates and len(self._owners[own]) < 2}
        for stranger in invent_strangers(record, self.pool, _TRIES, self.seed):
            values = {own: new for own, new in stranger.values.items() if own not in dates}
            values |= self._codes_with_names(record, values)
            new = {Identifier(own.type, values[own.value]) for own in unique if own.value in values}
            if len(new) == len(unique) and not new & self._owners.keys():
                return Stranger(values)
        return None

    def _codes_with_names(self, record: Record, values: Mapping[str, str]) -> Iterator[tuple[str, str]]:
        """Codes that spell the patient's name, such as e-mail addresses, with the new name."""
        words = _name_words(record, values)
        rng = generator("invented codes", self.seed, record.record_id)
        for own in record.identifiers:
            renamed = _renamed(own.value, words)
            if own.type not in NAMES and renamed != own.value:
                alike = [other.value for other in self._owners if other.type == own.type]
                yield own.value, next(codes_like(renamed, alike, rng, 1, [*words.values()]), renamed)

    def _left_of(self, patient: str, text: str) -> bool:
        """True if an identifier that only this patient has stands in a text."""
        own = [one.value for one in self._identifiers[patient] if len(self._owners[one]) == 1]
        return any(re.search(rf"(?<!\w){re.escape(value)}(?!\w)", text, re.IGNORECASE) for value in own)

    @cached_property
    def _values(self) -> ValueSets:
        """Values of a sample of the retained patients."""
        patients = {record.groups[self.level] for record in self.records}
        sample = {*shuffled(patients, "donors of values", self.seed)[:DONORS]}
        return ValueSets((record for record in self.records if record.groups[self.level] in sample), self.level)

    @cached_property
    def _dates(self) -> DateRanges:
        return DateRanges(self.records)

    @cached_property
    def _identifiers(self) -> dict[str, set[Identifier]]:
        """Patient -> identifiers in any of the patient's notes."""
        identifiers: dict[str, set[Identifier]] = defaultdict(set)
        for record in self.everybody:
            identifiers[record.groups[self.level]].update(record.identifiers)
        return identifiers

    @cached_property
    def _owners(self) -> dict[Identifier, set[str]]:
        """Identifier -> its patients."""
        owners: dict[Identifier, set[str]] = defaultdict(set)
        for patient, identifiers in self._identifiers.items():
            for own in identifiers:
                owners[own].add(patient)
        return owners


def _new_value(own: Identifier, identity: Stranger, shift: DateShift) -> str:
    return shift.of(own.value) if is_any_date(own.value) else identity.values.get(own.value, own.value)


def _name_words(record: Record, values: Mapping[str, str]) -> dict[str, str]:
    """Word of a name in the record -> the new name's, in lower case."""
    names = [own.value for own in record.identifiers if own.type in NAMES and own.value in values]
    pairs = [pair for name in names for pair in zip(name.split(), values[name].split(), strict=False)]
    return {old.casefold(): new.casefold() for old, new in pairs}


def _renamed(value: str, words: Mapping[str, str]) -> str:
    """A code with other words of a name, in lower case."""
    for old, new in words.items():
        value = re.sub(rf"(?<![^\W\d_]){re.escape(old)}(?![^\W\d_])", new, value, flags=re.IGNORECASE)
    return value


def _changed(text: str, changes: Sequence[tuple[int, int, str]]) -> str:
    parts, end = list[str](), 0
    for start, stop, new in sorted(changes):
        if start >= end:
            parts += [text[end:start], new]
            end = stop
    return "".join([*parts, text[end:]])
