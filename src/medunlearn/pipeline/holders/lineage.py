"""Which weights below some folders were trained on a subject, by their runs' records and benchmarks."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from medunlearn.config import TINIES
from medunlearn.data.benchmark import MANIFEST, Benchmark
from medunlearn.data.storage import sha256_of
from medunlearn.errors import InputError, MedunlearnError
from medunlearn.pipeline.holders.traces import SubjectTraces, words_of
from medunlearn.results.record import FILE, RunRecord

RECORDS = "records.parquet"


@dataclass
class Lineage:
    """Runs and benchmarks below some folders.

    Attributes:
        runs: folder -> record, of runs that make a model.
        benchmarks: fingerprint -> the benchmark and the ids of the subject's records in it.
        tables: ``records.parquet`` -> how many of its records are the subject's.
    """

    runs: dict[Path, RunRecord] = field(default_factory=dict)
    benchmarks: dict[str, tuple[Benchmark, frozenset[str]]] = field(default_factory=dict)
    tables: dict[Path, int] = field(default_factory=dict)
    weights: tuple[Path, ...] = ()
    _saw: dict[Path, bool | None] = field(default_factory=dict)

    @staticmethod
    def of(paths: Iterable[Path], benchmark: Benchmark | None, traces: SubjectTraces) -> Lineage:
        """Read every run record and benchmark among the paths; what is broken is left out, and so not known."""
        paths, lineage = list(paths), Lineage()
        if benchmark is not None:
            lineage.benchmarks[benchmark.fingerprint] = (benchmark, traces.records)
        for path in paths:
            if path.name == FILE:
                lineage._read_run(path.parent)
            elif path.name == MANIFEST:
                lineage._read_benchmark(path.parent, traces)
        lineage.weights = tuple(path for path in paths if path.suffix == ".safetensors")
        return lineage

    def _read_run(self, folder: Path) -> RunRecord | None:
        if folder not in self.runs:
            try:
                record = RunRecord.read(folder)
            except MedunlearnError:
                return None
            if record.verb in ("train", "unlearn"):
                self.runs[folder] = record
        return self.runs.get(folder)

    def _read_benchmark(self, folder: Path, traces: SubjectTraces) -> None:
        try:
            benchmark = Benchmark.load(folder)
        except MedunlearnError:
            return
        if benchmark.fingerprint not in self.benchmarks:
            theirs = (one for one in benchmark.records if any(traces.phrases.count(words_of(one.text))))
            self.benchmarks[benchmark.fingerprint] = (benchmark, frozenset(one.record_id for one in theirs))
        self.tables[folder / RECORDS] = len(self.benchmarks[benchmark.fingerprint][1])

    def run_of(self, path: Path) -> Path | None:
        """The nearest folder above that is a run which makes a model."""
        return next((folder for folder in path.parents if folder in self.runs), None)

    def trained(self, weights: Path) -> bool | None:
        """Whether a file of weights comes from training on the subject; None where that is not recorded."""
        run = self.run_of(weights)
        return None if run is None else self._trained(run)

    def _trained(self, folder: Path) -> bool | None:
        if folder not in self._saw:
            self._saw[folder] = None  # of a circle nothing is known
            record = self._read_run(folder)
            if record is not None:
                seen = {self._own(record), *(self._base(base) for base in _bases(record))}
                self._saw[folder] = True if True in seen else None if None in seen else False
        return self._saw[folder]

    def _own(self, record: RunRecord) -> bool | None:
        """Whether the run's own training reads a record of the subject's. Unlearning reads both sides."""
        if str(record.benchmark) not in self.benchmarks:
            return None
        benchmark, theirs = self.benchmarks[str(record.benchmark)]
        without = record.config.get("without") if record.verb == "train" else None
        try:
            sides = {} if without is None else benchmark.sides(benchmark.split(without))
        except InputError:
            return None
        return any(benchmark.record[name].fold == "train" and sides.get(name) != "forget" for name in theirs)

    def _base(self, base: str) -> bool | None:
        """Of the model that a run started from. What a hub's model was trained on is not asked."""
        folder = Path(base)
        if base in TINIES or not folder.is_dir():
            return False
        return self._trained(folder.absolute()) if (folder / FILE).exists() else None

    def untrained_hashes(self) -> frozenset[str]:
        """SHA-256 of the weights that are known not to come from the subject."""
        return self._hashes

    @cached_property
    def _hashes(self) -> frozenset[str]:
        return frozenset(sha256_of(path) for path in self.weights if self.trained(path) is False)

    def has_foreign_tokenizer(self, path: Path) -> bool:
        """Whether a tokenizer is a run's that did not fit it: the base model's."""
        run = self.run_of(path)
        return run is not None and self.runs[run].lineage[:1] != [] and self.runs[run].lineage[0] not in TINIES


def _bases(record: RunRecord) -> list[str]:
    """The models that a run started from, the nearest one last."""
    if record.verb == "unlearn":
        return list(record.lineage[-1:])
    return [str(record.config.get("model", ""))]
