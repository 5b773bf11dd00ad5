"""A request that is killed in every stage, and on a full disk, ends in the same evidence as one that is not."""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from forgetting_world import Hospital
from forking import Forked

from medunlearn import api
from medunlearn.cases import case_folder
from medunlearn.errors import StorageError
from medunlearn.forgetting import forget_run, measuring_models
from medunlearn.forgetting.forget_run import Forgotten
from medunlearn.training import loop

STAGES: tuple[tuple[Any, str, int], ...] = (
    (forget_run, "build_benchmarks", 1),
    (forget_run, "adopt", 1),
    (measuring_models, "evaluate_one", 1),
    (loop, "_step", 3),
    (forget_run, "unlearn", 1),
    (measuring_models, "evaluate_one", 2),
    (forget_run, "export", 1),
    (case_folder, "_write", 3),
    (forget_run, "write_case", 1),
    (forget_run, "record_request", 1),
    (forget_run, "append_request", 1),
    (forget_run, "write_report", 1),
)
"""Module, function and the call of it after which the process is killed."""


def killed_after(module: Any, name: str, calls: int, work: Callable[[], object]) -> int:
    """Exit code of a process in which the call number ``calls`` of a function is the last thing done."""
    real, count = getattr(module, name), 0

    def call(*given: Any, **more: Any) -> Any:
        nonlocal count
        count += 1
        result = real(*given, **more)
        if count == calls:
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    with mock.patch.object(module, name, call):
        return Forked(work).wait()


def test_killed_in_every_stage_it_goes_on(
    hospital: Hospital, forgotten: Forgotten, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, patient = tmp_path / "case", hospital.patients[0]
    for module, name, calls in STAGES[:7]:
        assert killed_after(module, name, calls, lambda: hospital.forget(out, patient)) == -signal.SIGKILL, name
        assert not out.exists()

    def full(path: Path, content: bytes) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(case_folder, "_write", full)
        with pytest.raises(StorageError, match="disk is full"):
            hospital.forget(out, patient)
    assert not out.exists()
    for module, name, calls in STAGES[7:]:
        assert killed_after(module, name, calls, lambda: hospital.forget(out, patient)) == -signal.SIGKILL, name
        assert out.exists() == (name != "_write")
    done = hospital.forget(out, patient)
    time = {"created": done.case.evidence.created}
    assert forgotten.case.evidence.model_copy(update=time) == done.case.evidence
    assert api.verify([done.model, out], work=done.work, quiet=True).wrong == []
