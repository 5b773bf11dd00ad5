"""A request that is killed in every stage, and on a full disk, ends in the same evidence as one that is not."""

from __future__ import annotations

import errno
import signal
from pathlib import Path
from typing import Any

import pytest
from forgetting_world import Hospital
from forking import killed_after

from medunlearn import api
from medunlearn.errors import StorageError
from medunlearn.probes import evaluate
from medunlearn.request import forget_request, forget_stages
from medunlearn.request.case import case_folder
from medunlearn.request.forget_stages import Forgotten
from medunlearn.study import adopt, export, unlearn
from medunlearn.training import loop

STAGES: tuple[tuple[Any, str, int], ...] = (
    (forget_request, "build_benchmarks", 1),
    (adopt, "adopt", 1),
    (evaluate, "evaluate_one", 1),
    (loop, "_step", 3),
    (unlearn, "unlearn", 1),
    (evaluate, "evaluate_one", 2),
    (export, "export", 1),
    (case_folder, "_write", 3),
    (forget_stages, "write_case", 1),
    (forget_request.ForgetRequest, "record", 1),
    (forget_stages, "append_request", 1),
    (forget_stages, "write_report", 1),
)
"""Module, function and the call of it after which the process is killed."""


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
    result = hospital.forget(out, patient)
    time = {"created": result.case.evidence.created}
    assert forgotten.case.evidence.model_copy(update=time) == result.case.evidence
    assert api.verify([result.model, out], work=result.work, quiet=True).wrong == []
