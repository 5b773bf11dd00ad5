"""Weights that were trained on a subject, found through the records of runs and benchmarks below some folders."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from medunlearn.config import TINIES
from medunlearn.data.benchmark import MANIFEST, Benchmark
from medunlearn.data.lineage import Lineage, read_lineage
from medunlearn.data.storage import sha256_of
from medunlearn.errors import InputError, MedunlearnError
from medunlearn.request.holders.traces import SubjectTraces, words_of
from medunlearn.results.record import FILE

RECORDS = "records.parquet"


@dataclass
class TrainingHistory:
    """Runs and benchmarks below some folders.

    Attributes:
        runs: folder -> lineage, of runs that make a model.
        benchmarks: fingerprint -> the benchmark and the ids of the subject's records in it.
        tables: ``records.parquet`` -> number of its records of the subject.
        images: image of a benchmark -> True if a record of the subject has it.
    """

    runs: dict[Path, Lineage] = field(default_factory=dict)
    benchmarks: dict[str, tuple[Benchmark, frozenset[str]]] = field(default_factory=dict)
    tables: dict[Path, int] = field(default_factory=dict)
    images: dict[Path, bool] = field(default_factory=dict)
    weights: tuple[Path, ...] = ()
    _trained_runs: dict[Path, bool | None] = field(default_factory=dict)

    @staticmethod
    def of(paths: Iterable[Path], benchmark: Benchmark | None, traces: SubjectTraces) -> TrainingHistory:
        """Read every run record and benchmark among the paths; broken ones are skipped, so their weights are
        unknown.
        """
        paths, history = list(paths), TrainingHistory()
        if benchmark is not None:
            history.benchmarks[benchmark.fingerprint] = (benchmark, traces.records)
        for path in paths:
            if path.name == FILE:
                history._read_run(path.parent)
            elif path.name == MANIFEST:
                history._read_benchmark(path.parent, traces)
        history.weights = tuple(path for path in paths if path.suffix == ".safetensors")
        return history

    def _read_run(self, folder: Path) -> Lineage | None:
        lineage = self.runs.get(folder) or read_lineage(folder, strict=False)
        if lineage.command in ("train", "unlearn", "adopt"):
            self.runs[folder] = lineage
        return self.runs.get(folder)

    def _read_benchmark(self, folder: Path, traces: SubjectTraces) -> None:
        try:
            benchmark = Benchmark.load(folder)
        except MedunlearnError:
            return
        if benchmark.fingerprint not in self.benchmarks:
            theirs = frozenset(
                record.record_id for record in benchmark.records if any(traces.phrases.count(words_of(record.text)))
            )
            self.benchmarks[benchmark.fingerprint] = (benchmark, theirs)
        theirs = self.benchmarks[benchmark.fingerprint][1]
        self.tables[folder / RECORDS] = len(theirs)
        for record in benchmark.records:
            for image in (folder / name for name in record.images):
                self.images[image] = self.images.get(image, False) or record.record_id in theirs

    def run_of(self, path: Path) -> Path | None:
        """The nearest parent folder that is a run with a model."""
        return next((folder for folder in path.parents if folder in self.runs), None)

    def is_trained_on_subject(self, weights: Path) -> bool | None:
        """True if a file of weights comes from training on the subject; None if that is not recorded."""
        run = self.run_of(weights)
        return None if run is None else self._is_run_trained_on_subject(run)

    def _is_run_trained_on_subject(self, folder: Path) -> bool | None:
        if folder not in self._trained_runs:
            self._trained_runs[folder] = None  # of a circle nothing is known
            lineage = self._read_run(folder)
            if lineage is not None:
                causes = {self._reads_subject(lineage), self._is_base_trained_on_subject(lineage)}
                self._trained_runs[folder] = True if True in causes else None if None in causes else False
        return self._trained_runs[folder]

    def _reads_subject(self, lineage: Lineage) -> bool | None:
        """True if the run's own training reads a record of the subject. Unlearning reads both sides."""
        fingerprint = str(lineage.inputs.get("benchmark"))
        if fingerprint not in self.benchmarks:
            return None
        benchmark, theirs = self.benchmarks[fingerprint]
        without = lineage.split if lineage.command in ("train", "adopt") else None
        try:
            sides = {} if without is None else benchmark.sides(benchmark.split(without))
        except InputError:
            return None
        return any(benchmark.record[name].fold == "train" and sides.get(name) != "forget" for name in theirs)

    def _is_base_trained_on_subject(self, lineage: Lineage) -> bool | None:
        """True if a run's starting model was trained on the subject, None if that is unknown.

        Training data of hub models is not looked up.
        """
        base = lineage.start
        if base is None or base in TINIES or base == lineage.inputs.get("model"):
            return None if base is None else False
        return self._is_run_trained_on_subject(Path(base).absolute()) if (Path(base) / FILE).exists() else None

    def is_copy_trained_on_subject(self, weights: Path) -> bool | None:
        """True if weights without a record equal those of a run that was trained on the subject; None if they equal
        no run's.

        The file's bytes are compared, then the tensors: a delta with its base counts as one model.
        """
        hashed = sha256_of(weights)
        if hashed in self._files and not _is_empty(weights):
            return self._files[hashed]
        return self._models.get(_digest(weights.parent, weights) or "")

    @cached_property
    def _files(self) -> dict[str, bool]:
        weights = ((path, self.is_trained_on_subject(path)) for path in self.weights)
        return {sha256_of(path): trained for path, trained in weights if trained is not None}

    @cached_property
    def _models(self) -> dict[str, bool]:
        models = ((_digest(folder / "model"), self._is_run_trained_on_subject(folder)) for folder in self.runs)
        return {digest: trained for digest, trained in models if digest is not None and trained is not None}

    def has_foreign_tokenizer(self, path: Path) -> bool:
        """True if a tokenizer belongs to a run that did not train it: it is the base model's."""
        run = self.run_of(path)
        ancestors = self.runs[run].ancestors if run is not None else ()
        return bool(ancestors) and ancestors[0] not in TINIES


def _is_empty(weights: Path) -> bool:
    """True if a weights file has no tensors, such as a reference's: all such files are equal."""
    try:
        with weights.open("rb") as file:
            head = json.loads(file.read(int.from_bytes(file.read(8), "little")))
    except (OSError, ValueError, MemoryError, OverflowError):
        return False
    return isinstance(head, dict) and set(head) <= {"__metadata__"}


def _digest(folder: Path, weights: Path | None = None) -> str | None:
    """SHA-256 over names, types, shapes and bytes of a model's tensors, with its base's for a delta; None without
    tensors, or if none of them is read from ``weights``.
    """
    if not folder.is_dir():
        return None
    # Here, since most folders are searched without a model, and these take seconds to import.
    import torch
    from safetensors import SafetensorError

    from medunlearn.models.delta import StoredTensors

    digest = hashlib.sha256()
    try:
        stored = StoredTensors(folder)
        if weights is not None and weights not in stored.files.values():
            return None
        for name in sorted(stored.files):
            value = stored.read(name, name)
            digest.update(json.dumps([name, str(value.dtype), list(value.shape)]).encode())
            digest.update(value.reshape(-1).view(torch.uint8).numpy().data)
    except (MedunlearnError, SafetensorError, OSError):
        return None
    return digest.hexdigest() if stored.files else None
