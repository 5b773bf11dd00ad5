"""Search of every file below some folders for a named subject. What is not read is listed with its reason."""

from __future__ import annotations

import os
import stat
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from medunlearn.data.benchmark import MANIFEST, Benchmark
from medunlearn.data.storage import sha256_of
from medunlearn.errors import InputError
from medunlearn.progress import progress
from medunlearn.request.holders.contents import TABLES, UnreadableError, pieces
from medunlearn.request.holders.holder_log import Holder, Holders, How, UnreadFile
from medunlearn.request.holders.traces import SubjectTraces, subject_traces, words_of
from medunlearn.request.holders.training_history import TrainingHistory
from medunlearn.results.runs import FILE

WEIGHTS = frozenset({".safetensors", ".bin", ".pt", ".pth", ".gguf"})
IMAGES = frozenset({".png", ".jpg", ".jpeg", ".gif", ".bmp", ".tif", ".tiff", ".webp", ".dcm"})
TOKENIZER = "tokenizer.json"
_SCORES = ("scores.parquet", "summary.parquet", "groups.parquet", "private.parquet", "image_control.parquet")
_KIND_OF_NAME = {
    FILE: "run",
    **dict.fromkeys(_SCORES, "scores"),
    **dict.fromkeys((TOKENIZER, "vocab.json", "merges.txt"), "tokenizer"),
}


def find_holders(
    folders: Sequence[Path],
    benchmark: Benchmark | None,
    subject: str | None = None,
    *,
    identifiers: Iterable[str] = (),
    quiet: bool = False,
) -> Holders:
    """Search every file at and below some folders for a subject.

    Symbolic links are not followed. Links, pipes, devices, sockets, broken files, formats without a reader, images
    of no benchmark, and weights without a recorded training are listed as unread.

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
    search.history = TrainingHistory.of(paths, benchmark, search.traces)
    # Stores come last: other tables say which of their answers are about the subject.
    order = sorted(paths, key=lambda path: (".sqlite" in path.name, str(path)))
    with progress("files", len(order), quiet=quiet) as advance:
        for path in order:
            search.look(path, str(path.relative_to(paths[path])) if path != paths[path] else path.name)
            advance()
    search.judge_copies()
    return search.log()


@dataclass
class _Search:
    """A search in progress.

    Attributes:
        sizes: file -> bytes, of files that were searched at least in part.
        keys: requests to language models that a table links to the subject.
        unrecorded: weights whose training no run records.
    """

    traces: SubjectTraces
    benchmark: Benchmark | None
    history: TrainingHistory = field(default_factory=TrainingHistory)
    holders: dict[Path, Holder] = field(default_factory=dict)
    unread: list[UnreadFile] = field(default_factory=list)
    sizes: dict[Path, int] = field(default_factory=dict)
    keys: set[str] = field(default_factory=set)
    unrecorded: list[Path] = field(default_factory=list)
    _vocabularies: dict[str, int] = field(default_factory=dict)

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
        self.unread.append(UnreadFile(path, reason))

    def look(self, path: Path, name: str) -> None:
        """Search a file; ``name`` is its path below the requested folder."""
        evidence: Counter[How] = Counter()
        try:
            if self.traces.phrases.count(words_of(name)):
                evidence["name of the file"] += 1
            try:
                self._read(path, evidence)
            except UnreadableError as error:
                self.miss(path, str(error))
            if number := self.history.tables.get(path, 0):
                evidence["record"] += number
            self.sizes[path] = path.stat().st_size
            if positive := dict(+evidence):
                self.holders[path] = Holder(path, kind_of(path), self.sizes[path], sha256_of(path), positive)
        except OSError as error:
            self.miss(path, f"cannot be read: {error.strerror or error}")

    def _read(self, path: Path, evidence: Counter[How]) -> None:
        if path.name == TOKENIZER:
            self._vocabulary(path, evidence)
        elif path.suffix.lower() in IMAGES:
            self._image(path, evidence)
        elif path.suffix in WEIGHTS:
            self._weights(path, evidence)
        else:
            self._text(path, evidence)

    def _text(self, path: Path, evidence: Counter[How]) -> None:
        phrases = self.traces.phrases
        for piece in pieces(path, phrases.longest - 1):
            counts = phrases.count(piece.words, piece.fresh)
            counts["id"] += sum(value in self.traces.exact for value in piece.values)
            evidence.update(counts)
            if piece.key is not None and path.suffix == ".sqlite":
                evidence["answer about"] += piece.key in self.keys
            elif piece.key is not None and counts.total():
                self.keys.add(piece.key)

    def _image(self, path: Path, evidence: Counter[How]) -> None:
        if sha256_of(path) in self.traces.images or self.history.images.get(path, False):
            evidence["image"] += 1
        elif path not in self.history.images:
            raise UnreadableError("an image of no benchmark here: only compared with the subject's, by its bytes")

    def _weights(self, path: Path, evidence: Counter[How]) -> None:
        trained = self.history.is_trained_on_subject(path)
        if trained:
            evidence["trained on"] += 1
        elif path.suffix != ".safetensors":
            raise UnreadableError(f"weights in a format that is not read ({path.suffix})")
        elif trained is None:
            self.unrecorded.append(path)
        if path.suffix == ".safetensors":
            self._text(path, evidence)

    def judge_copies(self) -> None:
        """Attribute weights without a record to a run if they equal the run's."""
        for path in self.unrecorded:
            try:
                trained = self.history.is_copy_trained_on_subject(path)
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
        if self.history.has_foreign_tokenizer(path):
            return
        if self.benchmark is None or not self.traces.subjects:
            raise UnreadableError("a vocabulary: whose strings it holds can be told with the benchmark alone")
        from medunlearn.audit.units import read_tokenizer
        from medunlearn.errors import ModelError
        from medunlearn.models.vocabulary import Vocabulary, vocabulary_owners

        hashed = sha256_of(path)
        if hashed not in self._vocabularies:
            try:
                vocabulary = Vocabulary.of(read_tokenizer(path))
            except ModelError:
                raise UnreadableError("cannot be read as a tokenizer") from None
            owners = vocabulary_owners(vocabulary, self.benchmark, self.traces.subjects)
            self._vocabularies[hashed] = len(owners.forgotten)
        evidence["token of the vocabulary"] += self._vocabularies[hashed]

    def log(self) -> Holders:
        """The log, sorted by path; files that were read in part count as unread."""
        unread = {file.path for file in self.unread}
        sizes = [size for path, size in self.sizes.items() if path not in unread]
        return Holders(
            tuple(sorted(self.holders.values(), key=lambda holder: str(holder.path))),
            tuple(sorted(self.unread, key=lambda file: str(file.path))),
            len(sizes),
            sum(sizes),
            self.traces.left_out,
        )


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
    if suffix in TABLES:
        return "table"
    return "text" if suffix in {".json", ".jsonl", ".md", ".txt", ".html", ".yaml"} else "other"
