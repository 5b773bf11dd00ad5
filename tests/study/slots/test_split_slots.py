"""Calls that share a slot: which GPUs they get, who waits for whom, and what happens when one of them dies."""

from __future__ import annotations

import os
import signal
import time
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest
from fake_scheduler import ForkedRanks
from forking import forked_workers

from medunlearn.study.slots import pool as pool_module
from medunlearn.study.slots import process_launch
from medunlearn.study.slots.call import Call
from medunlearn.study.slots.pool import Pool
from medunlearn.study.slots.slot import Slot, local_slots


class IdleWorker:
    """A worker whose calls end when a test says so."""

    def __init__(self, slot: Slot, machine: Machine) -> None:
        self.slot, self.busy, self.machine, self.killed = slot, False, machine, False

    def submit(self, call: Call) -> Future[tuple[Any, str]]:
        assert not self.killed
        assert call.name not in self.machine.running
        self.machine.started.append(call.name)
        self.machine.gpus[call.name] = self.slot.gpus
        self.machine.workers[call.name] = self
        busy = {gpu for name in self.machine.running for gpu in self.machine.gpus[name]}
        assert not busy & set(self.slot.gpus), "two calls on one GPU"
        self.machine.running[call.name] = Future()
        return self.machine.running[call.name]

    def result(self, future: Future[tuple[Any, str]]) -> tuple[Any, str]:
        return future.result()

    def kill(self) -> None:
        self.killed = True


class Machine:
    """Eight GPUs, and what runs on them."""

    def __init__(self) -> None:
        self.started = list[str]()
        self.gpus = dict[str, tuple[int, ...]]()
        self.workers = dict[str, IdleWorker]()
        self.running = dict[str, Future[tuple[Any, str]]]()

    def end(self, pool: Pool, name: str) -> None:
        self.running.pop(name).set_result((name, ""))
        assert pool.wait().name == name


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    machine = Machine()
    monkeypatch.setattr("torch.cuda.device_count", lambda: 8)
    monkeypatch.setattr(pool_module, "Worker", lambda slot: IdleWorker(slot, machine))
    return machine


def offer(pool: Pool, *names: str) -> list[str]:
    """Offer calls in this order, as a runner does; returns those that are refused. A capital takes a whole slot."""
    return [
        name
        for name in names
        if not (pool.has_room and pool.start(Call(name, print, None, Path(), None if name.isupper() else 1)))
    ]


def test_small_calls_fill_a_slot_and_a_whole_one_drains_it(machine: Machine) -> None:
    with Pool(local_slots(1, "cuda", 9, 4)) as pool:
        # Ready together: all small ones share the slot, and the whole one is next.
        assert offer(pool, "a", "W", "b", "c") == []
        assert [machine.gpus[name] for name in "abc"] == [(0,), (1,), (2,)]
        machine.end(pool, "b")
        assert offer(pool, "d", "V") == ["d", "V"]
        machine.end(pool, "a")
        assert not pool.has_room
        machine.end(pool, "c")
        assert machine.gpus["W"] == (0, 1, 2, 3)
        # The small calls' workers have left the memory of its GPUs.
        assert all(machine.workers[name].killed for name in "abc")
        machine.end(pool, "W")
        assert offer(pool, "V", "d") == ["d"]
        assert machine.started == [*"abcWV"]
        assert machine.workers["V"] is machine.workers["W"]


def test_a_slot_fills_up_while_no_call_needs_all_of_it(machine: Machine) -> None:
    with Pool(local_slots(1, "cuda", 9, 4)) as pool:
        assert offer(pool, *"abcde") == ["e"]
        machine.end(pool, "b")
        assert offer(pool, "e") == []
        assert machine.gpus["e"] == (1,)
        # What the part's last call left in memory is there for the next.
        assert machine.workers["e"] is machine.workers["b"]
        # The next whole call is first in line; no small one that comes later gets between.
        machine.end(pool, "a")
        assert offer(pool, "W", "f") == ["f"]


def test_whole_calls_do_not_starve_behind_small_ones(machine: Machine) -> None:
    """A tuning's next trial is ready whenever its last one ends, and is first in line each time."""
    with Pool(local_slots(1, "cuda", 9, 4)) as pool:
        assert offer(pool, "a", "W") == []
        machine.end(pool, "a")
        assert offer(pool, "b", "V") == ["b", "V"]
        machine.end(pool, "W")
        assert offer(pool, "b", "V", "c") == []
        machine.end(pool, "b")
        assert offer(pool, "d") == ["d"]
        machine.end(pool, "c")
        assert offer(pool, "d") == ["d"]
        assert machine.started == [*"aWbcV"]


