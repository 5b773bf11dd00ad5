"""The typed content of ``run.json``."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from medunlearn.data.lineage import CHANGED, DataUse, run_lineage
from medunlearn.data.storage import json_bytes, read_json, sha256_of, sha256_of_json, write_json
from medunlearn.errors import InputError

FILE = "run.json"
SCHEMA = 2
"""Version of what a run folder holds. 2: one ``scores.parquet`` of ``item, subject, measure, value, reason``."""


_KINDS: Mapping[str, type | tuple[type, ...]] = {
    **dict.fromkeys(("label", "status", "started", "error", "texts"), str),
    **dict.fromkeys(("code", "packages", "hardware", "stages"), dict),
    **dict.fromkeys(("seconds", "cpu_seconds"), (int, float)),
    "peak_memory_bytes": int,
}
_RESULTS: Mapping[str, type | tuple[type, ...]] = {
    **dict.fromkeys(("benchmark", "split", "rendering", "saved", "epochs", "unit", "model", "method"), dict),
    **dict.fromkeys(("context", "fingerprint", "benchmark_folder"), str),
    **dict.fromkeys(("epoch", "steps"), int),
    "responses": (str, int),
}
_NEEDED = ("verb", "label", "key", "config", "inputs", "results")


NOT_ITS_OWN = "not its own"
"""Digest of a record that something else has changed; later writes keep it."""


def record_digest(content: Mapping[str, Any]) -> str:
    """SHA-256 of the content of ``run.json`` but the digest itself; it holds those of tables and model files."""
    facts = {name: value for name, value in content.items() if name != "digest"}
    return sha256_of_json(json.loads(json_bytes(facts)))


class StoredFacts(dict[str, Any]):
    """Part of a loaded ``run.json``; a missing key raises an error that names the file."""

    file = ""

    @staticmethod
    def of(value: Any, file: str) -> Any:
        """Convert a JSON value so that every object in it becomes facts."""
        if isinstance(value, dict):
            facts = StoredFacts({key: StoredFacts.of(inner, file) for key, inner in value.items()})
            facts.file = file
            return facts
        return [StoredFacts.of(inner, file) for inner in value] if isinstance(value, list) else value

    def __missing__(self, key: str) -> Any:
        raise InputError(f"{self.file} lacks {key!r}. {CHANGED}")


@dataclass
class RunRecord:
    """Record of one run: the content of ``run.json``.

    ``record["results"]`` reads a field by name; use attributes in new code.

    Attributes:
        key: SHA-256 of everything that changes its numbers.
        status: running, complete, interrupted or failed (``error`` says why).
        config, inputs: the resolved settings, and fingerprints of other inputs.
        lineage: ancestors of the model, oldest first.
        data_use: data use of everything that it was made from (:mod:`medunlearn.data.data_use`); None: unknown.
        started, seconds: ISO time in UTC, and wall clock.
        cpu_seconds: processor time of all threads; None of a run that was resumed or had several processes, whose
            other parts are not known.
        stages: seconds and peak resident memory of each part.
        texts: fingerprint of the model's training texts (:attr:`Benchmark.texts_fingerprint`).
        model_files: for each file that affects the model's answers: ``sha256``, ``size``, ``mtime_ns``.
        tables: SHA-256 of each table in the folder.
        digest: of everything else in a complete record (:func:`record_digest`); None: an older version wrote it.
    """

    verb: str = ""
    label: str = ""
    key: str = ""
    status: str = ""
    config: Mapping[str, Any] = field(default_factory=dict)
    inputs: Mapping[str, Any] = field(default_factory=dict)
    lineage: list[str] = field(default_factory=list)
    data_use: DataUse | None = None
    code: Mapping[str, Any] = field(default_factory=dict)
    packages: Mapping[str, str] = field(default_factory=dict)
    hardware: dict[str, Any] = field(default_factory=dict)
    started: str = ""
    stages: dict[str, dict[str, Any]] = field(default_factory=dict)
    results: dict[str, Any] = field(default_factory=dict)
    schema: int = SCHEMA
    seconds: float | None = None
    cpu_seconds: float | None = None
    peak_memory_bytes: int | None = None
    error: str | None = None
    texts: str | None = None
    model_files: Mapping[str, Mapping[str, Any]] | None = None
    tables: Mapping[str, str] | None = None
    digest: str | None = field(default=None, compare=False)

    @staticmethod
    def of(values: Mapping[str, Any]) -> RunRecord:
        """Parse the content of ``run.json``; keys of other versions are ignored."""
        names = {item.name for item in fields(RunRecord)}
        values = {name: value for name, value in values.items() if name in names and value is not None}
        return RunRecord(**{"schema": 1, **values})

    @staticmethod
    def read(folder: Path) -> RunRecord:
        """Read the record of a run's folder.

        Raises:
            InputError: the file is not a run's, lacks fields, or was written by an older version.
        """
        content = read_json(folder / FILE)
        if not isinstance(content, dict):
            raise InputError(f"{folder / FILE} is not a run's record. Remove the folder, or choose another.")
        if problems := dict.fromkeys(_problems(content)):
            raise InputError(f"{folder / FILE}: {'; '.join(problems)}. {CHANGED}")
        record = RunRecord.of(StoredFacts.of(content, str(folder / FILE)))
        if record.digest is not None and record.digest != record_digest(content):
            record.digest = NOT_ITS_OWN
        if record.schema != SCHEMA and record.status:
            raise InputError(
                f"Another version of medunlearn wrote {folder} (run schema {record.schema}, not {SCHEMA}). "
                "Run its command again with another --out, or read it with the version that wrote it."
            )
        return record

    def write(self, folder: Path) -> None:
        """Write ``run.json``; unset facts are omitted."""
        write_json(folder / FILE, self.as_dict())

    def as_dict(self) -> dict[str, Any]:
        """The content of ``run.json``; a digest is computed anew, unless the file was changed by others."""
        facts = {name: self[name] for name in self if self[name] is not None}
        if self.digest not in (None, NOT_ITS_OWN):
            facts["digest"] = record_digest(facts)
        return facts

    def with_tables(self, folder: Path) -> RunRecord:
        """The same record with the hashes of the folder's current tables."""
        return replace(self, tables={path.name: sha256_of(path) for path in sorted(folder.glob("*.parquet"))})

    @property
    def complete(self) -> bool:
        return self.status == "complete"

    @property
    def split(self) -> str | None:
        """The split of the run."""
        return self.config.get("split")

    @property
    def seed(self) -> int | None:
        return self.config.get("seed")

    @property
    def method(self) -> str | None:
        """The unlearning method."""
        return self.config.get("method")

    @property
    def made_for(self) -> str | None:
        """The split that the model was trained without, or made to forget; None for a target."""
        return run_lineage(self.as_dict()).split

    @property
    def benchmark(self) -> str | None:
        """Fingerprint of the benchmark."""
        return self.inputs.get("benchmark")

    @property
    def builder(self) -> str:
        """The builder of the benchmark: ``amnesia``, ``lume``, ..."""
        return str(self.results.get("benchmark", {}).get("builder", ""))

    @property
    def rendering(self) -> Mapping[str, Any]:
        """Rendering of questions in training."""
        return dict(self.results["rendering"])

    @property
    def probe_set(self) -> str:
        """Number of probes and the beginning of their fingerprint; empty if it was not recorded."""
        facts = self.results.get("probe_set")
        if not isinstance(facts, dict) or "fingerprint" not in facts:
            return ""
        return f"Probe set {facts['fingerprint'][:12]}: {facts['count']:,} probes."

    @property
    def problems(self) -> tuple[str, ...]:
        """Problems of a broken model (:mod:`medunlearn.models.health`); empty if healthy or unchecked."""
        return tuple(self.results.get("health", {}).get("problems", ()))

    @property
    def epoch(self) -> int | None:
        """The epoch of this state."""
        return self.results.get("epoch")

    @property
    def own_measures(self) -> dict[str, dict[str, str]]:
        """Title, meaning and path of the measures that are not the package's, by name."""
        table = self.results.get("own_measures")
        return {
            str(name): {key: str(about.get(key, "")) for key in ("title", "meaning", "path")}
            for name, about in (table.items() if isinstance(table, dict) else ())
            if isinstance(about, dict)
        }

    def __getitem__(self, name: str) -> Any:
        if name not in self:
            raise KeyError(name)
        return getattr(self, name)

    def __setitem__(self, name: str, value: Any) -> None:
        if name not in self:
            raise KeyError(name)
        setattr(self, name, value)

    def __contains__(self, name: object) -> bool:
        return any(item.name == name for item in fields(self))

    def __iter__(self) -> Iterator[str]:
        return (item.name for item in fields(self))

    def keys(self) -> list[str]:
        return list(self)

    def get(self, name: str, default: Any = None) -> Any:
        """A field by name, with a default if unset."""
        value = getattr(self, name, None) if name in self else None
        return default if value is None else value


def _problems(content: Mapping[str, Any]) -> Iterator[str]:
    """Required fields that are missing or have the wrong type."""
    results = content.get("results")
    for part, kinds in ((content, _KINDS), (results if isinstance(results, dict) else {}, _RESULTS)):
        for name, kind in kinds.items():
            value = part.get(name)
            if value is not None and (not isinstance(value, kind) or isinstance(value, bool)):
                yield f"{name} is {type(value).__name__}, not {_words(kind)}"
    try:
        run_lineage(content)
    except InputError as problem:
        yield str(problem)
    if content.get("status") == "complete" and content.get("schema") == SCHEMA:
        yield from (f"{name} is missing" for name in _NEEDED if content.get(name) is None)


def _words(kind: type | tuple[type, ...]) -> str:
    return " or ".join(item.__name__ for item in (kind if isinstance(kind, tuple) else (kind,)))
