"""Log of every file that still contains a named subject, how it does so, and every file that was not searched."""

from __future__ import annotations

import json
import os
import stat
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pandas as pd

from medunlearn.cases.holders.contents import IMAGES, TABLES, UnreadableError, pieces
from medunlearn.cases.holders.lineage import Lineage
from medunlearn.cases.holders.traces import SubjectTraces, Trace, subject_traces, words_of
from medunlearn.data.benchmark import MANIFEST, Benchmark
from medunlearn.data.escaping import csv_of_frame
from medunlearn.data.storage import sha256_of, write_atomically
from medunlearn.errors import InputError
from medunlearn.progress import progress
from medunlearn.results.runs import FILE

How = (
    Trace | Literal["record", "image", "name of the file", "trained on", "token of the vocabulary", "answer about"]
)
"""Ways in which a file holds a subject, besides traces in its text.

Weights are trained on it; a vocabulary's token is in its texts alone; a stored answer is to a request that a table
links to it.
"""
WEIGHTS = frozenset({".safetensors", ".bin", ".pt", ".pth", ".gguf"})
TOKENIZER = "tokenizer.json"
LOGS = (".parquet", ".csv", ".json")
_SCORES = ("scores.parquet", "summary.parquet", "groups.parquet", "private.parquet", "image_control.parquet")
_KIND_OF_NAME = {
    FILE: "run",
    **dict.fromkeys(_SCORES, "scores"),
    **dict.fromkeys((TOKENIZER, "vocab.json", "merges.txt"), "tokenizer"),
}
COLUMNS = ("path", "kind", "bytes", "sha256", "how", "evidence", "reason")


@dataclass(frozen=True, slots=True)
class Holder:
    """A file that contains the subject.

    Attributes:
        kind: type of the file: ``benchmark``, ``run``, ``weights``, ``tokenizer``, ``responses``, ``scores``,
            ``store``, ``report``, ``sheet``, ``image``, ``table``, ``text`` or ``other``.
        evidence: kind of trace -> number of occurrences; for text, of runs of eight words.
    """

    path: Path
    kind: str
    bytes: int
    sha256: str
    evidence: Mapping[How, int]


@dataclass(frozen=True, slots=True)
class NotLookedAt:
    """A file, or a part of it, that could not be searched."""

    path: Path
    reason: str


