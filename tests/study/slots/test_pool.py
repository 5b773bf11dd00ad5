"""Processes that work through calls: their deaths, their interruption, and what they leave in the logs.

They are forked; in the test of a script they are started, as a user's are.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from forking import Forked, forked_workers

from medunlearn.study.slots.call import Call, CallResult
from medunlearn.study.slots.pool import Pool
from medunlearn.study.slots.slot import Slot

FUNCTIONS = """
import os, signal, sys, time
from pathlib import Path
from medunlearn.errors import NonFiniteLossError

def double(value, slot):
    os.write(1, b"said by the function")
    return 2 * value, slot.threads, os.environ["OMP_NUM_THREADS"], os.getpid()

def diverge(value, slot):
    raise NonFiniteLossError("the loss became nan")

def break_down(value, slot):
    secret = "a patient's name"
    return [][value]

def folder(value, slot):
    print("printed by the function")
    return os.getcwd()

def die(value, slot):
    os.kill(os.getpid(), signal.SIGKILL)

def meet(folder, slot):
    # Ends well only if another one runs at the same time.
    (folder / str(os.getpid())).touch()
    limit = time.monotonic() + 30
    while len(list(folder.iterdir())) < 2 and time.monotonic() < limit:
        time.sleep(0.01)
    return len(list(folder.iterdir()))

def linger(path, slot):
    try:
        path.touch()
        time.sleep(60)
    except KeyboardInterrupt:
        path.with_suffix(".stopped").touch()
        raise
"""


@pytest.fixture
def functions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    name = f"functions_{tmp_path.name}"
    (tmp_path / f"{name}.py").write_text(FUNCTIONS)
    monkeypatch.syspath_prepend(tmp_path)
    return __import__(name)


@pytest.fixture
def _forked() -> Iterator[None]:
    with forked_workers():
        yield


def call(function: Any, argument: Any, tmp_path: Path, name: str = "cell") -> Call:
    return Call(name, function, argument, tmp_path / "logs" / f"{name}.log")


def one(pool: Pool, *given: Any) -> CallResult:
    pool.start(call(*given))
    return pool.wait()


@pytest.mark.usefixtures("_forked")
def test_a_worker_outlives_failures_and_is_replaced_when_it_dies(functions: Any, tmp_path: Path) -> None:
    with Pool([Slot()]) as pool:
        diverged = one(pool, functions.diverge, None, tmp_path)
        broken = one(pool, functions.break_down, 7, tmp_path, "broken")
        first = one(pool, functions.double, 1, tmp_path)
        same = one(pool, functions.double, 1, tmp_path)
        died = one(pool, functions.die, None, tmp_path)
        second = one(pool, functions.double, 2, tmp_path)
        os.kill(second.value[3], signal.SIGKILL)  # idle
        time.sleep(0.5)
        third = one(pool, functions.double, 3, tmp_path)
    assert diverged.failure == "the loss became nan"
    assert broken.failure == "IndexError: list index out of range"
    assert died.failure == "its process ended (by signal 9; out of memory?)"
    assert [result.value[0] for result in (first, second, third)] == [2, 4, 6]
    assert (same.failure, same.value) == ("", first.value)
    assert first.value[1:3] == (1, "1")
    assert len({os.getpid(), *(result.value[3] for result in (first, second, third))}) == 4
    log = (tmp_path / "logs" / "cell.log").read_text()
    assert "cell: starts on cpu with 1 threads" in log
    assert "said by the function" in log
    assert (tmp_path / "logs").stat().st_mode & 0o077 == 0
    log = (tmp_path / "logs" / "broken.log").read_text()
    # Where it broke, but no value.
    assert "in break_down" in log
    assert "a patient's name" not in log


def test_a_script_without_a_guard_is_not_run_again_and_its_folder_is_the_workers(
    functions: Any, tmp_path: Path
) -> None:
    script = tmp_path / "script.py"
    (tmp_path / "elsewhere").mkdir()
    script.write_text(
        f"import os\nfrom pathlib import Path\nimport {functions.__name__} as functions\n"
        "from medunlearn.study.slots.call import Call\nfrom medunlearn.study.slots.pool import Pool\n"
        "from medunlearn.study.slots.slot import Slot\n"
        "print('began', flush=True)\nos.chdir('elsewhere')\n"
        "with Pool([Slot()]) as pool:\n"
        "    pool.start(Call('x', functions.folder, None, Path('logs/x.log')))\n"
        "    print(pool.wait().value)\n"
    )
    ran = subprocess.run([sys.executable, script], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert ran.stdout.split() == ["began", str(tmp_path / "elsewhere")]
    assert "printed by the function" in (tmp_path / "elsewhere" / "logs" / "x.log").read_text()


@pytest.mark.usefixtures("_forked")
def test_workers_run_at_the_same_time(functions: Any, tmp_path: Path) -> None:
    meeting = tmp_path / "meeting"
    meeting.mkdir()
    with Pool([Slot(), Slot()]) as pool:
        for name in ("a", "b"):
            assert pool.has_room
            pool.start(call(functions.meet, meeting, tmp_path, name))
        assert not pool.has_room
        assert {pool.wait().value for _ in range(2)} == {2}


@pytest.mark.usefixtures("_forked")
def test_an_interrupt_reaches_the_workers(functions: Any, tmp_path: Path) -> None:
    started = tmp_path / "started"

    def interrupted() -> None:
        with Pool([Slot(), Slot()]) as pool:
            pool.start(call(functions.linger, started, tmp_path))
            wait_for(started)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert started.with_suffix(".stopped").exists()
    assert "interrupted" in (tmp_path / "logs" / "cell.log").read_text()


@pytest.mark.usefixtures("_forked")
def test_workers_do_not_outlive_a_killed_parent(functions: Any, tmp_path: Path) -> None:
    started = tmp_path / "started"

    def work() -> None:
        pool = Pool([Slot()])
        pool.start(Call("x", functions.linger, started, tmp_path / "x.log"))
        pool.wait()

    parent = Forked(work)
    wait_for(started)
    parent.kill()
    parent.wait()
    wait_for(started.with_suffix(".stopped"))


def wait_for(path: Path, seconds: float = 60.0) -> None:
    limit = time.monotonic() + seconds
    while not path.exists():
        assert time.monotonic() < limit, f"{path} did not come"
        time.sleep(0.02)
