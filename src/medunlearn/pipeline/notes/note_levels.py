"""Levels of a benchmark of notes: columns of the table, above or below the patient."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

from medunlearn.sources.patient_notes import PatientNote

PATIENT, DATE = "patient", "date"
USUAL = (
    *("disease", "diagnosis", "condition"),
    *("institution", "hospital", "site", "facility", "department", "ward", "unit", "service", "specialty"),
    *("category", "note_type"),
)
"""Columns that are levels where none is named, if their values are of several notes each."""


def level_columns(named: Sequence[str], columns: Iterable[str], notes: Sequence[PatientNote]) -> list[str]:
    """Columns that are levels: those that the user named, else those of usual names with values that repeat."""
    if named:
        return [name for name in named if name != PATIENT]
    plain = {name: re.sub(r"[^a-z0-9]+", "_", name.lower()) for name in columns}
    usual = sorted((name for name in plain if plain[name] in USUAL), key=lambda name: USUAL.index(plain[name]))
    return [name for name in usual if _repeats([note.values[name] for note in notes if name in note.values])]


def _repeats(values: Sequence[str]) -> bool:
    return 2 <= len(set(values)) <= len(values) / 2


def groups_of(note: PatientNote, levels: Sequence[str]) -> dict[str, str]:
    """Level -> node of a note: its levels, its patient, and its date where it has one."""
    groups = {name: note.values[name] for name in levels if name in note.values}
    return groups | {PATIENT: note.patient} | ({DATE: note.date} if note.date and DATE not in groups else {})


def chain_of(groups: Sequence[Mapping[str, str]], levels: Sequence[str]) -> tuple[str, ...]:
    """The levels that nest, the coarsest first, the patient's among them.

    Each level is put where every node of the level below it lies in one of its nodes, and each of its nodes in one
    of the level above it: right above the patient, else further up, else below. One that fits nowhere stays a group
    of records, which a request may name too. Levels that are named first come first.
    """
    chain = [PATIENT]
    for name in levels:
        above = chain.index(PATIENT)
        for place in (*range(above, -1, -1), *range(above + 1, len(chain) + 1)):
            longer = [*chain[:place], name, *chain[place:]]
            if all(
                _has_one(groups, below, upper) for upper, below in pairwise(longer[max(0, place - 1) : place + 2])
            ):
                chain = longer
                break
    return tuple(chain)


def _has_one(groups: Sequence[Mapping[str, str]], below: str, above: str) -> bool:
    """True if each node of one level lies in one node of another."""
    parents: dict[str, str] = {}
    both = (row for row in groups if below in row and above in row)
    return all(parents.setdefault(row[below], row[above]) == row[above] for row in both)
