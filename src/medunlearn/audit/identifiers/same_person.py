"""Ids that may belong to one person: equal up to zeros, ``.0`` or case; same name, record number or birth date."""

from __future__ import annotations

import os
import re
import unicodedata
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path

from medunlearn.audit.identifiers.declared import NAME_PARTS, NAMES, column_values, plain_name
from medunlearn.data.benchmark import Benchmark
from medunlearn.errors import InputError, bullet_list
from medunlearn.input_files import read_text
from medunlearn.sources.corpus import Corpus
from medunlearn.sources.patient_notes import PatientNote

SAME_ID = "the same up to leading zeros, .0 or case"
SAME_NUMBER, SAME_NAME, SAME_BIRTH_DATE = "same record number", "same name", "same birth date"
_NUMBERS = ("mrn", "medical_record_number", "record_number", "medical_record", "chart_number")
DETECTED = "record_number"
"""Kind of the numbers that detectors find in texts."""
_BIRTH_DATES = ("birth_date", "date_of_birth", "dob", "birthdate")
_REASONS = {
    **dict.fromkeys(NAMES, SAME_NAME),
    **dict.fromkeys(_NUMBERS, SAME_NUMBER),
    **dict.fromkeys(_BIRTH_DATES, SAME_BIRTH_DATE),
}
_NOBODY = frozenset(("unknown", "none", "null", "na", "anonymous", "anonymized", "redacted", "patient", "name"))
MOST_LISTED = 20

Doubles = Mapping[str, tuple[str, ...]]
"""Another id of what may be the same person -> why."""
Pair = tuple[str, str, tuple[str, ...]]
"""Two ids of what may be one person, and why."""


class People:
    """The patients of some notes, with what may tell that two of them are one person.

    Args:
        values: id and column or type of a value, with the value; of names, record numbers and birth dates.
        ids: all patients.
    """

    def __init__(self, ids: Iterable[str], values: Iterable[tuple[str, str, str]]) -> None:
        self.ids = frozenset(ids)
        self._owners: dict[tuple[str, object], set[str]] = defaultdict(set)
        self._keys: dict[str, set[tuple[str, object]]] = defaultdict(set)
        for owner in self.ids:
            self._add(owner, SAME_ID, id_key(owner))
        for owner, column, value in dict.fromkeys(values):
            reason = _REASONS.get(column)
            if reason is not None and (key := _KEYS[reason](value)):
                self._add(owner, reason, key)

    @staticmethod
    def of_notes(notes: Iterable[PatientNote]) -> People:
        """The patients of notes, by their columns and listed identifiers."""
        notes = list(notes)
        every = dict.fromkeys(name for note in notes for name in note.values)
        columns = [name for name in every if plain_name(name) in (*_REASONS, *NAME_PARTS)]
        return People((note.patient for note in notes), _values_of(notes, columns))

    @staticmethod
    def of_benchmark(benchmark: Benchmark) -> People:
        """The patients of a benchmark's records, by their ids and declared record numbers.

        Names, dates and numbers that were found in the texts may be of relatives and visits.
        """
        owners = {record.record_id: record.groups[benchmark.subject_level] for record in benchmark.records}
        return People(
            owners.values(),
            (
                (owners[record.record_id], own.type, own.value)
                for record in benchmark.records
                for own in record.identifiers
                if own.type in _NUMBERS and own.type != DETECTED
            ),
        )

    @staticmethod
    def of_corpus(corpus: Corpus) -> People:
        """The patients of a corpus; of a benchmark by their ids, since its names may be of relatives."""
        if corpus.kind == "benchmark":
            return People((document.patient for document in corpus.documents), ())
        return People.of_notes(corpus.documents) if "patient" in corpus.columns else People((), ())

    def _add(self, owner: str, reason: str, key: object) -> None:
        self._owners[reason, key].add(owner)
        self._keys[owner].add((reason, key))

    def doubles_of(self, patient: str) -> Doubles:
        """Other ids that may belong to a patient, who need not have one in the notes, each with the reasons.

        A birth date counts unless both have names without a word in common.
        """
        doubles: dict[str, list[str]] = defaultdict(list)
        keys = self._keys.get(patient) or {(SAME_ID, id_key(patient))}
        for reason, key in sorted(keys, key=str):
            for other in self._owners.get((reason, key), set()) - {patient}:
                if reason != SAME_BIRTH_DATE or not self._differ_in_name(patient, other):
                    doubles[other].append(reason)
        return {other: tuple(dict.fromkeys(doubles[other])) for other in sorted(doubles)}

    def doubles(self) -> list[Pair]:
        """Every pair of ids that may belong to one person, with the reasons."""
        shared = {owner for owners in self._owners.values() if len(owners) > 1 for owner in owners}
        pairs = ((one, other, why) for one in sorted(shared) for other, why in self.doubles_of(one).items())
        return [pair for pair in pairs if pair[0] < pair[1]]

    def open_doubles(self, persons: Iterable[Sequence[str]]) -> list[Pair]:
        """The pairs of which the user has said nothing."""
        settled = {name for person in persons for name in person}
        return [pair for pair in self.doubles() if not {*pair[:2]} & settled]

    def _differ_in_name(self, one: str, other: str) -> bool:
        words = [
            {word for why, key in self._keys[who] if why == SAME_NAME for word in _words(key)}
            for who in (one, other)
        ]
        return all(words) and not words[0] & words[1]