@dataclass(frozen=True)
class Holders:
    """The log of a search.

    Attributes:
        holders: files that hold the subject, by path.
        not_looked_at: files that could not be searched.
        files, bytes: number of files and bytes read.
        identifiers_left_out: identifiers shared with others, or too short to search for.
    """

    holders: tuple[Holder, ...]
    not_looked_at: tuple[NotLookedAt, ...]
    files: int = 0
    bytes: int = 0
    identifiers_left_out: int = 0

    @property
    def complete(self) -> bool:
        """True if every file was searched."""
        return not self.not_looked_at

    def table(self) -> pd.DataFrame:
        """One row per file and kind of trace, and one per unsearched file with a reason; no text."""
        rows: list[dict[str, Any]] = [
            {
                "path": _printable(holder.path),
                "kind": holder.kind,
                "bytes": holder.bytes,
                "sha256": holder.sha256,
                "how": how,
                "evidence": number,
                "reason": "",
            }
            for holder in self.holders
            for how, number in holder.evidence.items()
        ]
        rows += [
            {"path": _printable(file.path), "how": "not looked at", "reason": file.reason}
            for file in self.not_looked_at
        ]
        table = pd.DataFrame(rows, columns=list(COLUMNS))
        return table.astype({"bytes": "Int64", "evidence": "Int64"})

    def write(self, path: Path) -> Path:
        """Write the log as Parquet, CSV or JSON, readable only by its owner.

        Raises:
            InputError: another suffix.
            StorageError: the disk refused.
        """
        table, suffix = self.table(), path.suffix.lower()
        if suffix not in LOGS:
            raise InputError(f"{path}: the log is written as {', '.join(LOGS)}.")

        def write(part: Path) -> None:
            os.close(os.open(part, os.O_CREAT | os.O_WRONLY, 0o600))
            if suffix == ".parquet":
                table.to_parquet(part)
            elif suffix == ".csv":
                part.write_text(csv_of_frame(table), encoding="utf-8")
            else:
                rows = json.loads(table.to_json(orient="records"))
                facts = {"complete": self.complete, "files": self.files, "bytes": self.bytes, "rows": rows}
                part.write_text(json.dumps(facts, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")

        write_atomically(path, write)
        return path


def _printable(path: Path) -> str:
    """A path as text; bytes that are not UTF-8 are escaped."""
    return os.fsencode(path).decode(errors="backslashreplace")


def find_holders(
    folders: Sequence[Path],
    benchmark: Benchmark | None,
    subject: str | None = None,
    *,
    identifiers: Iterable[str] = (),
    quiet: bool = False,
) -> Holders:
    """Search every file at and below some folders for a subject.

    Symbolic links are not followed. Links, pipes, devices, sockets, unreadable files, unknown binary formats and
    weights without a recorded training are listed as not searched.

    Args:
        benchmark: the subject's benchmark; gives records, identifiers and texts, and which runs saw them.
        subject: ``level=node,node`` as an ad-hoc split, a subject's id, or none for the identifiers only.
        identifiers: further names and numbers.

    Raises:
        InputError: no such folder, no subject, or an unknown level.
        UnknownNameError: no such node; the message never names another node.
    """
    if missing := [folder for folder in folders if not os.path.lexists(folder)]:
        raise InputError(f"There is no {missing[0]}.")
    search = _Search(subject_traces(benchmark, subject, identifiers), benchmark)
    # A folder within another is walked once; paths are told from the first.
    paths = {
        path: root for root in reversed([folder.resolve() for folder in folders]) for path in search.walk(root)
    }
    search.lineage = Lineage.of(paths, benchmark, search.traces)
    # Stores come last: other tables say which of their answers are about the subject.
    order = sorted(paths, key=lambda path: (".sqlite" in path.name, str(path)))
    with progress("files", len(order), quiet=quiet) as advance:
        for path in order:
            search.look(path, str(path.relative_to(paths[path])) if path != paths[path] else path.name)
            advance()
    search.judge_copies()
    return Holders(
        tuple(sorted(search.holders.values(), key=lambda holder: str(holder.path))),
        tuple(sorted(search.not_looked_at, key=lambda file: str(file.path))),
        search.files,
        search.bytes,
        search.traces.left_out,
    )


@dataclass
class _Search:
    traces: SubjectTraces
    benchmark: Benchmark | None
    lineage: Lineage = field(default_factory=Lineage)
    holders: dict[Path, Holder] = field(default_factory=dict)
    not_looked_at: list[NotLookedAt] = field(default_factory=list)
    files: int = 0
    bytes: int = 0
    _keys: set[str] = field(default_factory=set)
    _vocabularies: dict[str, int] = field(default_factory=dict)
    _unrecorded: list[Path] = field(default_factory=list)

    def walk(self, path: Path) -> Iterator[Path]:
        """Plain files at and below a path."""
        try:
            mode = path.lstat().st_mode
            if stat.S_ISDIR(mode):
                for name in sorted(os.listdir(path)):
                    yield from self.walk(path / name)
            elif stat.S_ISREG(mode):
                yield path
            elif stat.S_ISLNK(mode):
                self.miss(path, "a symbolic link, not followed")
            else:
                self.miss(path, "no plain file (pipe, device, socket)")
        except OSError as error:
            self.miss(path, f"cannot be read: {error.strerror}")

    def miss(self, path: Path, reason: str) -> None:
        self.not_looked_at.append(NotLookedAt(path, reason))

    def look(self, path: Path, name: str) -> None:
        """Search a file; ``name`` is its path below the requested folder."""
        evidence: Counter[How] = Counter()
        try:
            size, hashed = path.stat().st_size, None
            if path.suffix.lower() in IMAGES and (hashed := sha256_of(path)) in self.traces.images:
                evidence["image"] += 1
            if self.traces.phrases.count(words_of(name)):
                evidence["name of the file"] += 1
            if path.suffix in WEIGHTS:
                self._weights(path, evidence)
            if path.name == TOKENIZER:
                self._vocabulary(path, evidence)
            else:
                try:
                    self._text(path, evidence)
                except UnreadableError as error:
                    if path.suffix not in WEIGHTS:
                        self.miss(path, str(error))
            if number := self.lineage.tables.get(path, 0):
                evidence["record"] += number
            self.files, self.bytes = self.files + 1, self.bytes + size
            if positive := dict(+evidence):
                self.holders[path] = Holder(path, kind_of(path), size, hashed or sha256_of(path), positive)
        except OSError as error:
            self.miss(path, f"cannot be read: {error.strerror or error}")

    def _text(self, path: Path, evidence: Counter[How]) -> None:
        phrases = self.traces.phrases
        for piece in pieces(path, phrases.longest - 1):
            counts = phrases.count(piece.words, piece.fresh)
            counts["id"] += sum(value in self.traces.exact for value in piece.values)
            evidence.update(counts)
            if piece.key is not None and path.suffix == ".sqlite":
                evidence["answer about"] += piece.key in self._keys
            elif piece.key is not None and counts.total():
                self._keys.add(piece.key)

    def _weights(self, path: Path, evidence: Counter[How]) -> None:
        trained = self.lineage.trained(path)
        if trained is True:
            evidence["trained on"] += 1
        elif trained is None:
            self._unrecorded.append(path)

    def judge_copies(self) -> None:
        """Attribute weights without a record to a run if they equal the run's."""
        for path in self._unrecorded:
            try:
                trained = self.lineage.copied(path)
                if trained is None:
                    self.miss(path, "weights whose training is not recorded, or whose benchmark is not at hand")
                elif trained:
                    before = self.holders[path].evidence if path in self.holders else {}
                    evidence: dict[How, int] = {**before, "trained on": 1}
                    self.holders[path] = Holder(path, kind_of(path), path.stat().st_size, sha256_of(path), evidence)
            except OSError as error:
                self.miss(path, f"cannot be read: {error.strerror or error}")

    def _vocabulary(self, path: Path, evidence: Counter[How]) -> None:
        """Count tokenizer strings that only the subject's texts contain; an unrelated tokenizer has some by
        chance.
        """
        if self.lineage.has_foreign_tokenizer(path):
            return
        if self.benchmark is None or not self.traces.subjects:
            self.miss(path, "a vocabulary: whose strings it holds can be told with the benchmark alone")
            return
        from medunlearn.audit.units import read_tokenizer
        from medunlearn.errors import ModelError
        from medunlearn.models.vocabulary import Vocabulary, vocabulary_owners

        hashed = sha256_of(path)
        if hashed not in self._vocabularies:
            try:
                vocabulary = Vocabulary.of(read_tokenizer(path))
            except ModelError:
                self.miss(path, "cannot be read as a tokenizer")
                return
            owners = vocabulary_owners(vocabulary, self.benchmark, self.traces.subjects)
            self._vocabularies[hashed] = len(owners.forgotten)
        if number := self._vocabularies[hashed]:
            evidence["token of the vocabulary"] += number


def kind_of(path: Path) -> str:
    """Type of a file, by its name and place."""
    suffix = path.suffix.lower()
    if path.name in _KIND_OF_NAME:
        return _KIND_OF_NAME[path.name]
    if ".sqlite" in path.name:
        return "store"
    if (path.parent / MANIFEST).exists():
        return "benchmark"
    if suffix in WEIGHTS:
        return "weights"
    if suffix in IMAGES:
        return "image"
    if "responses" in path.parts:
        return "responses"
    for word in ("report", "sheet"):
        if path.stem.startswith(word):
            return word
    if suffix in {*TABLES, ".parquet"}:
        return "table"
    return "text" if suffix in {".json", ".jsonl", ".md", ".txt", ".html", ".yaml"} else "other"
