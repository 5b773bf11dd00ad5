"""Verification of runs: files against ``run.json``, the run's dependencies, and files without a record.

Everything is read and hashed again, whatever its size and time, and nothing is changed. What several runs name (a
benchmark, a base model) is read once a call.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pandas as pd

from medunlearn.data.benchmark import MANIFEST, Benchmark
from medunlearn.data.leftovers import is_passed_over
from medunlearn.data.lineage import run_lineage
from medunlearn.data.moved_folders import find_moved
from medunlearn.data.responses import SETTINGS, ResponseStore, responses_digest
from medunlearn.data.storage import hash_once, sha256_of
from medunlearn.errors import InputError, MedunlearnError
from medunlearn.models.folders import (
    BASE,
    COPY,
    MODEL,
    RECORD,
    base_place,
    chain,
    has_fingerprint,
    is_delta,
    model_folder,
    recorded_files,
)
from medunlearn.models.model_files import RULE, RULE_1, WEIGHTS, covered_files, is_weights_or_code
from medunlearn.results.evaluated import Evaluated
from medunlearn.results.record import NOT_ITS_OWN
from medunlearn.results.runs import CHECKPOINTS, Run, RunRecord

State = Literal["ok", "differs", "missing", "not complete", "not recorded", "not checked", "orphan"]
KEYWORDS = "keywords"
STUDIES = ("sweep.json", "tune.json")
"""Records of folders with the runs of a study."""
WRONG: frozenset[State] = frozenset({"differs", "missing"})


@dataclass(frozen=True, slots=True)
class Check:
    """One file, table, store or dependency of a run.

    Attributes:
        what: ``weights``, ``model file``, ``table``, ``responses``, ``record``, ``benchmark``, ``base``,
            ``target``, ``reference``, ``model`` (of an evaluation), or ``file``.
        state: ``differs`` and ``missing`` are errors. ``not complete``: for example an interrupted evaluation.
            ``not recorded``: not recorded by an older run. ``not checked``: a hub model, or one made in memory.
                ``orphan``: no record names the file.
        note: the difference, and what to do.
    """

    run: Path
    what: str
    name: str
    state: State
    note: str = ""

    def __str__(self) -> str:
        return f"{self.run}, {self.what} {self.name} {self.state}" + (f" ({self.note})" if self.note else "")


@dataclass(frozen=True)
class Verification:
    """Checks of several runs."""

    checks: tuple[Check, ...]

    @property
    def wrong(self) -> list[Check]:
        """Checks of differing or missing items."""
        return [check for check in self.checks if check.state in WRONG]

    @property
    def ok(self) -> bool:
        """True if nothing differs or is missing, and something was checked."""
        return not self.wrong and any(check.state == "ok" for check in self.checks)

    def table(self) -> pd.DataFrame:
        """One row per check: run, what, name, state, note."""
        rows = [(str(check.run), check.what, check.name, check.state, check.note) for check in self.checks]
        return pd.DataFrame(rows, columns=["run", "what", "name", "state", "note"])


def verify_runs(folders: Sequence[Path]) -> Verification:
    """Check runs and the records below them against what was recorded; of a sweep or a tuning each of its runs.

    Raises:
        InputError: a folder has no run, or an unfinished one.
    """
    runs = [run for folder in folders for run in _runs_of(folder)]
    benchmarks = _Benchmarks({})
    with hash_once():
        return Verification(tuple(check for run in runs for check in _run_checks(run, benchmarks)))


@dataclass(frozen=True)
class _Benchmarks:
    """Fingerprints of the benchmarks that the runs of one call name; each is read once.

    Attributes:
        known: resolved folder -> its fingerprint, or the error of reading it.
    """

    known: dict[Path, str | InputError]

    def fingerprint(self, folder: Path) -> str | InputError:
        place = folder.resolve()
        if place not in self.known:
            try:
                self.known[place] = Benchmark.load(folder).fingerprint
            except InputError as error:
                self.known[place] = error
        return self.known[place]


def _runs_of(folder: Path) -> list[Run]:
    """The run in a folder, or those of a study; one that was killed is checked as far as it is recorded."""
    if (folder / RECORD).exists() or not any((folder / name).exists() for name in STUDIES):
        return [Run.open(folder)]
    return [Run(path.parent, RunRecord.read(path.parent)) for path in sorted(folder.glob(f"*/{RECORD}"))]


def _run_checks(run: Run, benchmarks: _Benchmarks) -> Iterator[Check]:
    records = {folder: RunRecord.read(folder) for folder in _record_folders(run.folder)}
    recorded_files: set[Path] = set()
    for folder, record in records.items():
        recorded_files |= {folder / RECORD, *(folder / name for name in record.tables or ())}
        if not record.complete:
            yield Check(folder, "record", RECORD, "not complete", f"it is {record.status}: give its command again")
        elif record.digest is None:
            yield Check(
                folder, "record", RECORD, "not recorded", "not covered: an older version wrote no digest of it"
            )
        elif record.digest == NOT_ITS_OWN:
            yield Check(folder, "record", RECORD, "differs", "its settings or results were changed after its run")
        else:
            yield Check(folder, "record", RECORD, "ok")
        yield from _tables(folder, record)
        if (folder / "model").is_dir() or record.model_files:
            yield from _model(folder, record)
            recorded_files |= {path for path in (folder / "model").rglob("*") if path.is_file()} - _unnamed_weights(
                folder
            )
        if is_delta(folder / BASE):  # of an adopted adapter
            yield _base(folder, folder / BASE, record)
            recorded_files |= {path for part in (BASE, COPY) for path in (folder / part).glob("*.safetensors")}
        yield from _dependencies(folder, record, benchmarks)
    for folder, record in records.items():
        yield from _responses(run, folder, record)
    yield from _orphans(run.folder, recorded_files)


def _record_folders(folder: Path) -> list[Path]:
    """Folders with a record, the run's own first; none inside folders set aside."""
    paths = (path.parent for path in sorted(folder.rglob(RECORD)))
    below = [path for path in paths if not any(map(is_passed_over, map(Path, path.relative_to(folder).parts)))]
    return [folder, *(path for path in below if path != folder)]


