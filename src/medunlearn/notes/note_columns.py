"""Roles of a notes table's columns: levels above or below the patient, and identifiers in the notes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from medunlearn.audit.identifiers.detectors import make_detector
from medunlearn.audit.identifiers.detectors.detected_spans import Detector
from medunlearn.audit.identifiers.kinds import UNKNOWN, kind_of
from medunlearn.data.records import Identifier
from medunlearn.progress import progress
from medunlearn.sources.patient_notes import PatientNote

PATIENT, DATE = "patient", "date"
USUAL = (
    *("disease", "diagnosis", "condition"),
    *("institution", "hospital", "site", "facility", "department", "ward", "unit", "service", "specialty"),
    *("category", "note_type"),
)
"""Columns that are levels where none is named, if their values are of several notes each."""
NOT_HERS = ("hospital", "profession", "age")
"""Kinds that many patients share; of columns, a number like 54 would be found everywhere."""
LEAST_SCORE = 0.8
SHORTEST = 3
"""Characters of an identifier."""
_BATCH = 256
_FULL_NAMES = ("patient_name", "full_name")


def level_columns(named: Sequence[str], columns: Iterable[str], notes: Sequence[PatientNote]) -> list[str]:
    """Columns that are levels: those named by the user, else those with usual names and repeated values."""
    if named:
        return [name for name in named if name != PATIENT]
    plain = {name: re.sub(r"[^a-z0-9]+", "_", name.lower()) for name in columns}
    usual = sorted((name for name in plain if plain[name] in USUAL), key=lambda name: USUAL.index(plain[name]))
    return [name for name in usual if _repeats([note.values[name] for note in notes if name in note.values])]


def _repeats(values: Sequence[str]) -> bool:
    return 2 <= len(set(values)) <= len(values) / 2


def groups_of(note: PatientNote, levels: Sequence[str]) -> dict[str, str]:
    """Level -> node of a note: its levels, its patient, and its date if known."""
    groups = {name: note.values[name] for name in levels if name in note.values}
    return groups | {PATIENT: note.patient} | ({DATE: note.date} if note.date and DATE not in groups else {})


def chain_of(groups: Sequence[Mapping[str, str]], levels: Sequence[str]) -> tuple[str, ...]:
    """The levels that nest, coarsest first, including the patient's.

    Each level is inserted where the nodes below it nest in its nodes, and its nodes nest in the level above:
    directly above the patient, else further up, else below. A level that fits nowhere stays a group of records,
    which a request may name too. Levels named first are inserted first.
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
    """True if each node of one level has a single node of another."""
    parents: dict[str, str] = {}
    both = (row for row in groups if below in row and above in row)
    return all(parents.setdefault(row[below], row[above]) == row[above] for row in both)


def identifier_columns(columns: Iterable[str]) -> list[str]:
    """Columns named like a kind of identifier: name, mrn, birth_date, phone, address, ..."""
    kinds = {name: kind_of(name) for name in columns}
    return [name for name, kind in kinds.items() if kind.form != "none" and kind.name not in (UNKNOWN, *NOT_HERS)]


@dataclass(frozen=True)
class IdentifierReader:
    """Identifiers of notes as they occur in the text; those from columns come first. Each note is searched once.

    Attributes:
        columns: columns whose values are searched.
        detector: name of a detector as in `audit identifiers`; ``none`` for columns only.
    """

    columns: Sequence[str]
    detector: str
    quiet: bool = True
    _known: dict[str, tuple[Identifier, ...]] = field(default_factory=dict, repr=False)

    def of_note(self, note: PatientNote) -> tuple[Identifier, ...]:
        """The identifiers of a note that was searched."""
        return self._known[note.note_id]

    def searched(self, notes: Sequence[PatientNote]) -> Sequence[PatientNote]:
        """The notes, after those that are new were searched.

        Raises:
            UnknownNameError: no such detector.
            InputError: a dependency of the detector is missing.
        """
        fresh = [note for note in notes if note.note_id not in self._known]
        if not fresh:
            return notes
        finder = None if self.detector == "none" else make_detector(self.detector)
        with progress("identifiers in notes", len(fresh), quiet=self.quiet) as advance:
            for start in range(0, len(fresh), _BATCH):
                batch = fresh[start : start + _BATCH]
                for note, detected in zip(batch, _detect_identifiers(finder, batch), strict=True):
                    self._known[note.note_id] = _both_kinds([*_declared_identifiers(note, self.columns)], detected)
                advance(len(batch))
        return notes


def _both_kinds(declared: Sequence[Identifier], detected: Sequence[Identifier]) -> tuple[Identifier, ...]:
    """Declared identifiers, and those detected that are no part of one of these, nor hold one."""
    values = [identifier.value for identifier in declared]
    fresh = (i for i in detected if not any(i.value in value or value in i.value for value in values))
    return tuple(dict.fromkeys([*declared, *fresh]))


def _detect_identifiers(finder: Detector | None, notes: Sequence[PatientNote]) -> list[list[Identifier]]:
    if finder is None:
        return [[] for _ in notes]
    spans_by_note = finder.find([note.text for note in notes])
    return [
        [
            Identifier(span.kind, note.text[span.start : span.end])
            for span in spans
            if span.score >= LEAST_SCORE and span.kind not in NOT_HERS and span.end - span.start >= SHORTEST
        ]
        for note, spans in zip(notes, spans_by_note, strict=True)
    ]


def _declared_identifiers(note: PatientNote, columns: Sequence[str]) -> Iterator[Identifier]:
    plain = {_plain(name): note.values.get(name, "") for name in columns}
    if plain.get("first_name") and plain.get("last_name"):
        plain.setdefault("name", f"{plain['first_name']} {plain['last_name']}")
    for name in sorted(plain, key=lambda name: name not in ("name", *_FULL_NAMES)):
        value = plain[name]
        # Most patterns are of one note: the plain search spares their compilation where nothing is found.
        whole = len(value) >= SHORTEST and value in note.text
        if whole and re.search(rf"(?<!\w){re.escape(value)}(?!\w)", note.text):
            yield Identifier("name" if name in _FULL_NAMES else name, value)


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")
