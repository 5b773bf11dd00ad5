"""A run: a folder with ``run.json``, its tables, and perhaps a model.

A run's *key* is the hash of its settings and inputs. A run that is complete under its key is not run again;
one that was cut off goes on where it stopped; a folder that holds another run is refused, never overwritten.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import pandas as pd

import medunlearn
from medunlearn.config import Settings
from medunlearn.data.storage import read_json, sha256_of_json, write_json
from medunlearn.errors import InputError
from medunlearn.models.folders import fingerprint
from medunlearn.results.machine import PeakMemory, code, hardware, packages

FILE = "run.json"
Role = Literal["target", "retrained", "unlearned"]
HISTORY = "history.parquet"
EPOCHS = "epochs"


@dataclass(frozen=True)
class Run:
    """A recorded result on disk.

    Attributes:
        folder: where it is.
        info: the content of ``run.json``.
    """

    folder: Path
    info: Mapping[str, Any]

    @staticmethod
    def open(folder: Path | str) -> Run:
        """A complete run.

        Raises:
            InputError: the folder holds no run, or one that did not finish.
        """
        folder = Path(folder)
        if not (folder / FILE).exists():
            raise InputError(f"{folder} holds no run (no {FILE}). `medunlearn train --help` says how to make one.")
        info = _read(folder)
        if info.get("status") != "complete":
            raise InputError(
                f"The run in {folder} is not complete ({info.get('status')}). Give its command again: it goes on "
                "where it stopped."
            )
        return Run(folder, info)

    @property
    def model(self) -> Path:
        """The folder of its model."""
        return self.folder / "model"

    @property
    def fingerprint(self) -> str:
        """Of its model: equal fingerprints, equal models. An epoch's is known without its weights."""
        recorded = self.info.get("results", {}).get("fingerprint")
        return str(recorded) if recorded else fingerprint(self.model)

    def epoch(self, number: int) -> Run:
        """The state after some epochs, of a run that was evaluated as it went on.

        Raises:
            InputError: it was not evaluated then.
        """
        folder = self.folder / EPOCHS / f"{number:02d}"
        if not (folder / FILE).exists():
            known = sorted(int(path.parent.name) for path in (self.folder / EPOCHS).glob(f"*/{FILE}"))
            which = ", ".join(map(str, known)) if known else "after none of its epochs: set evaluate_every"
            raise InputError(f"{self.folder} was not evaluated after epoch {number}; it was after {which}.")
        return Run.open(folder)

    @property
    def label(self) -> str:
        """What tables and plots call it."""
        return str(self.info["label"])

    @property
    def role(self) -> Role:
        """What its model is to others: ``unlearned``, ``retrained`` (something was left out), or ``target``."""
        if self.info["verb"] == "unlearn":
            return "unlearned"
        return "retrained" if self.info["config"].get("without") else "target"

    def complete_below(self, folder: str) -> list[Run]:
        """The complete runs in one of its folders, the one that was asked for last at the end."""
        paths = sorted((self.folder / folder).glob(f"*/{FILE}"), key=lambda path: path.stat().st_mtime)
        return [Run.open(path.parent) for path in paths if _read(path.parent).get("status") == "complete"]

    def history(self) -> pd.DataFrame:
        """The curve of training, one row an optimizer step; empty for a run that trained nothing."""
        path = self.folder / HISTORY
        return pd.read_parquet(path) if path.exists() else pd.DataFrame()


