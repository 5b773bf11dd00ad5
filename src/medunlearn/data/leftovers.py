"""Leftovers of killed processes: part files, and broken files that are set aside.

A file is written to a hidden part file beside its place first (``.NAME.medunlearn-HOST-PID.part``). Readers ignore
part files, locks and files set aside; the next writer removes the part files of dead processes. Only files with the
mark in their names are ours to remove: a user's own ``.thesis.2024.part`` or ``.lock`` is a file like any other.
"""

from __future__ import annotations

import os
import re
import shutil
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from glob import escape
from hashlib import sha256
from pathlib import Path
from typing import TypeVar

from medunlearn.progress import remark

T = TypeVar("T")
MARK = "medunlearn"
LOCK = f".{MARK}.lock"
"""Name of the file in a folder that its writer locks (:mod:`medunlearn.data.folder_lock`)."""
OLD = 24 * 3600.0
"""Seconds after which a part file of another machine, or of a reused process id, is stray."""
_PART = re.compile(rf"\..+\.{MARK}-(?P<host>[0-9a-f]{{6}})-(?P<pid>\d+)\.part")
_BROKEN = re.compile(rf"\..+\.{MARK}-broken")
_OLDER = re.compile(r"\.lock|\..+\.(?:(?:[0-9a-f]{6}-)?\d+\.part|broken)")
"""Temporary names of older versions, which users give their own files too."""


@cache
def _host() -> str:
    return sha256(socket.gethostname().encode()).hexdigest()[:6]


def part_of(path: Path) -> Path:
    """Temporary path to which this process writes a file until it is complete."""
    return path.with_name(f".{path.name}.{MARK}-{_host()}-{os.getpid()}.part")


def part_pattern(name: str) -> str:
    """Glob pattern of the part files of a file or folder in its own folder."""
    return f".{escape(name)}.{MARK}-*.part"


def is_leftover(path: Path) -> bool:
    """True if a file or folder is one of our temporary ones: a lock, a part file, or one set aside as broken."""
    name = path.name
    return name == LOCK or _PART.fullmatch(name) is not None or _BROKEN.fullmatch(name) is not None


def is_passed_over(path: Path) -> bool:
    """True for what readers ignore: leftovers, also those of older versions, which nothing removes."""
    return is_leftover(path) or _OLDER.fullmatch(path.name) is not None


def holds_nothing(folder: Path) -> bool:
    """True if a folder is missing, or empty but for leftovers."""
    return not folder.exists() or all(map(is_leftover, folder.iterdir()))


def remove_stray_parts(folder: Path, pattern: str = f"**/.*.{MARK}-*.part") -> None:
    """Remove part files and part folders of dead processes from a folder and its subfolders.

    A process of this machine is dead if it is not running; other machines cannot be checked, so their part files
    are stray once they are :data:`OLD`.
    """
    with suppress(OSError):
        for path in sorted(folder.glob(pattern)):
            if _is_stray(path):
                with suppress(OSError):
                    shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()


def _is_stray(path: Path) -> bool:
    name = _PART.fullmatch(path.name)
    if name is None:
        return False
    if name["host"] == _host() and not _runs(int(name["pid"])):
        return True
    try:
        return time.time() - path.lstat().st_mtime > OLD
    except OSError:
        return False


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:
        return True
    return True


def set_aside(path: Path, reason: object) -> None:
    """Rename a broken file or folder to ``.NAME.medunlearn-broken`` and report it.

    It stays if it cannot be renamed. An earlier file of this name is replaced.
    """
    aside = path.with_name(f".{path.name}.{MARK}-broken")
    line = (str(reason).strip().splitlines() or ["it is broken"])[0].rstrip(".")
    try:
        if aside.is_dir():
            shutil.rmtree(aside, ignore_errors=True)
        path.replace(aside)
    except FileNotFoundError:  # another process of this run was first
        return
    except OSError:
        remark(f"{path} cannot be used and is passed over: {line}")
        return
    remark(f"{path} cannot be used and was set aside as {aside.name}: {line}")


def read_whole(path: Path, read: Callable[[Path], T]) -> T | None:
    """Content of a file that can be recreated; None if it is missing or broken. A broken file is set aside.

    Raises:
        OSError: the system refuses to read it.
    """
    content: list[T] = []
    if problem := problem_of(path, lambda file: content.append(read(file))):
        set_aside(path, problem)
    return content[0] if content else None


def problem_of(path: Path, read: Callable[[Path], object]) -> str | None:
    """Reason why a file cannot be read; None if it can, or is missing.

    Raises:
        OSError: the system refuses to read it.
    """
    try:
        read(path)
    except Exception as error:  # readers written in other languages raise errors of their own
        if not path.exists():
            return None
        if isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno is not None):
            raise
        return str(error).strip() or type(error).__name__
    return None
