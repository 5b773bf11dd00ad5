"""Pool of this machine's slots, whose workers run calls; small calls share a slot."""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from types import TracebackType
from typing import Any

from medunlearn.study.slots.call import PATIENCE, Call, CallResult
from medunlearn.study.slots.slot import Slot
from medunlearn.study.slots.worker import Worker


class Pool:
    """Engine of this machine; a context that leaves no process behind.

    Calls of fewer processes than a slot's share one. The caller offers calls in the order of their priority, and a
    refused one again after the next end. A call of a whole slot, if none is free but some are split, reserves the
    one with the fewest running processes. Calls that are offered before the next end still join a slot that was
    split since the last one; then nothing starts there until its parts are back, and the reserving call has it. So
    a call of a whole slot waits for the calls that were ready when the slot was split, and for no later ones.

    On Ctrl-C each worker finishes its step and writes a checkpoint; a second Ctrl-C ends them at once.
    """

    def __init__(self, slots: Sequence[Slot]) -> None:
        # The slot whose call ended last comes first: its worker has the most in memory.
        self._slots = [_SplitSlot(slot) for slot in slots]
        self._running: dict[Future[tuple[Any, str]], tuple[_SplitSlot, Worker, str, float]] = {}

    @property
    def has_room(self) -> bool:
        """True if a call of one process may start now."""
        return any(slot.has_room(1) for slot in self._slots)

    def start(self, call: Call) -> bool:
        """Start a call or reserve a slot for it; False if it is to be offered again."""
        # The fullest first, so that other slots stay whole.
        for slot in sorted(self._slots, key=lambda slot: slot.free.processes):
            if slot.has_room(call.processes_in(slot.whole)):
                self._submit(call, slot)
                return True
        split = [slot for slot in self._slots if slot.free.processes and slot.reserved_for is None]
        if split:
            max(split, key=lambda slot: slot.free.processes).reserved_for = call
        return bool(split)

    def wait(self) -> CallResult:
        """Wait for the next call that ends."""
        for slot in self._slots:
            slot.joinable = False
        # With a time limit, so that Ctrl-C is heard everywhere.
        while not (finished := wait(self._running, timeout=1.0, return_when=FIRST_COMPLETED).done):
            continue
        future = finished.pop()
        slot, worker, name, started = self._running.pop(future)
        value, failure = worker.result(future)
        slot.give_back(worker)
        self._slots.sort(key=lambda other: other is not slot)
        if slot.is_free:
            self._start_reserving_call(slot)
        return CallResult(name, value, failure, time.perf_counter() - started)

    def _start_reserving_call(self, slot: _SplitSlot) -> None:
        """Start the call that reserved this slot in it, else one that reserved another slot, which it gives up."""
        holder = next((holder for holder in (slot, *self._slots) if holder.reserved_for), slot)
        call, holder.reserved_for = holder.reserved_for, None
        if call is not None:
            self._submit(call, slot)

    def _submit(self, call: Call, slot: _SplitSlot) -> None:
        started, worker = time.perf_counter(), slot.take(call.processes_in(slot.whole))
        self._running[worker.submit(call)] = slot, worker, call.name, started

    def __enter__(self) -> Pool:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if isinstance(error, KeyboardInterrupt):
                for _, worker, _, _ in self._running.values():
                    worker.interrupt()
                wait(self._running, timeout=PATIENCE)
        finally:
            for slot in self._slots:
                for worker in slot.workers:
                    worker.kill()


class _SplitSlot:
    """A slot that calls share.

    Attributes:
        free: part without a call.
        workers: of all parts; idle ones keep in memory what the next call in the same part may use.
        reserved_for: call that starts when the slot is whole again.
        joinable: the slot was split since the last end, so that a reservation does not close it yet.
    """

    def __init__(self, slot: Slot) -> None:
        self.whole, self.free = slot, slot
        self.workers: list[Worker] = []
        self.reserved_for: Call | None = None
        self.joinable = False

    @property
    def is_free(self) -> bool:
        return self.free.processes == self.whole.processes

    def has_room(self, processes: int) -> bool:
        """True if a call of so many processes may start."""
        return processes <= self.free.processes and (self.reserved_for is None or self.joinable)

    def take(self, processes: int) -> Worker:
        """A worker of a free part."""
        self.joinable |= self.is_free
        part, self.free = self.free.split(processes)
        if processes > 1:
            self._end_small_workers()
        worker = next((worker for worker in self.workers if worker.slot == part and not worker.busy), None)
        if worker is None:
            worker = Worker(part)
            self.workers.append(worker)
        worker.busy = True
        return worker

    def give_back(self, worker: Worker) -> None:
        """Take back a part whose call has ended."""
        worker.busy = False
        self.free = self.free.merge(worker.slot)

    def _end_small_workers(self) -> None:
        """End idle workers of one process: they hold memory of devices that several processes may need now."""
        for worker in [worker for worker in self.workers if worker.slot.processes == 1 and not worker.busy]:
            worker.kill()
            self.workers.remove(worker)
