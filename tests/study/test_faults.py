"""What goes wrong in mid-run: a loss that becomes NaN, a full disk. What was there before stays."""

from __future__ import annotations

import errno
import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from medunlearn.config import EvaluateSettings, check
from medunlearn.data.benchmark import Benchmark
from medunlearn.errors import InputError, NonFiniteLossError, StorageError
from medunlearn.papers.amnesia.settings import AmnesiaSettings
from medunlearn.probes.evaluate import evaluate_one
from medunlearn.results.runs import Run
from medunlearn.study.benchmark_builds import save_new
from medunlearn.study.presets import train_settings, unlearn_settings
from medunlearn.study.train import train
from medunlearn.study.unlearn import unlearn

POISON = """
import os
from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True)
class Poisoned:
    calls: ClassVar[list[int]] = []
    weight: float = 1.0

    def loss(self, forget, retain):
        self.calls.append(1)
        # The first call is the engine's, which looks what the method asks for.
        bad = float("nan") if len(self.calls) == 6 and "POISON" in os.environ else 1.0
        return {"forget": -forget.nll(), "guard": self.weight * bad * retain.nll()}
"""
MIB = 2**20


def info(folder: Path) -> dict[str, Any]:
    read: dict[str, Any] = json.loads((folder / "run.json").read_text())
    return read


def weights(folder: Path) -> bytes:
    return (folder / "model" / "model.safetensors").read_bytes()


def unlearning(method: str, **values: Any) -> Any:
    given = {"method": method, "split": "random_10", "epochs": 4, "precision": "fp32", **values}
    return unlearn_settings(given, tiny=True)