def test_other_slots_stay_whole(machine: Machine) -> None:
    with Pool(local_slots(None, "cuda", 9, 4)) as pool:
        assert offer(pool, "a", "b", "V") == []
        assert {machine.gpus["a"], machine.gpus["b"]} == {(0,), (1,)}
        assert machine.gpus["V"] == (4, 5, 6, 7)
        assert offer(pool, "W", "U") == ["U"]
        # W waits for the parts of the first slot, and takes the second if that is free before.
        machine.end(pool, "V")
        assert machine.gpus["W"] == (4, 5, 6, 7)
        assert offer(pool, "c") == []
        assert machine.gpus["c"] == (2,)


FUNCTIONS = """
import os, signal, time

def gpus(slot):
    return slot.device, slot.gpus, os.environ["CUDA_VISIBLE_DEVICES"], slot.processes

def meet(folder, slot):
    # Returns only if another one runs at the same time.
    (folder / os.environ["CUDA_VISIBLE_DEVICES"]).touch()
    limit = time.monotonic() + 30
    while len(list(folder.iterdir())) < 2:
        assert time.monotonic() < limit
        time.sleep(0.01)
    return gpus(slot)

def tell(argument, slot):
    return gpus(slot)

def die_beside_another(folder, slot):
    limit = time.monotonic() + 30
    while not (folder / "other").exists():
        assert time.monotonic() < limit
        time.sleep(0.01)
    os.kill(os.getpid(), signal.SIGKILL)

def outlive(folder, slot):
    (folder / "other").touch()
    limit = time.monotonic() + 30
    while not (folder / "replaced").exists():
        assert time.monotonic() < limit
        time.sleep(0.01)
    return gpus(slot)

def replace(folder, slot):
    (folder / "replaced").touch()
    return gpus(slot)
"""


@pytest.fixture
def functions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    name = f"functions_{tmp_path.name}"
    (tmp_path / f"{name}.py").write_text(FUNCTIONS)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 8)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "7,6,5,4,3,2,1,0")
    monkeypatch.setattr(process_launch, "RankProcesses", ForkedRanks)
    monkeypatch.setattr(process_launch, "_BEAT", 0.02)
    return __import__(name)


def test_processes_see_the_gpus_of_their_part(functions: Any, tmp_path: Path) -> None:
    meeting, log = tmp_path / "meeting", tmp_path / "logs" / "call.log"
    meeting.mkdir()
    _, slot = local_slots(None, "cuda", 9, 4)
    with forked_workers(), Pool([slot]) as pool:
        for name in ("a", "b"):
            assert pool.start(Call(name, functions.meet, meeting, log, 1))
        assert pool.start(Call("W", functions.tell, None, log))
        results = {result.name: result for result in (pool.wait() for _ in range(3))}
    assert not [result.failure for result in results.values() if result.failure]
    assert results["a"].value == ("cuda", (4,), "3", 1)
    assert results["b"].value == ("cuda", (5,), "2", 1)
    assert results["W"].value == ("cuda", (4, 5, 6, 7), "3,2,1,0", 4)
    assert "a: starts on cuda 4 with" in log.read_text()


def test_a_part_that_dies_is_replaced_beside_the_others(functions: Any, tmp_path: Path) -> None:
    log = tmp_path / "logs" / "call.log"
    (slot,) = local_slots(1, "cuda", 9, 2)
    with forked_workers(), Pool([slot]) as pool:
        pool.start(Call("dies", functions.die_beside_another, tmp_path, log, 1))
        pool.start(Call("other", functions.outlive, tmp_path, log, 1))
        died = pool.wait()
        assert (died.name, died.failure) == ("dies", "its process ended (by signal 9; out of memory?)")
        assert pool.start(Call("next", functions.replace, tmp_path, log, 1))
        ended = {result.name: result.value for result in (pool.wait(), pool.wait())}
        assert ended == {"next": ("cuda", (0,), "7", 1), "other": ("cuda", (1,), "6", 1)}


def test_the_worker_of_a_whole_slot_is_replaced(
    functions: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    launcher, log = tmp_path / "launcher", tmp_path / "logs" / "call.log"

    class EndlessRanks:
        def __init__(self, *given: object) -> None:
            launcher.with_suffix(".part").write_text(str(os.getpid()))
            launcher.with_suffix(".part").rename(launcher)

        def poll(self) -> None:
            return None

    (slot,) = local_slots(1, "cuda", 9, 2)
    with forked_workers(), Pool([slot]) as pool:
        monkeypatch.setattr(process_launch, "RankProcesses", EndlessRanks)
        assert pool.start(Call("W", functions.tell, None, log))
        limit = time.monotonic() + 30
        while not launcher.exists():
            assert time.monotonic() < limit
            time.sleep(0.01)
        os.kill(int(launcher.read_text()), signal.SIGKILL)
        assert pool.wait().failure == "its process ended (by signal 9; out of memory?)"
        assert pool.start(Call("small", functions.tell, None, log, 1))
        assert pool.wait().value == ("cuda", (0,), "7", 1)
        monkeypatch.setattr(process_launch, "RankProcesses", ForkedRanks)
        assert pool.start(Call("W", functions.tell, None, log))
        assert pool.wait().value == ("cuda", (0, 1), "7,6", 2)
