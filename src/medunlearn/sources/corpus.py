"""Corpora: named collections of texts that a model may have been trained on, in several formats.

Text files or a folder of them (a file is a document), tables (CSV, TSV, JSONL, JSON, Parquet: a row is a document),
a benchmark's folder (its records, with their subjects and identifiers), Open-i's reports, and ``hub:org/name``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from pathlib import Path
from typing import Any

from medunlearn.data.benchmark import MANIFEST, Benchmark
from medunlearn.data.data_use import DataUse, use_of_file
from medunlearn.data.records import FOLDS, Identifier, Record
from medunlearn.data.storage import sha256_of, sha256_of_json
from medunlearn.errors import ConfigError, InputError, SourceError, unknown_name
from medunlearn.input_files import path_text, read_text
from medunlearn.sources.hub import PREFIX, files_of
from medunlearn.sources.notes import PMC, PMC_FIELDS, NoteColumns, read_notes
from medunlearn.sources.table_files import READERS, Row, column_names, read_rows, reader_of, refuse_bad_rows

TEXT_FILES = (".txt", ".md", ".text")
TEXT_COLUMNS = ("text", "note", "content", "document", "body", "abstract", "article", "report")
OPENI_FIELDS = frozenset(("uid", "MeSH", "Problems", "image", "indication", "comparison", "findings", "impression"))
OPENI_SECTIONS = ("indication", "comparison", "findings", "impression")
_NO_TEXT = "has no text in"


@dataclass(frozen=True, slots=True)
class Document:
    """One text; its id is unique among all corpora read together.

    The subject is the record's own id if unknown. ``identifiers`` and ``copies`` (in the training text) are None if
    unknown. ``values``: column -> its text, for prompts with that column.
    """

    record_id: str
    text: str
    subject: str
    identifiers: tuple[Identifier, ...] | None = None
    copies: int | None = None
    values: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Corpus:
    """A named collection of documents.

    Attributes:
        kind: ``text files``, ``table``, ``benchmark`` or ``open-i``.
        fingerprint: SHA-256 of the content.
        data_use: None if unknown.
        excluded: number of excluded documents, by reason.
        invented: True for invented texts.
    """

    name: str
    documents: tuple[Document, ...]
    kind: str
    fingerprint: str
    data_use: DataUse | None = None
    excluded: Mapping[str, int] = field(default_factory=dict)
    invented: bool = False

    def facts(self) -> dict[str, Any]:
        """Facts for a run's record; no text."""
        names = ("name", "kind", "documents", "excluded", "data_use", "fingerprint", "invented")
        facts = {name: getattr(self, name) for name in names}
        return facts | {"documents": len(self.documents), "excluded": dict(self.excluded)}


def read_corpora(
    words: Sequence[str], columns: NoteColumns | None = None, values: Sequence[str] = ()
) -> list[Corpus]:
    """Read corpora from ``PATH`` or ``NAME=PATH``; the default name is that of the file or folder.

    A benchmark with held-out records gives a second corpus of these, ``NAME_holdout``. Duplicate document ids of a
    later corpus are prefixed with its name.

    Args:
        columns: columns of tables: text, id, subject, identifiers, copies.
        values: further columns to read. In a benchmark these are levels, and types of identifiers (the first of
            each type).

    Raises:
        ConfigError: a missing column, or an unknown text column.
        InputError: two corpora of the same name, or a path of another kind.
        SourceError: a file that cannot be read.
    """
    by_name: dict[str, Corpus] = {}
    ids: set[str] = set()
    for corpus in (
        corpus for word in words for corpus in _read(*_split_name(word), columns or NoteColumns(), values)
    ):
        if corpus.name in by_name:
            raise InputError(f"Two corpora are called {corpus.name!r}. Name them: NAME=PATH.")
        if any(document.record_id in ids for document in corpus.documents):
            corpus = replace(corpus, documents=tuple(_rename(corpus.name, text) for text in corpus.documents))
        ids |= {document.record_id for document in corpus.documents}
        by_name[corpus.name] = corpus
    for name, corpus in by_name.items():
        if not corpus.documents:
            raise SourceError(f"The corpus {name!r} holds no text.")
    return list(by_name.values())


