"""The record of a run shared by several processes."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from medunlearn.config import Settings
from medunlearn.data.data_use import DataUse
from medunlearn.results.runs import Recording
from medunlearn.training.processes import Processes


def open_recording(
    processes: Processes,
    out: Path,
    verb: str,
    label: str,
    settings: Settings,
    inputs: Mapping[str, Any],
    *,
    data_use: DataUse | None,
) -> Recording:
    """The run's record, equal in every process; rank 0 writes it.

    Raises:
        InputError: the folder contains another run.
    """
    # A lone process meets nobody, and its processor time is the run's.
    barrier = processes.barrier if processes.world > 1 else nullcontext
    how: dict[str, Any] = {"data_use": data_use, "writes": processes.main, "barrier": barrier}
    with processes.barrier():
        recording = Recording(out, verb, label, settings, inputs, **how)
    recording.done = processes.broadcast(recording.done)
    recording.info.hardware["processes"] = processes.world
    return recording