def _tables(folder: Path, record: RunRecord) -> Iterator[Check]:
    if record.tables is None:
        yield Check(folder, "table", "*.parquet", "not recorded", "an older version made this record")
    for name, sha256 in (record.tables or {}).items():
        yield _compare_hash(folder, "table", folder / name, sha256)


def _compare_hash(run: Path, what: str, path: Path, sha256: Any) -> Check:
    name = str(path.relative_to(run)) if path.is_relative_to(run) else str(path)
    if what != "source" and (".." in Path(name).parts or Path(name).is_absolute()):
        return Check(run, what, name, "differs", "its record names a file outside of the run")
    if not path.exists():
        return Check(run, what, name, "missing", "copy the run again, or repeat it")
    if sha256_of(path) != sha256:
        return Check(run, what, name, "differs", "another SHA-256 than its record says")
    return Check(run, what, name, "ok")


def _model(folder: Path, record: RunRecord) -> Iterator[Check]:
    model, files = folder / "model", record.model_files
    if files is None:
        yield Check(folder, "weights", "model", "not recorded", "an older version made this run")
        return
    for name, facts in files.items():
        what = "weights" if name.endswith(".safetensors") else "model file"
        yield _compare_hash(folder, what, model / name, facts["sha256"])
    for name in covered_files(model).keys() - files.keys():
        # Older versions recorded only some of the files that they wrote.
        is_known = record.digest is not None or is_weights_or_code(name) or name in RULE_1
        why = "its run did not make it" if is_known else "an older version recorded only some files"
        yield Check(folder, "model file", f"model/{name}", "differs" if is_known else "not recorded", why)
    if model.is_dir() and is_delta(model):
        yield _base(folder, model, record)


def _base(folder: Path, model: Path, record: RunRecord) -> Check:
    base = str(base_place(model))
    try:
        chain(model, reread=True, oldest_rule=_oldest_rule(record))
    except MedunlearnError as error:
        return Check(folder, "base", base, "differs" if Path(base).is_dir() else "missing", str(error))
    return Check(folder, "base", base, "ok")


def _unnamed_weights(folder: Path) -> set[Path]:
    """Weights in a model's folder that are not from its run."""
    files = recorded_files(folder / "model")
    paths = covered_files(folder / "model").items()
    return {path for name, path in paths if files and is_weights_or_code(name) and name not in files}


def _dependencies(folder: Path, record: RunRecord, benchmarks: _Benchmarks) -> Iterator[Check]:
    """The benchmark, the initial or evaluated model, and the reference model."""
    lineage = run_lineage(record.as_dict())
    if record.benchmark is not None:
        yield _benchmark(folder, lineage.benchmark, record.benchmark, benchmarks)
    if record.verb == "adopt":
        yield from _check_adoption(folder, record)
    elif lineage.start is not None and record.epoch is None:
        what = "base" if record.verb == "train" else "target"
        yield _identical(folder, what, lineage.start, record, "model")
    if lineage.reference is not None:
        yield _identical(folder, "reference", lineage.reference, record, "reference")


def _check_adoption(folder: Path, record: RunRecord) -> Iterator[Check]:
    """The files of an adopted model, at the current reference of the run; the source of a copied one may be
    gone.
    """
    source = record.results["source"]
    for part in (source, *([source["base"]] if "base" in source else [])):
        pointer = folder / (BASE if part is not source else MODEL)
        refers = is_delta(pointer) and not record.config.get("copy_weights")
        where = base_place(pointer) if refers else Path(part["folder"])
        for name, facts in part["files"].items():
            check = _compare_hash(folder, "source", where / name, facts["sha256"])
            if check.state in WRONG and not refers:
                note = "it has changed, or is gone, since it was adopted; the run has a copy of its own"
                check = Check(folder, "source", check.name, "not checked", note)
            yield check