def _rename(corpus: str, document: Document) -> Document:
    record_id = f"{corpus}/{document.record_id}"
    subject = record_id if document.subject == document.record_id else document.subject
    return replace(document, record_id=record_id, subject=subject)


def _split_name(word: str) -> tuple[str, str]:
    name, equals, path = word.partition("=")
    if equals and name and "/" not in name:
        return name, path
    return Path(word.removeprefix(PREFIX)).name.split(".")[0] or Path(word).resolve().name, word


def _read(name: str, where: str, columns: NoteColumns, values: Sequence[str]) -> list[Corpus]:
    path = Path(where)
    if where.startswith(PREFIX):
        return [_table(name, files_of(where), columns, values)]
    if not path.exists():
        raise InputError(
            f"There is no corpus {where}. Give a text file, a table, a folder of either, or a benchmark's folder."
        )
    if (path / MANIFEST).exists():
        return _benchmark(name, Benchmark.load(path), values)
    if texts := text_files_in(path):
        return [_texts(name, path if path.is_dir() else path.parent, texts, values)]
    if path.is_dir() or reader_of(path):
        return [_table(name, files_of(path), columns, values)]
    endings = ", ".join((*TEXT_FILES, *READERS))
    raise InputError(f"{path} is not a corpus: files with these endings are read: {endings}.")


def text_files_in(path: Path) -> list[Path]:
    """A text file, or all text files of a folder and its subfolders, except README and LICENSE files of tables."""
    if not path.is_dir():
        return [path] if path.suffix.lower() in TEXT_FILES else []
    endings = {*TEXT_FILES, *READERS}
    files = sorted(file for file in path.rglob("*") if file.suffix.lower() in endings and file.is_file())
    has_tables = any(file.suffix.lower() in READERS for file in files)
    texts = [file for file in files if file.suffix.lower() in TEXT_FILES]
    return [file for file in texts if not (has_tables and file.stem.upper() in ("README", "LICENSE"))]


def _texts(name: str, folder: Path, files: Sequence[Path], values: Sequence[str]) -> Corpus:
    if values:
        raise ConfigError(
            [f"--prompt: {name} is text files, which have no column {values[0]!r}. Give the texts as a table."]
        )
    documents = []
    names = [file.relative_to(folder) for file in files]
    stems = Counter(path.with_suffix("") for path in names)
    for file, path in zip(files, names, strict=True):
        record_id = path_text(path if stems[path.with_suffix("")] > 1 else path.with_suffix(""))
        documents.append(Document(record_id, read_text(file, SourceError), record_id))
    return _without_empty(Corpus(name, tuple(documents), "text files", _hash(files), use_of_file(folder)))


def _benchmark(name: str, benchmark: Benchmark, values: Sequence[str]) -> list[Corpus]:
    if values:
        _refuse_unknown(values, {name for record in benchmark.records for name in _values_of(record)})
    corpora = []
    for fold in FOLDS:
        documents = tuple(
            Document(
                record.record_id,
                record.text,
                benchmark.subject(record.record_id),
                record.identifiers,
                values=_values_of(record) if values else {},
            )
            for record in benchmark.records
            if record.fold == fold and record.text.strip()
        )
        if documents:
            corpus_name = name if fold == "train" else f"{name}_{fold}"
            corpora.append(
                Corpus(
                    corpus_name,
                    documents,
                    "benchmark",
                    f"{benchmark.fingerprint}/{fold}",
                    data_use=benchmark.data_use,
                    invented=bool(benchmark.notes.get("invented")),
                )
            )
    return corpora


def _values_of(record: Record) -> dict[str, str]:
    """A record's levels, and the first of its identifiers of each type."""
    first = {identifier.type: identifier.value for identifier in reversed(record.identifiers)}
    return {**record.groups, **first}


