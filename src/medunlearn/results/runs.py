"""Runs: folders with ``run.json``, tables, and possibly a model.

A run's *key* is the hash of its settings and inputs. A complete run with the same key is not repeated; an
interrupted one resumes; a folder with another run is refused, never overwritten.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import pandas as pd

from medunlearn.config import Context, LongNotes, PromptFile, Settings, Template
from medunlearn.data.benchmark import MANIFEST, Benchmark
from medunlearn.data.data_use import DataUse, tighter_record
from medunlearn.data.folder_lock import lock_folder, wait_for_writer
from medunlearn.data.leftovers import LOCK, holds_nothing, is_leftover, remove_stray_parts, set_aside
from medunlearn.data.lineage import run_lineage, write_lineage
from medunlearn.data.moved_folders import find_moved
from medunlearn.data.storage import read_frame
from medunlearn.errors import InputError, ModelError
from medunlearn.models.folders import fingerprint, vocabulary_fingerprint
from medunlearn.models.sequences import Rendering
from medunlearn.results.keys import differences, is_same_run, run_key
from medunlearn.results.machine import PeakMemory, code, hardware, packages
from medunlearn.results.record import FILE, SCHEMA, RunRecord

__all__ = ["EPOCHS", "FILE", "HISTORY", "SCHEMA", "Recording", "Role", "Run", "RunRecord", "run_key"]

Role = Literal["target", "retrained", "unlearned"]
HISTORY = "history.parquet"
EPOCHS = "epochs"
CHECKPOINTS = "checkpoints"


@dataclass(frozen=True)
class Run:
    """A recorded result on disk; ``info`` is the content of ``run.json``."""

    folder: Path
    info: RunRecord

    @staticmethod
    def open(folder: Path | str) -> Run:
        """Open a complete run.

        Raises:
            InputError: the folder has no run, one of another version, or an unfinished one.
        """
        folder = Path(folder)
        if not folder.exists():
            raise InputError(f"{folder} holds no run: there is no such folder.")
        if not (folder / FILE).exists():
            raise InputError(
                f"{folder} holds no run (no {FILE}). `medunlearn train` makes one; `medunlearn adopt` makes one "
                "from a model trained elsewhere."
            )
        record = RunRecord.read(folder)
        if not record.complete:
            raise InputError(
                f"The run in {folder} is not complete ({record.status or None}). Run its command again to resume."
            )
        return Run(folder, record)

    @staticmethod
    def of(run: Run | Path | str) -> Run:
        """The run itself, or the complete run in a folder (:meth:`open`)."""
        return run if isinstance(run, Run) else Run.open(run)

    @property
    def model(self) -> Path:
        """The folder of its model."""
        return self.folder / "model"

    @property
    def fingerprint(self) -> str:
        """Of its model: equal fingerprints, equal models. An epoch's is known without its weights."""
        recorded = self.info.results.get("fingerprint")
        return str(recorded) if recorded else fingerprint(self.model)

    @cached_property
    def vocabulary(self) -> str | None:
        """Fingerprint of its tokenizer's vocabulary; an epoch's is its run's. None if the folder has none."""
        own = vocabulary_fingerprint(self.model)
        return self.parent.vocabulary if own is None and self.parent is not None else own

    @property
    def label(self) -> str:
        """Its name in tables and figures."""
        return self.info.label

    def refuse_other_texts(self, texts: str, benchmark: str, unless: str = "") -> None:
        """Refuse a benchmark with other texts than the model's training texts (:meth:`saw`).

        Raises:
            InputError: they differ.
        """
        if not self.saw(texts, benchmark):
            raise InputError(
                f"The model in {self.folder} was trained on other texts than this benchmark's: it never saw its "
                f"forget set. Name the benchmark that it was trained on{unless}."
            )

    def saw(self, texts: str, benchmark: str) -> bool:
        """True if its model was trained on a benchmark, or on one with the same texts.

        Args:
            texts, benchmark: its ``texts_fingerprint`` and ``fingerprint``.
        """
        return self.info.benchmark in (None, benchmark) or self.info.texts == texts

    def relabelled(self, label: str) -> Run:
        """The same run with another label."""
        return Run(self.folder, replace(self.info, label=label))

    @property
    def role(self) -> Role:
        """Role of its model: ``unlearned``, ``retrained`` (without a split), or ``target``."""
        if self.info.verb == "unlearn":
            return "unlearned"
        return "retrained" if self.info.config.get("without") else "target"

    @property
    def parent(self) -> Run | None:
        """The run that contains a record's folder (``run/evaluations/x``); None for a top-level run."""
        folder = self.folder.parents[1] if len(self.folder.parents) > 1 else self.folder
        return Run(folder, RunRecord.read(folder)) if (folder / FILE).exists() else None

    @property
    def training(self) -> Run | None:
        """The training run of its model: itself, or the latest one in its lineage; None if there is no record.

        A run that was moved or copied together with its ancestors finds them beside it, by their models.
        """
        if self.info.verb == "train":
            return self
        ancestors = (Path(name) for name in reversed(self.info.lineage) if (Path(name) / FILE).exists())
        training = next((run for run in map(Run.open, ancestors) if run.info.verb == "train"), None)
        if training is not None or not self.info.lineage:
            return training
        start = find_moved(self.info.lineage[-1], self.folder, self._is_start)
        return None if start is None else Run.open(start).training

    def _is_start(self, folder: Path) -> bool:
        """True for the run whose model this one was made from."""
        if not (folder / FILE).exists() or folder.resolve() == self.folder.resolve():
            return False
        with suppress(InputError, ModelError, OSError):
            return Run.open(folder).fingerprint == self.info.inputs.get("model")
        return False

    def rendering(
        self,
        template: Template | None = None,
        context: Context | None = None,
        max_length: int | None = None,
        long_notes: LongNotes | None = None,
    ) -> Rendering:
        """Rendering of questions for its model: that of training, unless overridden."""
        trained = self.info.rendering
        own = trained["template"]
        return Rendering(
            template or (PromptFile(**own) if isinstance(own, Mapping) else own),
            context or trained["context"],
            max_length,
            long_notes or trained.get("long_notes", "refuse"),
            trained.get("images", "use"),
            trained.get("opening", "prompt"),
            trained.get("today"),
        )

    def epoch(self, number: int) -> Run:
        """The state after some epochs of a run with epoch evaluations.

        Raises:
            InputError: it was not evaluated after that epoch.
        """
        folder = self.folder / EPOCHS / f"{number:02d}"
        if not (folder / FILE).exists():
            epochs = sorted(int(path.parent.name) for path in (self.folder / EPOCHS).glob(f"*/{FILE}"))
            which = ", ".join(map(str, epochs)) if epochs else "after none of its epochs: set evaluate_every"
            raise InputError(f"{self.folder} was not evaluated after epoch {number}; it was after {which}.")
        return Run.open(folder)

    def complete_below(self, folder: str) -> list[Run]:
        """The complete runs in one of its folders, latest last."""
        paths = sorted((self.folder / folder).glob(f"*/{FILE}"), key=lambda path: path.stat().st_mtime)
        records = [(path.parent, RunRecord.read(path.parent)) for path in paths]
        return [Run(where, record) for where, record in records if record.complete]

    def history(self) -> pd.DataFrame:
        """Training history, one row per optimizer step; empty for runs without training."""
        path = self.folder / HISTORY
        table = read_frame(path) if os.path.lexists(path) else pd.DataFrame()
        return read_frame(path, ("step", "loss")) if len(table) else table


