"""Engine of a Ray cluster."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from types import TracebackType
from typing import Any

from medunlearn.data.storage import make_folder
from medunlearn.study.slots.call import Call, CallResult, failure_reason
from medunlearn.study.slots.process_launch import ClusterCall
from medunlearn.study.slots.slot import Slot

POLL = 1.0


class RayEngine:
    """Calls as tasks of a Ray cluster, each with the resources of its own processes.

    A task that loses its machine is rerun from its checkpoint.
    """

    def __init__(self, slots: Sequence[Slot]) -> None:
        self._ray: Any = import_module("ray")
        if not self._ray.is_initialized():
            self._ray.init(log_to_driver=False, include_dashboard=False)
        self._slots, self._running = slots, dict[Any, tuple[str, float]]()
        has_gpus = bool(slots) and slots[0].device != "cpu" and self._ray.cluster_resources().get("GPU", 0)
        self._gpus_per_process = 1 if has_gpus else 0
        self._task = self._ray.remote(max_retries=10, max_calls=1)(_run)

    @property
    def has_room(self) -> bool:
        return len(self._slots) > len(self._running)

    def start(self, call: Call) -> bool:
        make_folder(call.log.parent)
        slot, _ = self._slots[0].split(call.processes_in(self._slots[0]))
        gpus = self._gpus_per_process * slot.processes
        task = self._task.options(num_cpus=slot.processes, num_gpus=gpus)
        self._running[task.remote(ClusterCall(call, slot))] = call.name, time.monotonic()
        return True

    def wait(self) -> CallResult:
        while not (finished := self._ray.wait(list(self._running), num_returns=1, timeout=POLL)[0]):
            continue
        name, started = self._running.pop(finished[0])
        try:
            value, failure = self._ray.get(finished[0])
        except Exception as error:
            value, failure = None, failure_reason(error)
        return CallResult(name, value, failure, time.monotonic() - started)

    def __enter__(self) -> RayEngine:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for reference in self._running:
            with suppress(Exception):
                self._ray.cancel(reference)


def _run(call: ClusterCall) -> tuple[Any, str]:
    return call()