class Recording:
    """Writes ``run.json`` while a run runs.

    Args:
        folder: of the run.
        verb: the command.
        label: what tables call the result.
        settings: everything the user chose.
        inputs: what the result depends on besides the settings, as fingerprints.
        writes: whether this process is the one that writes the file.

    Raises:
        InputError: the folder holds a run with another key; says what differs.
    """

    def __init__(
        self,
        folder: Path,
        verb: str,
        label: str,
        settings: Settings,
        inputs: Mapping[str, Any],
        *,
        writes: bool = True,
    ) -> None:
        self.folder, self.label, self.writes = folder, label, writes
        config = settings.model_dump(mode="json")
        self.key = run_key(verb, config, inputs)
        self.info: dict[str, Any] = {
            "verb": verb,
            "label": label,
            "key": self.key,
            "status": "running",
            "config": config,
            "inputs": dict(inputs),
            "lineage": [],
            "code": code(),
            "packages": packages(),
            "hardware": hardware(),
            "started": datetime.now(UTC).isoformat(timespec="seconds"),
            "stages": {},
            "results": {},
        }
        self.done = self._look_at_what_is_there()

    @staticmethod
    def key_of(verb: str, settings: Settings, inputs: Mapping[str, Any]) -> str:
        return run_key(verb, settings.model_dump(mode="json"), inputs)

    def _look_at_what_is_there(self) -> bool:
        if self.folder.exists() and not self.folder.is_dir():
            raise InputError(f"{self.folder} is a file, not a folder. Choose another --out.")
        if not (self.folder / FILE).exists():
            if self.folder.exists() and any(self.folder.iterdir()):
                raise InputError(f"{self.folder} is not empty and holds no run. Choose another --out.")
            return False
        there = _read(self.folder)
        if there.get("key") != self.key:
            if self._nothing_came_of(there):
                return False
            differs = "; ".join(dict.fromkeys(_differences(there, self.info))) or "the version of medunlearn"
            raise InputError(
                f"{self.folder} holds another run (differs in {differs}). Choose another --out, or remove it."
            )
        return bool(there.get("status") == "complete")

    def _nothing_came_of(self, there: Mapping[str, Any]) -> bool:
        """A run that stopped before it made anything, at a misspelt model say, does not keep its folder."""
        stopped = there.get("status") in ("failed", "interrupted")
        return stopped and all(file.name == FILE for file in self.folder.iterdir())

    @contextmanager
    def running(self) -> Iterator[None]:
        """Around the work: the status becomes complete, interrupted or failed, whatever happens."""
        self._write()
        started, memory = time.perf_counter(), PeakMemory()
        try:
            yield
        except BaseException as error:
            stopped = isinstance(error, KeyboardInterrupt)
            self.info["status"] = "interrupted" if stopped else "failed"
            self.info["error"] = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
            self._write_if_possible()
            raise
        self.info["status"] = "complete"
        self.info["seconds"] = round(time.perf_counter() - started, 2)
        self.info["peak_memory_bytes"] = max(
            [memory.bytes(), *(stage["peak_memory_bytes"] for stage in self.info["stages"].values())]
        )
        self._write()

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """A part of the run whose seconds and peak memory are recorded under its name."""
        started, memory = time.perf_counter(), PeakMemory()
        yield
        self.info["stages"][name] = {
            "seconds": round(time.perf_counter() - started, 2),
            "peak_memory_bytes": memory.bytes(),
        }

    def _write(self) -> None:
        if self.writes:
            write_json(self.folder / FILE, self.info)

    def _write_if_possible(self) -> None:
        # The error that ended the run is the one to report, not that a full disk also refused this line.
        try:
            self._write()
        except Exception:
            return


def run_key(verb: str, config: Mapping[str, Any], inputs: Mapping[str, Any]) -> str:
    """SHA-256 over what a run's result depends on.

    How often a checkpoint is written changes nothing in the result, so it is left out.
    """
    counted = {name: value for name, value in config.items() if name != "checkpoint_seconds"}
    return sha256_of_json([verb, counted, dict(inputs), medunlearn.__version__])


def _read(folder: Path) -> dict[str, Any]:
    info = read_json(folder / FILE)
    if not isinstance(info, dict):
        raise InputError(f"{folder / FILE} is not what a run writes. Remove the folder, or choose another.")
    return info


def _differences(there: Mapping[str, Any], here: Mapping[str, Any]) -> Iterator[str]:
    if there.get("verb") != here["verb"]:
        yield f"verb: {there.get('verb')} there, {here['verb']} here"
        return
    for part in ("config", "inputs"):
        before, now = there.get(part, {}), here[part]
        for name in sorted(set(before) | set(now)):
            if name != "checkpoint_seconds" and before.get(name) != now.get(name):
                yield f"{name}: {_short(before.get(name))} there, {_short(now.get(name))} here"


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 40 else text[:37] + "..."
