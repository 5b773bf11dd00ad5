"""Identifiers in notes: values of columns that stand in the text, and what a detector finds there."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from medunlearn.audit.identifiers.detectors import Detector, make_detector
from medunlearn.audit.identifiers.kinds import UNKNOWN, kind_of
from medunlearn.data.records import Identifier
from medunlearn.progress import progress
from medunlearn.sources.patient_notes import PatientNote

NOT_HERS = ("hospital", "profession", "age")
"""Kinds that many patients share; of columns, a number like 54 would be found everywhere."""
LEAST_SCORE = 0.8
SHORTEST = 3
"""Characters of an identifier."""
_BATCH = 256
_FULL_NAMES = ("patient_name", "full_name")


def identifier_columns(columns: Iterable[str]) -> list[str]:
    """Columns that are named as a kind of identifier: name, mrn, birth_date, phone, address, ..."""
    kinds = {name: kind_of(name) for name in columns}
    return [name for name, kind in kinds.items() if kind.form != "none" and kind.name not in (UNKNOWN, *NOT_HERS)]


def identify(
    notes: Sequence[PatientNote], columns: Sequence[str], detector: str, *, quiet: bool = True
) -> Iterator[tuple[Identifier, ...]]:
    """Identifiers of each note, as they stand in its text; those of columns come first.

    Args:
        columns: whose values are looked for.
        detector: its name, as `audit identifiers` takes it; ``none`` for columns alone.

    Raises:
        UnknownNameError: no such detector.
        InputError: the detector needs something that is not there.
    """
    finder = None if detector == "none" else make_detector(detector)
    with progress("identifiers in notes", len(notes), quiet=quiet) as advance:
        for start in range(0, len(notes), _BATCH):
            batch = notes[start : start + _BATCH]
            for note, detected in zip(batch, _detected(finder, batch), strict=True):
                declared = list(_declared(note, columns))
                known = [identifier.value for identifier in declared]
                fresh = (i for i in detected if not any(i.value in value or value in i.value for value in known))
                yield tuple(dict.fromkeys([*declared, *fresh]))
            advance(len(batch))


def _detected(finder: Detector | None, notes: Sequence[PatientNote]) -> list[list[Identifier]]:
    if finder is None:
        return [[] for _ in notes]
    found = finder.find([note.text for note in notes])
    return [
        [
            Identifier(span.kind, note.text[span.start : span.end])
            for span in spans
            if span.score >= LEAST_SCORE and span.kind not in NOT_HERS and span.end - span.start >= SHORTEST
        ]
        for note, spans in zip(notes, found, strict=True)
    ]


def _declared(note: PatientNote, columns: Sequence[str]) -> Iterator[Identifier]:
    plain = {_plain(name): note.values.get(name, "") for name in columns}
    if plain.get("first_name") and plain.get("last_name"):
        plain.setdefault("name", f"{plain['first_name']} {plain['last_name']}")
    for name in sorted(plain, key=lambda name: name not in ("name", *_FULL_NAMES)):
        value = plain[name]
        if len(value) >= SHORTEST and re.search(rf"(?<!\w){re.escape(value)}(?!\w)", note.text):
            yield Identifier("name" if name in _FULL_NAMES else name, value)


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")
