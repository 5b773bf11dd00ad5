"""SIGKILL at placed moments of a command's work, and whether what a second call ends with is what one call gives.

A moment is an event inside the command's folder: a file opened for writing, flushed, renamed or removed, a folder
made or removed, a step of training, a stored answer. A killed flush leaves half of the file.
"""

from __future__ import annotations

import hashlib
import json
import mmap
import os
import shutil
import signal
import sqlite3
import struct
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd
from forking import Forked, command

_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT
_MOVES = ("os.rename", "os.remove", "os.mkdir", "os.rmdir", "shutil.rmtree")
_OF_A_CALL = frozenset(
    {
        *("seconds", "cpu_seconds", "milliseconds", "started", "stages", "created", "written", "mtime_ns"),
        *("peak_memory_bytes", "hardware"),
        *("commit", "dirty"),  # of the tree, which may move on meanwhile
        "digest",  # of a record with its seconds
        # Hashes of tables with a column of seconds; the tables are compared themselves.
        "tables",
        # How a call asked what was not asked before it.
        *("requests sent now", "batches", "option_batches", "rank_batches", "generation", "judges", "jobs"),
    }
)
"""Facts in JSON that two calls do not share."""
_LIMIT = 300.0
ROUNDING = 1e-5
"""Within which numbers are equal: other batches, formed of what is left to ask, round otherwise."""


@dataclass(frozen=True)
class Case:
    """A command whose work is killed.

    Attributes:
        words: copies what the command changes into a new folder; its words, all output below that folder.
        workers: the command has processes of its own: every second kill is of the one at work, not of the main one.
        settle: called in the command's process first; stops a clock whose time would be signed.
    """

    name: str
    words: Callable[[Path], list[object]]
    workers: bool = False
    settle: Callable[[], object] = lambda: None


@dataclass(frozen=True)
class Tally:
    """Events in one call, kills at them, those that left a part file, and what differed after the second call."""

    name: str
    events: int
    killed: int
    torn: int
    different: tuple[str, ...]


def try_case(case: Case, kills: int, folder: Path, seed: int = 0) -> Tally:
    """Kill a command ``kills`` times, each time in a folder of its own and at another part of its work."""
    meter = _Meter()
    whole = folder / "whole"
    _call(case, whole, meter, at=-1)
    expected, events = content(whole), meter.count
    draw = np.random.default_rng([seed, *case.name.encode()])
    places = [1 + int((n + draw.random()) * events * 0.97 / kills) for n in range(kills)]
    killed, torn, different = 0, 0, list[str]()
    for number, place in enumerate(places):
        out = folder / f"try-{number}"
        ended = _call(case, out, meter, at=place, main=not case.workers or number % 2 == 0)
        killed += meter.killed
        torn += any(out.rglob(".*-*.part"))
        if ended != -signal.SIGKILL and not (case.workers and ended == 1):
            # A worker whose work is done may die unseen: what the command ends with must be whole.
            lines = differences(expected, content(out)) if meter.killed else (f"not killed, it ended with {ended}",)
            different += [f"event {place} of {events}: {line}" for line in lines]
        if (again := _call(case, out, meter, at=-1)) != 0:
            different.append(f"event {place} of {events}: the second call ended with {again}")
        else:
            different += [f"event {place} of {events}: {line}" for line in differences(expected, content(out))]
        shutil.rmtree(out)
    return Tally(case.name, events, killed, torn, tuple(different))