def _values_of(notes: Iterable[PatientNote], columns: Sequence[str]) -> Iterator[tuple[str, str, str]]:
    for note in notes:
        listed = ((own.type, own.value) for own in note.identifiers or ())
        for name, value in chain(column_values(note.values, columns).items(), listed):
            yield note.patient, name, value


def _words(key: object) -> Collection[str]:
    return key if isinstance(key, tuple) else ()


def id_key(value: str) -> str:
    """An id without leading zeros, ``.0`` and case: equal keys may be one person's."""
    return re.sub(r"(?<!\d)0+(?=\d)", "", re.sub(r"\.0+$", "", value.strip().casefold()))


def _name_key(value: str) -> tuple[str, ...]:
    """The words of a name in alphabetic order, without accents; empty for a placeholder."""
    plain = unicodedata.normalize("NFKD", value.casefold())
    words = re.findall(r"[^\W_]+", "".join(letter for letter in plain if not unicodedata.combining(letter)))
    return () if {*words} <= _NOBODY else tuple(sorted(words))


def _date_key(value: str) -> tuple[int, ...]:
    """Year, month and day in any order; empty where one is missing."""
    compact = re.fullmatch(r"(\d{4})(\d{2})(\d{2})", value)
    date = re.match(r"\d+\D\d+\D\d+", value)
    parts = compact.groups() if compact else re.findall(r"\d+", date[0]) if date else []
    return tuple(sorted(map(int, parts)))


_KEYS = {SAME_NAME: _name_key, SAME_NUMBER: id_key, SAME_BIRTH_DATE: _date_key}


def told_doubles(pairs: Sequence[Pair], most: int = 5) -> str:
    """A sentence with the first of some pairs."""
    lines = bullet_list([f"{one} and {other}: {', '.join(why)}" for one, other, why in pairs], most)
    return (
        f"{len(pairs)} pairs of ids may be one person's, and count as two:{lines}\n`medunlearn inspect` lists "
        "all. --same-person FILE says which are one (her ids in a line), which are not (an id alone)."
    )


def read_same_person(where: str | None) -> list[tuple[str, ...]]:
    """Ids of one person each: from a file with her ids in a line, or in words, with ``;`` between persons.

    Raises:
        InputError: a missing or unreadable file, or an id of two persons.
    """
    if where is None:
        return []
    is_file = where.lower().endswith((".csv", ".txt", ".tsv")) or os.path.isfile(where)
    lines = read_text(Path(where)).splitlines() if is_file else where.split(";")
    persons = [tuple(filter(None, (word.strip(" \t\"'") for word in re.split(r"[,;\t]", line)))) for line in lines]
    persons = [person for person in persons if person]
    every = [name for person in persons for name in dict.fromkeys(person)]
    if not every:
        raise InputError(
            f"--same-person: {where} names no patient. Give the ids of one person a line, with commas."
        )
    if len(every) > len(set(every)):
        raise InputError("--same-person: an id stands in two lines. The ids of one person stand in one line.")
    return persons


def joined_ids(persons: Iterable[Sequence[str]]) -> dict[str, str]:
    """Id -> the first id of the same person."""
    return {name: person[0] for person in persons for name in person}


def requested_ids(requested: Sequence[str], people: People, persons: Iterable[Sequence[str]]) -> list[str]:
    """The ids of a request, with all ids of the same persons that are among the notes.

    Raises:
        InputError: an id that may have further ones of the same person, of which the user has said nothing.
    """
    own = {name: person for person in persons for name in person}
    # A table that spreadsheets wrote lost the `.0` of its ids, and a request may still have it.
    asked = [name if name in people.ids else re.sub(r"^(\d+)\.0+$", r"\1", name) for name in requested]
    every = dict.fromkeys(other for name in asked for other in (name, *own.get(name, ())))
    ids = [name for name in every if name in people.ids or name in asked]
    open_doubles = {
        other: why
        for name in asked
        if name not in own
        for other, why in people.doubles_of(name).items()
        if other not in ids
    }
    if open_doubles:
        lines = bullet_list([f"{other}: {', '.join(why)}" for other, why in open_doubles.items()], MOST_LISTED)
        there = "" if all(name in people.ids for name in asked) else "The request names an id that is not there. "
        raise InputError(
            f"{there}Other ids in the notes may be of the same person, and their notes would be retained:{lines}\n"
            f"Say which belong to her: --patient {','.join(ids)},{next(iter(open_doubles))}, or --same-person FILE "
            f"with the ids of one person in a line. If she has no other id: --same-person {','.join(asked)}."
        )
    return ids
