"""One writer a folder: a second process is refused, a dead one holds nothing."""

from __future__ import annotations

import errno
import fcntl
import os
import re
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from forking import PATIENCE, Forked

from medunlearn.data.folder_lock import lock_folder, patient, remove_leftovers
from medunlearn.data.leftovers import LOCK
from medunlearn.errors import InputError


def hold(folder: Path) -> Forked:
    """A process that holds the lock of a folder until it is killed."""

    def work() -> None:
        with lock_folder(folder, "train"):
            (folder / "held").touch()
            time.sleep(PATIENCE)

    process = Forked(work)
    until = time.monotonic() + PATIENCE
    while not (folder / "held").exists():
        assert time.monotonic() < until
        time.sleep(0.01)
    return process


def test_a_second_process_is_told_who_writes_and_a_dead_one_does_not_count(tmp_path: Path) -> None:
    out = tmp_path / "out"
    holder = hold(out)
    with pytest.raises(InputError) as refused, lock_folder(out, "train"):
        pass
    message = (
        rf"`train`, process {holder.pid} on .+ since 20\d\d-\S+, writes to {re.escape(str(out))}\. Wait for it"
    )
    assert re.match(message, str(refused.value))
    holder.kill()
    holder.wait()
    assert (out / LOCK).exists()
    with patient(PATIENCE), lock_folder(out, "train"):
        assert (out / LOCK).exists()
    assert [path.name for path in out.iterdir()] == ["held"]


def test_locks_of_the_dead_are_removed_and_those_of_the_living_stay(tmp_path: Path) -> None:
    dead, living = hold(tmp_path / "dead"), hold(tmp_path / "living")
    dead.kill()
    dead.wait()
    with lock_folder(tmp_path, "sweep"):
        remove_leftovers(tmp_path)
        assert (tmp_path / LOCK).exists()
    assert [path.parent.name for path in tmp_path.rglob(LOCK)] == ["living"]
    living.kill()
    living.wait()


def test_a_patient_process_waits_for_the_lock(tmp_path: Path) -> None:
    holder = hold(tmp_path)
    threading.Timer(0.3, holder.kill).start()
    with patient(PATIENCE), lock_folder(tmp_path, "train"):
        assert holder.wait() < 0


def test_a_lock_leaves_nothing_behind_and_may_be_taken_twice(tmp_path: Path) -> None:
    out = tmp_path / "a" / "out"
    with lock_folder(out, "run"), lock_folder(out, "report"):
        assert out.stat().st_mode & 0o077 == 0
    assert not out.exists()
    with lock_folder(out, "run"):
        (out / "file").touch()
    with lock_folder(out, "run"):
        pass
    assert [path.name for path in out.iterdir()] == ["file"]


def test_a_thread_is_another_writer(tmp_path: Path) -> None:
    errors: list[BaseException] = []

    def work() -> None:
        try:
            with lock_folder(tmp_path, "train"):
                pass
        except InputError as error:
            errors.append(error)

    with lock_folder(tmp_path, "train"):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert len(errors) == 1


def test_a_forked_process_does_not_hold_its_parents_lock(tmp_path: Path) -> None:
    with lock_folder(tmp_path, "train"):
        child = Forked(lambda: time.sleep(PATIENCE))
    # The child lives on with a copy of the open file.
    with lock_folder(tmp_path, "train"):
        assert child.poll() is None
        other = Forked(lambda: lock_folder(tmp_path, "train").__enter__())
        assert other.wait() == 1
    child.kill()
    child.wait()


def test_without_locks_or_rights_work_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(number: int) -> Any:
        def call(*arguments: object) -> None:
            raise OSError(number, os.strerror(number))

        return call

    with monkeypatch.context() as patch:
        patch.setattr(fcntl, "flock", refuse(errno.ENOTSUP))
        with lock_folder(tmp_path, "train"):
            (tmp_path / "file").touch()
    assert "file system without locks" in capsys.readouterr().err
    with monkeypatch.context() as patch:
        patch.setattr(os, "open", refuse(errno.EROFS))
        with lock_folder(tmp_path / "other", "train"):
            pass
    assert capsys.readouterr().err == ""
    file = tmp_path / "file"
    with lock_folder(file, "train"):
        pass
    assert file.is_file()


def a_link(lock: Path, victim: Path) -> None:
    lock.symlink_to(victim)


def a_hard_link(lock: Path, victim: Path) -> None:
    lock.hardlink_to(victim)


def a_link_to_nothing(lock: Path, victim: Path) -> None:
    lock.symlink_to(victim.with_name("nothing"))


def a_pipe(lock: Path, victim: Path) -> None:
    os.mkfifo(lock)


def a_folder(lock: Path, victim: Path) -> None:
    lock.mkdir()


def notes(lock: Path, victim: Path) -> None:
    lock.write_text("[1]")


@pytest.mark.parametrize("make", [a_link, a_hard_link, a_link_to_nothing, a_pipe, a_folder, notes])
def test_what_is_no_lock_of_ours_is_not_written(make: Callable[[Path, Path], None], tmp_path: Path) -> None:
    out, victim = tmp_path / "out", tmp_path / "clinical.csv"
    out.mkdir()
    victim.write_text("patient,note\n")
    make(out / LOCK, victim)
    before = (out / LOCK).lstat()
    with pytest.raises(InputError, match="not a lock of medunlearn"), lock_folder(out, "train"):
        pass
    remove_leftovers(out)
    assert victim.read_text() == "patient,note\n"
    assert not victim.with_name("nothing").exists()
    after = (out / LOCK).lstat()
    assert (after.st_ino, after.st_size, after.st_mtime_ns) == (before.st_ino, before.st_size, before.st_mtime_ns)


def test_an_empty_lock_of_a_process_that_was_killed_is_taken(tmp_path: Path) -> None:
    (tmp_path / LOCK).touch()
    with lock_folder(tmp_path, "train"):
        assert "train" in (tmp_path / LOCK).read_text()
    assert not [*tmp_path.iterdir()]