class _Meter:
    """Counter of events in memory that a process shares with those that it forks."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, 16)

    def reset(self) -> None:
        self._memory[:16] = struct.pack("qq", 0, 0)

    @property
    def count(self) -> int:
        return int(struct.unpack("qq", self._memory[:16])[0])

    @property
    def killed(self) -> bool:
        return bool(struct.unpack("qq", self._memory[:16])[1])

    def arm(self, root: Path, at: int, *, main: bool) -> None:
        """From now on, the event number ``at`` kills this process, or the one in which it is."""
        inside, process = str(root), os.getpid()
        real, busy = os.fsync, False

        def reached(half: str = "") -> None:
            now, killed = struct.unpack("qq", self._memory[:16])
            self._memory[:16] = struct.pack("qq", now + 1, killed or now + 1 == at)
            if now + 1 == at:
                dying = process if main else os.getpid()
                if half and dying == os.getpid():
                    os.truncate(half, os.stat(half).st_size // 2)
                os.kill(dying, signal.SIGKILL)

        def hook(event: str, values: tuple[Any, ...]) -> None:
            nonlocal busy
            if busy or not (event in _MOVES or (event == "open" and _writes(values))):
                return
            busy = True
            if not isinstance(values[0], int) and os.path.abspath(os.fsdecode(values[0])).startswith(inside):
                reached()
            busy = False

        def fsync(file: int) -> None:
            path = os.readlink(f"/proc/self/fd/{file}")
            if path.startswith(inside):
                reached(path)
            real(file)

        from medunlearn.llm.store import Store
        from medunlearn.training import loop

        def counted(work: Callable[..., Any]) -> Callable[..., Any]:
            def call(*given: Any, **more: Any) -> Any:
                reached()
                return work(*given, **more)

            return call

        for target, name in ((loop, "_step"), (Store, "put")):
            mock.patch.object(target, name, counted(getattr(target, name))).start()
        os.fsync = fsync
        sys.addaudithook(hook)


def _writes(values: tuple[Any, ...]) -> bool:
    mode, flags = values[1], values[2]
    return bool(set(mode) & set("wxa+")) if isinstance(mode, str) else bool(flags & _WRITING)


def _call(case: Case, folder: Path, meter: _Meter, *, at: int, main: bool = True) -> int:
    """Exit code of the command in a process of its own; a folder that is not there is filled first."""
    made = folder / "words.json"
    if not made.exists():
        folder.mkdir(parents=True)
        made.write_text(json.dumps([str(word) for word in case.words(folder)]))
    words, root = json.loads(made.read_text()), folder.resolve()
    meter.reset()

    def work() -> None:
        os.chdir(folder)
        case.settle()
        meter.arm(root, at, main=main)
        command(*words)()

    process = Forked(work)
    if at > 0:
        # A worker that outlives its killed parent keeps the streams open.
        return process.wait(_LIMIT)
    out, err = process.communicate(_LIMIT)
    if process.returncode:
        print(f"{case.name}: {' '.join(words)}\n{out}{err}", file=sys.stderr)
    return int(process.returncode or 0)


def content(folder: Path) -> dict[str, Any]:
    """Everything in a folder by its name, without times and the folder's own name."""
    found: dict[str, Any] = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.is_dir() or "logs/" in name:
            continue
        if path.name.startswith("part-") and path.suffix == ".parquet":
            found.setdefault(f"{path.parent.relative_to(folder)}/part-*", []).append(pd.read_parquet(path))
        elif not path.suffix.startswith(".sqlite-"):
            found[name] = _content(path, str(folder))
    for name, tables in found.items():
        if isinstance(tables, list) and name.endswith("part-*"):
            keys = ["question_id", "variant", "sample"]
            found[name] = pd.concat(tables).drop_duplicates(keys).sort_values(keys).reset_index(drop=True)
    return found


def _content(path: Path, folder: str) -> Any:
    if path.suffix == ".parquet":
        return pd.read_parquet(path).drop(columns="seconds", errors="ignore")
    if path.suffix == ".sqlite":
        with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as database:
            return sorted(database.execute("SELECT key, status, reason, text FROM responses"))
    if path.suffix == ".json":
        return _timeless(json.loads(path.read_text().replace(folder, "OUT")))
    if (path.parent / "report.json").exists() and path.suffix in (".html", ".md"):
        return path.stat().st_size > 0  # a page of the JSON beside it, with times
    raw = path.read_bytes().replace(folder.encode(), b"OUT")
    return hashlib.sha256(raw).hexdigest()


def _timeless(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _timeless(one) for key, one in value.items() if key not in _OF_A_CALL}
    return [_timeless(one) for one in value] if isinstance(value, list) else value


def differences(expected: dict[str, Any], actual: dict[str, Any]) -> Iterator[str]:
    """What is in one folder and not, or not so, in the other. Locks and part files are too much."""
    ours = {name: value for name, value in actual.items() if not name.endswith("-broken")}
    for name in sorted({*expected, *ours}):
        if name not in ours or name not in expected:
            yield f"{name} is {'missing' if name in expected else 'too much'}"
            continue
        wanted, value = expected[name], ours[name]
        if isinstance(wanted, pd.DataFrame):
            yield from _table_differences(name, wanted, value)
        elif wanted != value:
            yield f"{name} differs{_where(wanted, value)}"


def _table_differences(name: str, expected: pd.DataFrame, actual: pd.DataFrame) -> Iterator[str]:
    try:
        pd.testing.assert_frame_equal(actual, expected, rtol=ROUNDING, atol=ROUNDING)
    except AssertionError as error:
        yield f"{name} differs: {' '.join(str(error).split())[:200]}"


def _where(expected: Any, actual: Any) -> str:
    """Keys to the first difference of two JSON values."""
    if isinstance(expected, dict) and isinstance(actual, dict):
        for key in [*expected, *actual]:
            if expected.get(key) != actual.get(key):
                return f" at {key}{_where(expected.get(key), actual.get(key))}"
    return f": {str(expected)[:40]} became {str(actual)[:40]}"