def _refuse_unknown(values: Sequence[str], columns: Collection[str]) -> None:
    if problems := [f"--prompt: {unknown_name('column', name, columns)}" for name in values if name not in columns]:
        raise ConfigError(problems)


def _table(name: str, files: Sequence[Path], user_columns: NoteColumns, values: Sequence[str]) -> Corpus:
    names = column_names(files)
    if not names:
        raise SourceError(f"{files[0]} holds no row that can be read.")
    _refuse_unknown(values, names)
    if OPENI_FIELDS.issubset(names) and user_columns.text is None:
        return _openi(name, files, values)
    columns = _choose(files[0], names, user_columns)
    notes = read_notes(files, columns, values=values, skip_bad_rows=True)
    bad = [row for row in notes.excluded if not row[1].startswith(_NO_TEXT)]
    refuse_bad_rows(bad, files[0], skippable=False)
    documents = tuple(
        Document(note.note_id, note.text, note.subject, note.identifiers, note.copies, note.values)
        for note in notes.notes
    )
    empty = {"empty": len(notes.excluded)} if notes.excluded else {}
    use = use_of_file(files[0], "open" if notes.is_pmc else None)
    return Corpus(name, documents, "table", _hash(files), use, empty)


def _choose(file: Path, names: Sequence[str], user_columns: NoteColumns) -> NoteColumns:
    """The columns to read; the text column is guessed if unambiguous."""
    if user_columns.text is None and PMC_FIELDS.issubset(names):
        own_id, own_subject = user_columns.id or PMC.id, user_columns.subject or PMC.subject
        return replace(user_columns, text=PMC.text, id=own_id, subject=own_subject)
    column = user_columns.text or _text_column(file, names)
    if column is None:
        raise ConfigError(
            [f"which column of {file} contains the text? Set --text-column to one of: {', '.join(names)}."]
        )
    if column not in names:
        raise ConfigError([f"--text-column: {unknown_name('column', column, names)}"])
    return replace(user_columns, text=column)


def _text_column(file: Path, names: Sequence[str]) -> str | None:
    """The only column with a usual name, or else the only text column."""
    candidates = [name for name in names if name.lower() in TEXT_COLUMNS]
    if not candidates:
        rows = [row for _, row in islice(read_rows(file), 20) if not isinstance(row, str)]
        candidates = [name for name in names if any(isinstance(row.get(name), str) for row in rows)]
    return candidates[0] if len(candidates) == 1 else None


def _openi(name: str, files: Sequence[Path], values: Sequence[str]) -> Corpus:
    """Reports of the Indiana University collection, with concatenated sections; each study is its own patient."""
    documents: dict[str, Document] = {}
    for place, row in chain.from_iterable(map(read_rows, files)):
        if isinstance(row, str):
            raise SourceError(f"{place} {row}. Correct the line and try again.")
        uid = str(row.get("uid") or "").strip()
        if not uid or uid in documents:
            problem = "its uid stands in an earlier row too" if uid else "a report without uid"
            raise SourceError(f"{place}: {problem}. Use the file as published.")
        columns = {column: str(row.get(column) or "").strip() for column in values}
        documents[uid] = Document(uid, openi_text(row), uid, values=columns)
    texts = tuple(documents.values())
    return _without_empty(Corpus(name, texts, "open-i", _hash(files), use_of_file(files[0], "open")))


def openi_text(row: Row) -> str:
    """A report of the Indiana University collection: one line per section, with its name first."""
    sections = [(section, str(row.get(section) or "").strip()) for section in OPENI_SECTIONS]
    return "\n".join(f"{section.capitalize()}: {words}" for section, words in sections if words)


def _without_empty(corpus: Corpus) -> Corpus:
    full = tuple(document for document in corpus.documents if document.text.strip())
    empty = len(corpus.documents) - len(full)
    return replace(corpus, documents=full, excluded={"empty": empty} if empty else {})


def _hash(files: Sequence[Path]) -> str:
    return sha256_of_json([[file.name, sha256_of(file)] for file in files])