class Recording:
    """Writes ``run.json`` during a run; the run's folder is locked against other processes.

    Args:
        label: label of the result in tables.
        inputs: fingerprints of inputs other than settings.
        data_use: data use of all inputs. Not part of the key; a recorded use is never made looser.
        writes: whether this process writes the file.
        barrier: makes the context in which an error of the writing process is raised in all processes.

    Raises:
        InputError: the folder has a run with another key; names the differences.
    """

    def __init__(
        self,
        folder: Path,
        verb: str,
        label: str,
        settings: Settings,
        inputs: Mapping[str, Any],
        *,
        data_use: DataUse | None,
        writes: bool = True,
        barrier: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        self.folder, self.label, self.writes, self._barrier = folder, label, writes, barrier
        config = settings.model_dump(mode="json")
        self.key = run_key(verb, config, inputs)
        self.info = RunRecord(
            verb,
            label,
            self.key,
            "running",
            config,
            dict(inputs),
            data_use=data_use,
            code=code(),
            packages=packages(),
            hardware=hardware(),
            started=datetime.now(UTC).isoformat(timespec="seconds"),
        )
        wait_for_writer(folder)
        self.done = self._is_complete()
        if self.done and self.writes and any((self.folder / name).exists() for name in (CHECKPOINTS, LOCK)):
            # Its process was killed after the record said complete; another one may be about to end.
            with suppress(InputError), lock_folder(self.folder, verb):
                drop_checkpoints(self.folder)

    @staticmethod
    def key_of(verb: str, settings: Settings, inputs: Mapping[str, Any]) -> str:
        return run_key(verb, settings.model_dump(mode="json"), inputs)

    def _is_complete(self) -> bool:
        """True if the folder contains this run, complete; refuses other content."""
        if self.folder.exists() and not self.folder.is_dir():
            raise InputError(f"{self.folder} is a file, not a folder. Choose another --out.")
        # A folder that is named by the key can hold no other run, also where its record is broken.
        is_named = self.folder.name.endswith(f"-{self.key[:8]}")
        if not (self.folder / FILE).exists():
            if not is_named and not holds_nothing(self.folder):
                raise InputError(f"{self.folder} is not empty and contains no run. Choose another --out.")
            return False
        try:
            there = RunRecord.read(self.folder)
        except InputError as error:
            if not is_named:
                raise
            set_aside(self.folder / FILE, error)
            return False
        if not is_same_run(there, self.key):
            if self._made_nothing(there):
                return False
            differs = "; ".join(dict.fromkeys(differences(there, self.info))) or "the version of medunlearn"
            raise InputError(
                f"{self.folder} contains another run (differs in {differs}). Choose another --out, or remove it."
            )
        self.info.data_use = tighter_record(there.data_use, self.info.data_use)
        if there.complete and self.writes and there.data_use != self.info.data_use:
            there.data_use = self.info.data_use
            there.write(self.folder)
            self._write_lineage()
        return there.complete

    def _made_nothing(self, there: RunRecord) -> bool:
        """True if a run stopped before it made anything, such as at a misspelt model, so that its folder is
        free.
        """
        stopped = there.status in ("failed", "interrupted")
        return stopped and all(file.name == FILE or is_leftover(file) for file in self.folder.iterdir())

    @contextmanager
    def running(self) -> Iterator[None]:
        """Context of the work: the status becomes complete, interrupted or failed, even after errors.

        Raises:
            InputError: another process writes to the folder.
        """
        with ExitStack() as lock:
            with self._barrier():
                if self.writes:
                    self._lock(lock)
            with self._recorded():
                yield
            # Only now: a run that is killed before its record says complete goes on from its last checkpoint.
            if self.writes:
                drop_checkpoints(self.folder)

    def _lock(self, lock: ExitStack) -> None:
        lock.enter_context(lock_folder(self.folder, self.info.verb))
        if not self.done and self._is_complete():
            raise InputError(f"Another process has completed {self.folder} meanwhile. Run the command again.")
        remove_stray_parts(self.folder)

    @contextmanager
    def _recorded(self) -> Iterator[None]:
        self._write()
        started, memory, cpu = time.perf_counter(), PeakMemory(), time.process_time()
        is_whole = self._barrier is nullcontext and not (self.folder / CHECKPOINTS).exists()
        try:
            yield
        except BaseException as error:
            self.info.status = "interrupted" if isinstance(error, KeyboardInterrupt) else "failed"
            self.info.error = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
            self._write_if_possible()
            raise
        self.info.status = "complete"
        if self.writes:
            self.info.tables = self.info.with_tables(self.folder).tables
        self.info.seconds = round(time.perf_counter() - started, 2)
        self.info.cpu_seconds = round(time.process_time() - cpu, 2) if is_whole else None
        self.info.peak_memory_bytes = max(
            [memory.bytes(), *(stage["peak_memory_bytes"] for stage in self.info.stages.values())]
        )
        self.info.digest = ""  # computed when it is written
        self._write_lineage()
        self._write()

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Context of a part of the run, whose seconds and peak memory are recorded."""
        started, memory = time.perf_counter(), PeakMemory()
        yield
        self.info.stages[name] = {
            "seconds": round(time.perf_counter() - started, 2),
            "peak_memory_bytes": memory.bytes(),
        }

    def save(self) -> None:
        """Write the record of a run that goes on, so that one that is cut off keeps the results it has."""
        self._write()

    def _write(self) -> None:
        if self.writes:
            self.info.write(self.folder)

    def _write_lineage(self) -> None:
        """Write the lineage into the model's folder too, which may be copied without the run."""
        folder = self.folder / "model"
        if self.writes and folder.is_dir():
            write_lineage(folder, run_lineage(self.info.as_dict()))

    def _write_if_possible(self) -> None:
        # The error that ended the run is the one to report, not that a full disk also refused this line.
        try:
            self._write()
        except Exception:
            return


def make_latest(folder: Path) -> None:
    """Make a complete run the latest of its kind, which reports use."""
    with suppress(OSError):
        (folder / FILE).touch()


def drop_checkpoints(folder: Path) -> None:
    """Remove the checkpoints of a complete run."""
    shutil.rmtree(folder / CHECKPOINTS, ignore_errors=True)


def folder_of(benchmark: Benchmark) -> str | None:
    """Path of a benchmark, for ``run.json``; None for one in memory.

    It is absolute, for a run that is copied alone; :func:`find_benchmark` also finds one that moved with its run.
    """
    return None if benchmark.folder is None else str(benchmark.folder.resolve())


def find_benchmark(recorded: str | None, near: Path, fingerprint: str | None) -> Benchmark | None:
    """The benchmark that a record names, known by its fingerprint: at its path, or beside a moved record.

    Args:
        recorded: path in the record; None for a benchmark in memory.
        near: folder of the record.
        fingerprint: recorded fingerprint; None: any benchmark.

    Returns:
        None if it is not there.
    """
    loaded: list[Benchmark] = []

    def matches(folder: Path) -> bool:
        if not (folder / MANIFEST).exists():
            return False
        with suppress(InputError):
            benchmark = Benchmark.load(folder)
            if fingerprint in (None, benchmark.fingerprint):
                loaded.append(benchmark)
                return True
        return False

    return loaded[0] if recorded is not None and find_moved(recorded, near, matches) else None


def is_complete(folder: Path | None) -> bool:
    """True if a folder contains a finished run."""
    if folder is None or not (folder / FILE).exists():
        return False
    try:
        return RunRecord.read(folder).complete
    except InputError:
        return False  # it is broken, and what stands on it is done again