def _benchmark(folder: Path, where: str | None, fingerprint: str, benchmarks: _Benchmarks) -> Check:
    if where is None:
        return Check(folder, "benchmark", fingerprint[:12], "not recorded", "its folder was not written down")

    def is_benchmark(place: Path) -> bool:
        return (place / MANIFEST).exists()

    def is_same(place: Path) -> bool:
        return is_benchmark(place) and benchmarks.fingerprint(place) == fingerprint

    if (same := find_moved(where, folder, is_same)) is not None:
        return Check(folder, "benchmark", str(same), "ok")
    other = find_moved(where, folder, is_benchmark)
    if other is None:
        return Check(folder, "benchmark", where, "missing", "move it back, or build it again")
    state = benchmarks.fingerprint(other)
    note = str(state) if isinstance(state, InputError) else "another benchmark than the run's"
    return Check(folder, "benchmark", str(other), "differs", note)


def _oldest_rule(record: RunRecord) -> int:
    """Oldest rule of the fingerprints in a record: those of a record with a digest are of today's."""
    return 1 if record.digest is None else RULE


def _identical(folder: Path, what: str, model: str, record: RunRecord, name: str) -> Check:
    """Compare a model named by a run with its recorded fingerprint, ``name`` of its inputs."""
    identity = record.inputs.get(name)
    if identity == model:
        return Check(folder, what, model, "not checked", "made in memory, or of a hub")
    problems: list[str] = []

    def is_same(place: Path) -> bool:
        try:
            if has_fingerprint(Path(model_folder(place)), str(identity), {}, _oldest_rule(record)):
                return True
            problems.append("another model than the one that the run recorded")
        except (InputError, OSError) as error:
            problems.append(str(error))
        return False

    if find_moved(model, folder, is_same) is not None:
        return Check(folder, what, model, "ok")
    if problems:
        return Check(folder, what, model, "differs", problems[0])
    return Check(folder, what, model, "missing", "it is not where it was; only a delta needs it to be loaded")


def _responses(run: Run, folder: Path, record: RunRecord) -> Iterator[Check]:
    """The responses of an evaluation or an audit, and the evaluated model."""
    if folder != run.folder and record.verb in ("evaluate", "attack", "utility"):
        owner = Run(folder.parents[1], RunRecord.read(folder.parents[1]))
        if owner.model.is_dir() and record.inputs.get("model") != owner.fingerprint:
            yield Check(folder, "model", str(owner.model), "differs", "it is not the model that was asked")
    digest = record.results.get("responses_sha256")
    if digest is None:
        if record.verb in ("evaluate", "audit"):
            yield Check(folder, "responses", "responses", "not recorded", "an older version made this record")
        return
    name = str(record.results.get("responses_folder") or record.results.get("responses"))
    try:
        now = _digest(folder, record)
    except (MedunlearnError, OSError, KeyError) as error:
        yield Check(folder, "responses", name, "differs", str(error))
        return
    note = "" if now == digest else "other responses than those that were scored"
    yield Check(folder, "responses", name, "ok" if now == digest else "differs", note)


def _digest(folder: Path, record: RunRecord) -> str:
    if record.verb == "audit":
        return responses_digest(ResponseStore.read_complete(folder / "responses").values())
    evaluated = Evaluated(Run(folder.parents[1], RunRecord.read(folder.parents[1])), Run(folder, record))
    responses = evaluated.responses
    asked = [name for name in evaluated.questions["question_id"] if name not in evaluated.without_response]
    return responses_digest(responses[name] for name in asked)


def _orphans(folder: Path, named: set[Path]) -> Iterator[Check]:
    """Part files of dead processes, checkpoints of a complete run, and weights and tables without a record."""
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        name = str(path.relative_to(folder))
        if is_passed_over(path) and not path.name.endswith(".lock"):
            yield Check(
                folder, "file", name, "orphan", "left by a process that was killed, or set aside; remove it"
            )
        elif CHECKPOINTS in path.relative_to(folder).parts[:-1]:
            yield Check(folder, "file", name, "orphan", "a checkpoint of a run that is complete; remove it")
        elif path.suffix in WEIGHTS and path not in named:
            yield Check(folder, "file", name, "orphan", "no record names these weights")
        elif path.suffix == ".parquet" and path not in named and not _is_store(path.parent):
            yield Check(folder, "file", name, "orphan", "no record names this table")


def _is_store(folder: Path) -> bool:
    """True if a folder contains stored responses or keywords, which many records share."""
    return (folder / SETTINGS).exists() or folder.name == KEYWORDS
