"""Corpora: named collections of texts that a model may have been trained on.

Notes in any form (:mod:`~medunlearn.sources.patient_notes`), or a benchmark's folder: its records, with their
subjects and identifiers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from medunlearn.data.benchmark import MANIFEST, Benchmark
from medunlearn.data.data_use import DataUse, use_of_file
from medunlearn.data.records import FOLDS, Record
from medunlearn.data.storage import sha256_of, sha256_of_json
from medunlearn.errors import ConfigError, InputError, SourceError, unknown_name
from medunlearn.sources.hub import PREFIX
from medunlearn.sources.note_fields import NoteFields
from medunlearn.sources.note_forms import TEXT_FILES
from medunlearn.sources.patient_notes import PatientNote, join_persons, read_patient_notes
from medunlearn.sources.table_files import READERS, reader_of


@dataclass(frozen=True)
class Corpus:
    """A named collection of texts.

    Attributes:
        documents: their ids are unique among all corpora read together.
        kind: ``benchmark``, or the form of notes (``table``, ``text files``, ``FHIR``, ...).
        fingerprint: SHA-256 of the content.
        data_use: None if unknown.
        excluded: number of excluded documents, by reason.
        invented: True for invented texts.
        columns: columns that were read, by field; none for a benchmark.
        held_out: True if the notes say that no model is trained on them.
    """

    name: str
    documents: tuple[PatientNote, ...]
    kind: str
    fingerprint: str
    data_use: DataUse | None = None
    excluded: Mapping[str, int] = field(default_factory=dict)
    invented: bool = False
    columns: Mapping[str, str] = field(default_factory=dict)
    held_out: bool = False

    def facts(self) -> dict[str, Any]:
        """Facts for a run's record; no text."""
        names = ("name", "kind", "data_use", "fingerprint", "invented", "columns", "held_out")
        counts = {"documents": len(self.documents), "excluded": dict(self.excluded)}
        return {name: getattr(self, name) for name in names} | counts


def read_corpora(
    words: Sequence[str],
    columns: NoteFields | None = None,
    required: Sequence[tuple[str, str]] = (),
    same_person: Mapping[str, str] | None = None,
) -> list[Corpus]:
    """Read corpora from ``PATH`` or ``NAME=PATH``; the default name is that of the file or folder.

    Texts that no model is trained on give a second corpus, ``NAME_holdout``. Duplicate document ids of a later
    corpus are prefixed with its name.

    Args:
        columns: columns named by the user.
        required: further columns, each with the flag that names it. In a benchmark these are levels, and types of
            identifiers (the first of each type).
        same_person: id of a patient -> another one of the same person, which replaces it.

    Raises:
        ConfigError: a missing column, or an unknown text column.
        InputError: two corpora of the same name, or a path of another kind.
        SourceError: a file that cannot be read.
    """
    by_name: dict[str, Corpus] = {}
    ids: set[str] = set()
    for word in words:
        for corpus in _read(*_split_name(word), columns or NoteFields(), required):
            if corpus.name in by_name:
                raise InputError(f"Two corpora are called {corpus.name!r}. Name them: NAME=PATH.")
            documents = corpus.documents
            if any(document.note_id in ids for document in documents):
                documents = tuple(_rename(corpus.name, text) for text in documents)
            ids |= {document.note_id for document in documents}
            by_name[corpus.name] = replace(corpus, documents=join_persons(documents, same_person or {}))
    return list(by_name.values())


def _rename(corpus: str, document: PatientNote) -> PatientNote:
    note_id = f"{corpus}/{document.note_id}"
    patient = note_id if document.patient == document.note_id else document.patient
    return replace(document, note_id=note_id, patient=patient)


def _split_name(word: str) -> tuple[str, str]:
    name, equals, path = word.partition("=")
    if equals and name and "/" not in name:
        return name, path
    return Path(word.removeprefix(PREFIX)).name.split(".")[0] or Path(word).resolve().name, word


def _read(name: str, where: str, named: NoteFields, required: Sequence[tuple[str, str]]) -> list[Corpus]:
    path = Path(where)
    if not where.startswith(PREFIX):
        if not path.exists():
            raise InputError(
                f"There is no corpus {where}. Give notes (a table, FHIR, text files) or a benchmark's folder."
            )
        if (path / MANIFEST).exists():
            return _benchmark(name, Benchmark.load(path), required)
        if not (path.is_dir() or reader_of(path) or path.suffix.lower() in (*TEXT_FILES, ".xml")):
            endings = ", ".join((*TEXT_FILES, ".xml", *READERS))
            raise InputError(f"{path} is not a corpus: files with these endings are read: {endings}.")
    read = read_patient_notes(where, named, required=required, needs_patient=False)
    columns = {key: value for key in NoteFields.__slots__ if (value := getattr(read.fields, key)) is not None}
    # Columns say which text is whose, so they belong to what an audit was made of.
    content = [[file.name, sha256_of(file)] for file in read.files]
    fingerprint = sha256_of_json(content if "patient" not in columns else [content, columns])
    where_from = path if path.is_dir() else read.files[0]
    use = use_of_file(where_from, "open" if read.is_open else None)
    sides = {side: tuple(n for n in read.notes if n.held_out is side) for side in (False, True)}
    return [
        Corpus(
            f"{name}_holdout" if side else name,
            notes,
            read.form,
            fingerprint,
            use,
            read.excluded,
            columns=columns,
            held_out=side,
        )
        for side, notes in sides.items()
        if notes
    ]


def _benchmark(name: str, benchmark: Benchmark, required: Sequence[tuple[str, str]]) -> list[Corpus]:
    present = {name for record in benchmark.records for name in _values_of(record)} if required else {}
    problems = [f"{flag}: {unknown_name('column', c, present)}" for flag, c in required if c not in present]
    if problems:
        raise ConfigError(problems)
    corpora = []
    for fold in FOLDS:
        documents = tuple(
            PatientNote(
                record.record_id,
                record.text,
                benchmark.subject(record.record_id),
                identifiers=record.identifiers,
                values=_values_of(record) if required else {},
            )
            for record in benchmark.records
            if record.fold == fold and record.text.strip()
        )
        if documents:
            corpora.append(
                Corpus(
                    name if fold == "train" else f"{name}_{fold}",
                    documents,
                    "benchmark",
                    f"{benchmark.fingerprint}/{fold}",
                    data_use=benchmark.data_use,
                    invented=bool(benchmark.notes.get("invented")),
                )
            )
    if not corpora:
        raise SourceError(f"The corpus {name!r} holds no text.")
    return corpora


def _values_of(record: Record) -> dict[str, str]:
    """A record's levels, and the first of its identifiers of each type."""
    first = {identifier.type: identifier.value for identifier in reversed(record.identifiers)}
    return {**record.groups, **first}
