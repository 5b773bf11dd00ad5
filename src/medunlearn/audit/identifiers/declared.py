"""Identifiers that a table of notes declares: columns named like a kind of identifier, and lists of identifiers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from medunlearn.audit.identifiers.kinds import UNKNOWN, kind_of
from medunlearn.data.records import Identifier
from medunlearn.sources.corpus import Corpus
from medunlearn.sources.patient_notes import PatientNote

NOT_HERS = ("hospital", "profession", "age")
"""Kinds that many patients share; of columns, a number like 54 would be found everywhere."""
SHORTEST = 3
"""Characters of an identifier of a column."""
NAMES = ("name", "patient_name", "full_name")
NAME_PARTS = ("first_name", "last_name")
_WHOLE = re.compile(r"(\d+)\.0+")


def identifier_columns(columns: Iterable[str]) -> list[str]:
    """Columns named like a kind of identifier: name, mrn, birth_date, phone, address, ..."""
    kinds = {name: kind_of(name) for name in columns}
    return [name for name, kind in kinds.items() if kind.form != "none" and kind.name not in (UNKNOWN, *NOT_HERS)]


def declared_identifiers(note: PatientNote, columns: Sequence[str]) -> Iterator[Identifier]:
    """Identifiers of a note's row, names first, whether they stand in its text or not; then those that it lists."""
    values = column_values(note.values, columns)
    for name in sorted(values, key=lambda name: name not in NAMES):
        for value in filter(None, map(str.strip, values[name].split(";"))):
            if len(value) >= SHORTEST:
                yield Identifier("name" if name in NAMES else name, value)
    yield from (own for own in note.identifiers or () if kind_of(own.type).name not in NOT_HERS)


def column_values(values: Mapping[str, str], columns: Iterable[str]) -> dict[str, str]:
    """Values of columns by their names in lower case with underscores; first and last name also as ``name``.

    Whole numbers lose the ``.0`` of spreadsheets.
    """
    plain = {plain_name(name): _WHOLE.sub(r"\1", value) for name in columns if (value := values.get(name, ""))}
    if all(plain.get(part) for part in NAME_PARTS):
        plain.setdefault("name", " ".join(plain[part] for part in NAME_PARTS))
    return plain


def with_declared(corpus: Corpus, columns: Sequence[str]) -> Corpus:
    """The corpus with the identifiers that its columns declare.

    Args:
        columns: those named by the user; none: those named as an identifier.
    """
    columns = columns or identifier_columns(
        dict.fromkeys(name for note in corpus.documents for name in note.values)
    )
    if corpus.kind == "benchmark" or not columns:
        return corpus
    # An id that a hospital keeps to itself may be a number that many texts have.
    ids = {plain_name(name) for field, name in corpus.columns.items() if field in ("patient", "id")}

    def own(note: PatientNote) -> Iterator[Identifier]:
        declared = declared_identifiers(note, columns)
        return (one for one in declared if one.type not in ids or is_in(one.value, note.text))

    return replace(
        corpus, documents=tuple(replace(note, identifiers=tuple(own(note))) for note in corpus.documents)
    )


def is_in(value: str, text: str) -> bool:
    """True if a text has a value as a whole word or words."""
    return value in text and re.search(rf"(?<!\w){re.escape(value)}(?!\w)", text) is not None


def plain_name(name: str) -> str:
    """A column's name in lower case with underscores."""
    return re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")
