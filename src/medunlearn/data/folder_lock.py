"""One writer per folder: a lock that the operating system releases when the process ends."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import socket
import stat
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from datetime import UTC, datetime
from pathlib import Path

from medunlearn.data.leftovers import LOCK, remove_stray_parts
from medunlearn.data.storage import make_folder
from medunlearn.errors import InputError
from medunlearn.progress import remark

_WITHOUT_LOCKS = (errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL)
_TAKEN = (errno.EAGAIN, errno.EACCES)
_patience: ContextVar[float] = ContextVar("patience", default=0.0)
_held: dict[tuple[Path, int], int] = {}
"""Folder and thread -> open file of the lock that it holds."""


@contextmanager
def lock_folder(folder: Path, what: str) -> Iterator[None]:
    """Keep other processes from writing to a folder, created if missing, while the block runs.

    Locks a hidden file, which is removed at the end. The lock is re-entrant within a thread. A read-only folder, or
    one on a file system without locks, is not locked.

    Args:
        what: the command, for the message that another process gets.

    Raises:
        InputError: another process holds the lock; says which, and since when.
    """
    key = folder.resolve(), threading.get_ident()
    if key in _held:
        yield
        return
    is_new = not folder.exists()
    file = _lock(folder, what)
    if file is None:
        yield
        return
    _held[key] = file
    try:
        yield
    finally:
        if _held.pop(key, None) is not None:  # in a forked process it is not ours
            with suppress(OSError):
                (folder / LOCK).unlink()
            os.close(file)
            if is_new:
                with suppress(OSError):
                    folder.rmdir()  # only if nothing was written


@contextmanager
def patient(seconds: float) -> Iterator[None]:
    """Context in which :func:`lock_folder` waits for another process to finish instead of refusing at once."""
    token = _patience.set(seconds)
    try:
        yield
    finally:
        _patience.reset(token)


def wait_for_writer(folder: Path) -> None:
    """Inside :func:`patient`, wait until no other process writes to a folder, to read its results."""
    if _patience.get() and (folder / LOCK).exists():
        with lock_folder(folder, "wait"):
            return


def remove_leftovers(folder: Path) -> None:
    """Remove part files and locks of dead processes from a folder and its subfolders."""
    remove_stray_parts(folder)
    for path in list(folder.glob(f"**/{LOCK}")):
        with suppress(InputError), patient(0.0), lock_folder(path.parent, "clean"):
            continue


def _lock(folder: Path, what: str) -> int | None:
    """Acquire the lock and return its open file; None if the folder cannot be locked.

    No link is followed, and no file is written that is not a lock of ours.

    Raises:
        InputError: another process holds the lock, or something else has its name.
    """
    path, until = folder / LOCK, time.monotonic() + _patience.get()
    while True:
        try:
            make_folder(folder)
            file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)
        except OSError:
            if os.path.lexists(path) and not stat.S_ISREG(path.lstat().st_mode):
                raise InputError(_foreign(path)) from None
            return None  # what is to be written says why it cannot be
        try:
            state = os.fstat(file)
            if not stat.S_ISREG(state.st_mode) or state.st_nlink > 1:
                raise _ForeignFileError
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Its last holder may have removed it meanwhile: then another process can lock a new one.
            if os.path.samestat(os.fstat(file), path.lstat()):
                if not _is_ours(file):
                    raise _ForeignFileError
                os.ftruncate(file, 0)
                os.pwrite(file, json.dumps(_holder(what)).encode(), 0)
                return file
        except _ForeignFileError:
            os.close(file)
            raise InputError(_foreign(path)) from None
        except FileNotFoundError:
            pass
        except OSError as error:
            if error.errno in _WITHOUT_LOCKS:
                remark(f"{folder} is on a file system without locks: start no second command that writes to it")
                os.close(file)
                return None
            if error.errno not in _TAKEN:
                os.close(file)
                raise
            if time.monotonic() > until:
                message = _refusal(folder, file)
                os.close(file)
                raise InputError(message) from None
            time.sleep(0.05)
        os.close(file)


class _ForeignFileError(Exception):
    """The file at a lock's place is not a lock of ours."""


def _is_ours(file: int) -> bool:
    """True if an open file is empty, as a process that was killed may leave it, or names the holder of a lock."""
    content = os.pread(file, 4096, 0)
    try:
        return not content or json.loads(content).keys() >= {"command", "pid"}
    except (ValueError, AttributeError):
        return False


def _foreign(path: Path) -> str:
    return (
        f"{path} is not a lock of medunlearn, which needs that name and writes over no file of others. Move it "
        "away, or give another --out."
    )


def _holder(what: str) -> dict[str, object]:
    since = datetime.now(UTC).isoformat(timespec="seconds")
    return {"command": what, "pid": os.getpid(), "host": socket.gethostname(), "since": since}


def _refusal(folder: Path, file: int) -> str:
    who = "Another process"
    with suppress(OSError, ValueError, KeyError, TypeError):
        holder = json.loads(os.pread(file, 4096, 0))
        who = f"`{holder['command']}`, process {holder['pid']} on {holder['host']} since {holder['since']},"
    return f"{who} writes to {folder}. Wait for it or stop it, or give another --out."


def _forget() -> None:
    """Drop inherited locks after a fork: the child's copies of the open files would outlive the parent."""
    for file in _held.values():
        with suppress(OSError):
            os.close(file)
    _held.clear()


os.register_at_fork(after_in_child=_forget)
