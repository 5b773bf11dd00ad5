"""A benchmark: records, questions and splits, and its folder on disk.

The folder holds ``records.parquet``, ``questions.parquet``, ``splits.parquet``, ``benchmark.yaml`` (the manifest:
provenance and a SHA-256 of each table) and a ``README.md`` data set card.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml

from medunlearn.data import storage, tables
from medunlearn.data.card import card
from medunlearn.data.checks import content_problems
from medunlearn.data.data_use import DataUse
from medunlearn.data.hierarchy import Hierarchy
from medunlearn.data.origins import Provenance, read_provenance, why_undecided, written_by
from medunlearn.data.records import FOLDS, KINDS, SIDES, Fold, Kind, Question, Record, Side
from medunlearn.data.splits import Split, request
from medunlearn.data.tables import question_rows, record_rows, split_rows
from medunlearn.errors import BenchmarkError, InputError, UnknownNameError, bullet_list
from medunlearn.input_files import yaml_content

MANIFEST = "benchmark.yaml"
TABLES = ("records.parquet", "questions.parquet", "splits.parquet")
TITLES = "titles.parquet"
"""Titles of the records, where they have some."""
PROVENANCE = "provenance"
"""Key of the manifest's notes with the origins of labels, texts and questions."""
_KEYS: Mapping[str, type] = {
    "name": str, "schema_version": int, "builder": str, "seed": int, "source": str, "licence": str,
    "data_use": str, "levels": list, "subject_level": str, "counts": dict, "notes": dict, "sha256": dict,
}  # fmt: skip
"""Keys of the manifest, in its order."""