def test_a_term_that_becomes_nan(
    hospital: Benchmark, target: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"poison_{tmp_path.name}"
    (tmp_path / f"{name}.py").write_text(POISON)
    monkeypatch.syspath_prepend(tmp_path)
    settings, out = unlearning(f"{name}:Poisoned"), tmp_path / "run"
    with monkeypatch.context() as patch:
        patch.setenv("POISON", "1")
        with pytest.raises(NonFiniteLossError) as caught:
            unlearn(target, hospital, settings, out, quiet=True)
    assert "'guard' became nan at step 4" in str(caught.value)
    assert "Lower --lr" in str(caught.value)
    assert caught.value.exit_code == 1
    assert info(out)["status"] == "failed"
    assert info(out)["error"].startswith("NonFiniteLossError: The loss term 'guard'")
    assert [path.parent.name for path in out.glob("checkpoints/unlearn/*/state.json")] == ["step-00000004"]
    assert not (out / "model").exists()
    with pytest.raises(NonFiniteLossError, match="step 1"):
        unlearn(target, hospital, unlearning("ga", lr=1e30), tmp_path / "diverged", quiet=True)
    # Once the method is mended, the same call goes on from the last good step and ends as if nothing had been.
    mended = unlearn(target, hospital, settings, out, quiet=True)
    whole = unlearn(target, hospital, settings, tmp_path / "whole", quiet=True)
    assert mended.info["status"] == "complete"
    assert len(mended.history()) == 8
    assert weights(out) == weights(whole.folder)


class Disk:
    """A file system that a test can fill and free."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch | None) -> None:
        self.folder, self._patch = folder, patch
        self.real = patch is None

    def fill(self, leave: int = 0) -> None:
        """Leave so many bytes free."""
        if self._patch is None:
            free = os.statvfs(self.folder)
            size = free.f_bavail * free.f_frsize - leave
            with (self.folder / "ballast").open("wb") as file:
                for _ in range(size // 4096):
                    file.write(bytes(4096))
            return

        def full(file: int) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

        self._patch.setattr("medunlearn.data.storage.os.fsync", full)

    def free(self) -> None:
        if self._patch is None:
            (self.folder / "ballast").unlink()
        else:
            self._patch.undo()


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    """A real one of 8 MiB where this may be mounted; elsewhere one whose files refuse to be flushed."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(folder)]
    try:
        mounted = subprocess.run(mount, capture_output=True, check=False).returncode == 0
    except OSError:
        mounted = False
    with pytest.MonkeyPatch.context() as patch:
        yield Disk(folder, None if mounted else patch)
    if mounted:
        # Lazy: weights that a model has mapped stay open until it is collected.
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def test_a_full_disk_while_a_benchmark_is_built(hospital: Benchmark, disk: Disk) -> None:
    from medunlearn.papers.amnesia.build import build

    hospital.save(disk.folder / "old")
    other = build(AmnesiaSettings(synthetic=20, seed=1))
    disk.fill(8192)
    with pytest.raises(StorageError, match=r"The disk is full: .* was not written\. Free some space"):
        save_new(other, disk.folder / "new")
    with pytest.raises(StorageError, match="The disk is full"):
        other.save(disk.folder / "old")
    assert Benchmark.load(disk.folder / "old").fingerprint == hospital.fingerprint
    assert not list(disk.folder.rglob("*.part"))
    disk.free()
    save_new(other, disk.folder / "new")
    assert Benchmark.load(disk.folder / "new").fingerprint == other.fingerprint


@pytest.mark.parametrize("at_checkpoint", [True, False])
def test_a_full_disk_while_a_model_is_trained_or_saved(
    hospital: Benchmark, small: dict[str, Any], disk: Disk, tmp_path: Path, at_checkpoint: bool
) -> None:
    more = {"checkpoint_seconds": 0} if at_checkpoint else {}
    settings, out = train_settings({**small, "epochs": 1, **more}), disk.folder / "run"
    # A checkpoint of this model takes 1.1 MiB, and the old one is removed only once the new one is whole.
    disk.fill(int(1.6 * MIB) if at_checkpoint else 100 * 1024)
    with pytest.raises(StorageError, match=r"The disk is full: .* was not written") as caught:
        train(hospital, settings, out, quiet=True)
    if disk.real and at_checkpoint:
        assert "/checkpoints/finetune/step-" in str(caught.value)
        assert info(out)["status"] == "failed"
        assert len(list(out.glob("checkpoints/finetune/*/state.json"))) == 1
    assert not at_checkpoint or not (out / "model").exists()
    disk.free()
    with pytest.raises(InputError, match=r"holds no run|not complete"):
        Run.open(out)
    train(hospital, settings, out, quiet=True)
    whole = train(hospital, settings, tmp_path / "whole", quiet=True)
    assert weights(Run.open(out).folder) == weights(whole.folder)


def test_a_full_disk_while_questions_are_asked(
    hospital: Benchmark, small: dict[str, Any], disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    from medunlearn.data.responses import ResponseStore

    run = train(hospital, train_settings({**small, "epochs": 1}), disk.folder / "run", quiet=True)
    values = {"split": "random_10", "replicates": 20, "limit": 2, "max_new_tokens": 4, "batch_size": 4}
    settings = check(EvaluateSettings, values)
    add, stored = ResponseStore.add, list[tuple[str, int]]()

    def fill_after_two(store: ResponseStore, responses: Any) -> None:
        batch = list(responses)
        if len(stored) == 8 and not freed:
            disk.fill()
        add(store, batch)
        stored.extend((response.question_id, response.sample) for response in batch)

    freed: list[bool] = []
    monkeypatch.setattr(ResponseStore, "add", fill_after_two)
    with pytest.raises(StorageError, match="The disk is full"):
        evaluate_one(run, hospital, settings, quiet=True)
    assert len(stored) == 8
    disk.free()
    freed.append(True)
    responses = evaluate_one(run, hospital, settings, quiet=True).responses
    # Nobody was asked twice.
    assert len(stored) == len(set(stored))
    # The others are ranks of facts, by their place in the answer.
    assert len([question for question, place in stored if place == 0]) == len(responses) == 32