@dataclass(frozen=True)
class Benchmark:
    """Records, questions about them, and splits into forget and retain sets.

    Attributes:
        levels: from the coarsest to the finest.
        subject_level: the level whose nodes are the subjects; statistics resample these.
        splits: by name.
        seed, source, licence, data_use: provenance; ``data_use`` is credentialed unless the builder declares it
            open.
        notes: facts about the build, e.g. how many rows were skipped.
        titles: record id -> one sentence that says what the record is about, where it has one; shown to people and
            judges, never to a model. Not part of its identity.
        folder: where it was read from or saved to; not part of its identity.

    Raises:
        BenchmarkError: the parts contradict each other.
    """

    name: str
    builder: str
    levels: tuple[str, ...]
    subject_level: str
    records: tuple[Record, ...]
    questions: tuple[Question, ...]
    splits: Mapping[str, Split]
    seed: int = 0
    source: str = ""
    licence: str = ""
    data_use: DataUse = "credentialed"
    notes: Mapping[str, Any] = field(default_factory=dict)
    titles: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False)
    folder: Path | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        problems = list(
            content_problems(self.records, self.questions, self.splits, self.levels, self.subject_level)
        )
        if self.data_use not in ("open", "credentialed"):
            problems.append(f"data_use is {self.data_use!r}, not open or credentialed")
        if problems:
            raise BenchmarkError(f"Benchmark {self.name!r} contradicts itself:{bullet_list(problems, 20)}")

    @cached_property
    def hierarchy(self) -> Hierarchy:
        return Hierarchy(self.levels, self.records)

    @cached_property
    def record(self) -> dict[str, Record]:
        """Record by its id."""
        return {record.record_id: record for record in self.records}

    @cached_property
    def question(self) -> dict[str, Question]:
        """Question by its id."""
        return {question.question_id: question for question in self.questions}

    def split(self, name: str) -> Split:
        """A split by name, or an ad-hoc request ``level=node,node`` (such as an incoming deletion request).

        Raises:
            UnknownNameError: no such split, level or node.
            InputError: the request names nothing or everything.
        """
        level, is_request, nodes = name.partition("=")
        if not is_request:
            if name not in self.splits:
                raise UnknownNameError("split", name, self.splits)
            return self.splits[name]
        return request(
            self.hierarchy, name, level.strip(), [node.strip() for node in nodes.split(",") if node.strip()]
        )

    def sides(self, split: Split) -> dict[str, Side]:
        """Record id -> ``forget`` or ``retain``; records without a node at the split's level are retained."""
        forget = self.hierarchy.closure(split.level, split.forget)
        return {record.record_id: "forget" if record.record_id in forget else "retain" for record in self.records}

    def records_of(self, split: Split, side: Side) -> list[Record]:
        sides = self.sides(split)
        return [record for record in self.records if sides[record.record_id] == side]

    def trained_nodes(self, split: Split, side: Side) -> list[str]:
        """A split's nodes on one side that have a record of the train fold; non-members have none."""
        trained = {record.groups.get(split.level) for record in self.records if record.fold == "train"}
        return [node for node in (split.forget if side == "forget" else split.retain) if node in trained]

    def split_sizes(self, split: Split) -> dict[Side, int]:
        """Side -> number of its nodes that a model is trained on; holdout and utility records do not count."""
        return {side: len(self.trained_nodes(split, side)) for side in SIDES}

    def questions_of(
        self, split: Split, side: Side, folds: Sequence[Fold] = FOLDS, kinds: Sequence[Kind] = KINDS
    ) -> list[Question]:
        """Questions about one side's records, of the given folds and kinds, in the table's order."""
        sides = self.sides(split)
        return [
            question
            for question in self.questions
            if sides[question.record_id] == side and question.fold in folds and question.kind in kinds
        ]

    def subject(self, record_id: str) -> str:
        """Subject of a record: its node at the subject level."""
        return self.record[record_id].groups[self.subject_level]

    @cached_property
    def unseen_subjects(self) -> frozenset[str]:
        """Subjects on whom no model is ever trained: all of their documents are of the fold ``holdout``."""
        folds: dict[str, set[Fold]] = {}
        for record in self.records:
            folds.setdefault(record.groups[self.subject_level], set()).add(record.fold)
        return frozenset(subject for subject, own in folds.items() if own == {"holdout"})

    @cached_property
    def documents(self) -> tuple[Record, ...]:
        """The document records; a ``rephrase`` record is part of another, or only carries a question."""
        return tuple(record for record in self.records if record.fold != "rephrase")

    def nodes(self, level: str) -> set[str]:
        """The nodes of a level that have a document."""
        return {record.groups[level] for record in self.documents if level in record.groups}

    def counts(self) -> dict[str, int]:
        """Numbers of rows and subjects; also of records by fold if there are several folds."""
        folds = Counter(record.fold for record in self.records)
        return {
            "records": len(self.records),
            "subjects": len(self.nodes(self.subject_level)),
            **({f"records_{fold}": n for fold, n in sorted(folds.items())} if len(folds) > 1 else {}),
            "questions": len(self.questions),
            **{f"questions_{fold}": n for fold, n in sorted(Counter(q.fold for q in self.questions).items())},
            "splits": len(self.splits),
        }

    @cached_property
    def texts_fingerprint(self) -> str:
        """SHA-256 over all training text: the records, and the questions of the train fold with answers.

        It stays the same with other splits, and with other questions of the other folds.
        """
        records = sorted((record.record_id, record.text) for record in self.records)
        questions = sorted((q.record_id, q.question, q.answer) for q in self.questions if q.fold == "train")
        return storage.sha256_of_json([records, questions])

    def facts(self) -> dict[str, Any]:
        """Provenance and counts for run records and reports; no record text."""
        return {
            "name": self.name,
            "builder": self.builder,
            "source": self.source,
            "licence": self.licence,
            "data_use": self.data_use,
            "levels": list(self.levels),
            "counts": self.counts(),
            "fingerprint": self.fingerprint,
            "invented": bool(self.notes.get("invented")),
            "provenance": [entry.to_json() for entry in self.provenance],
            "remarks": [str(remark) for remark in self.notes.get("remarks") or ()],
        }

    @cached_property
    def provenance(self) -> tuple[Provenance, ...]:
        """Language models that wrote labels, texts and questions; empty if none did."""
        recorded = read_provenance(self.notes.get(PROVENANCE))
        return recorded or written_by(dict.fromkeys(question.provenance for question in self.questions))

    @property
    def undecided(self) -> str:
        """Reason why no number on this benchmark decides anything, if parts were drawn at random; else empty."""
        return why_undecided(self.provenance)

    def refuse_drawn(self, use: str) -> None:
        """Refuse a use that decides something, on a benchmark with drawn parts.

        Raises:
            InputError: labels, texts or questions were drawn at random.
        """
        if self.undecided:
            raise InputError(
                f"{use} cannot rest on the benchmark {self.name!r}: {self.undecided}. Build it with a model "
                "(--llm URL --llm.model NAME), or from templates."
            )

    def save(self, folder: Path | str) -> Path:
        """Write the folder: all files are complete before the first is renamed into place, the manifest last.

        Raises:
            StorageError: the disk refused; an existing benchmark is untouched.
        """
        folder = Path(folder)
        several = any(record.further_images for record in self.records)
        groups = tables.records_schema(self.hierarchy.groups(), several=several)
        contents = {
            "records.parquet": storage.table_bytes([*record_rows(self.records)], groups),
            "questions.parquet": storage.table_bytes([*question_rows(self.questions)], tables.QUESTIONS),
            "splits.parquet": storage.table_bytes(split_rows(self.splits.values()), tables.SPLITS),
        }
        computed: dict[str, Any] = {
            "schema_version": tables.SCHEMA_VERSION,
            "levels": list(self.levels),
            "counts": self.counts(),
            "notes": dict(self.notes),
            "sha256": {table: hashlib.sha256(content).hexdigest() for table, content in contents.items()},
        }
        manifest = {key: computed[key] if key in computed else getattr(self, key) for key in _KEYS}
        if self.titles:
            rows = [{"record_id": record, "title": title} for record, title in self.titles.items()]
            contents[TITLES] = storage.table_bytes(rows, tables.TITLES)
        files = {
            **contents,
            "README.md": card(
                manifest, [(split, self.split_sizes(split)) for split in self.splits.values()]
            ).encode(),
            MANIFEST: yaml.safe_dump(manifest, sort_keys=False, allow_unicode=True).encode(),
        }
        storage.write_files(folder, files)
        if not self.titles:
            (folder / TITLES).unlink(missing_ok=True)  # of a benchmark that stood there before
        return folder

    @staticmethod
    def load(folder: Path | str) -> Benchmark:
        """Read a folder after checking schema, hashes and splits.

        Raises:
            BenchmarkError: names the difference and the fix.
        """
        folder = Path(folder)
        manifest = _manifest(folder)
        schemas = (tables.records_schema([]), tables.QUESTIONS, tables.SPLITS)
        optional = (tables.OPTIONAL, None, None)
        columns = [
            storage.read_columns(folder / table, schema, optional=more)
            for table, schema, more in zip(TABLES, schemas, optional, strict=True)
        ]
        for table, expected in manifest["sha256"].items():
            actual = storage.sha256_of(folder / table)
            if actual != expected:
                raise BenchmarkError(
                    f"{folder / table} is not the file that {MANIFEST} describes (SHA-256 {actual[:12]}..., not "
                    f"{str(expected)[:12]}...). It was changed after it was built: build or copy the folder again."
                )
        for table, content in zip(TABLES, columns, strict=True):
            names = [name for name in content.column_names if name not in tables.MAY_BE_NULL]
            if any(content.column(name).null_count for name in names):
                storage.refuse_nulls(folder / table, content.to_pylist(), tables.MAY_BE_NULL)
        (records, questions, splits), shared = columns, dict[str, str]()
        parts: dict[str, Any] = {"levels": tuple(manifest["levels"])}
        with storage.collection_paused():
            parts["records"] = tables.to_records(records, shared)
            parts["questions"] = tables.to_questions(questions, shared)
            parts["splits"] = tables.to_splits(splits, shared)
        if (folder / TITLES).exists():
            rows_of_titles = storage.read_table(folder / TITLES, tables.TITLES)
            parts["titles"] = {row["record_id"]: row["title"] for row in rows_of_titles}
        fields = {key: manifest[key] for key in _KEYS if key not in ("schema_version", "counts", "sha256")}
        return Benchmark(**fields | parts, folder=folder)

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 over the content, the same in memory and from disk."""
        return storage.sha256_of_json(
            [
                self.name,
                self.levels,
                self.subject_level,
                record_rows(self.records),
                question_rows(self.questions),
                split_rows(self.splits.values()),
            ]
        )


def _manifest(folder: Path) -> dict[str, Any]:
    if not folder.is_dir():
        raise InputError(f"There is no benchmark folder {folder}. `medunlearn build --help` says how to make one.")
    path = folder / MANIFEST
    if not path.exists():
        raise BenchmarkError(f"{folder} is not a benchmark: it has no {MANIFEST}.")
    manifest = yaml_content(path, BenchmarkError)
    if not isinstance(manifest, dict):
        raise BenchmarkError(f"{path} is not a table of keys and values.")
    wrong = [key for key, kind in _KEYS.items() if not isinstance(manifest.get(key), kind)]
    if wrong:
        raise BenchmarkError(f"{path} lacks or has invalid: {', '.join(wrong)}.")
    if manifest["schema_version"] != tables.SCHEMA_VERSION:
        raise BenchmarkError(
            f"{path} has schema version {manifest['schema_version']}; this medunlearn reads "
            f"{tables.SCHEMA_VERSION}. Build it again with this version."
        )
    levels = manifest["levels"]
    names = {level for level in levels if isinstance(level, str) and level}
    if not names or len(names) < len(levels):
        raise BenchmarkError(f"{path}: levels must be names, each once, the coarsest first, not {levels!r}.")
    if set(manifest["sha256"]) != set(TABLES):
        raise BenchmarkError(f"{path} must give the SHA-256 of {', '.join(TABLES)}.")
    return manifest
