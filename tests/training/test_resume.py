"""A run that was cut off and goes on ends bit for bit where it would have ended."""

from __future__ import annotations

import copy
import os
import shutil
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from training_runs import Row, copied, equal, stop_at, without_seconds

from medunlearn.methods import make_method
from medunlearn.methods.retain_terms import KL
from medunlearn.models.reference import Reference
from medunlearn.training.batch_plan import Plan, UtilityRecovery
from medunlearn.training.loop import LoopSettings, train_loop
from medunlearn.training.objectives import NextToken, Unlearning
from medunlearn.training.trainable import choose_trainable, trained

Run = Callable[..., tuple[dict[str, Tensor], list[Row]]]
STEPS = 4


@pytest.fixture(scope="module")
def plan(make_sequences: Callable[..., Any]) -> Plan:
    """Two epochs of two steps; the second epoch's batches differ from the first's."""
    return Plan({"forget": make_sequences(5, "f"), "retain": make_sequences(3, "r")}, 3, 2, 0)


@pytest.fixture(scope="module")
def run(tiny_base: Any, plan: Plan) -> Run:
    def go(
        method: str = "next_token",
        trainable: str = "all",
        folder: Path | None = None,
        on_step: Callable[[Row], None] = lambda row: None,
        plan: Plan = plan,
        **settings: Any,
    ) -> tuple[dict[str, Tensor], list[Row]]:
        model = choose_trainable(copy.deepcopy(tiny_base).model, trainable)
        objective: Any = NextToken() if method == "next_token" else Unlearning(make_method(method, {}), KL())
        options = LoopSettings(**{"lr": 1e-2, "precision": "fp32", "micro_batch_size": 2, **settings})
        reference = Reference(model)
        history = train_loop(
            model, 2, objective, plan, options, checkpoints=folder, reference=reference, on_step=on_step
        )
        return copied(model), without_seconds(history)

    return go


@pytest.fixture(scope="module")
def whole(run: Run) -> tuple[dict[str, Tensor], list[Row]]:
    """Weights and history of the plain run that nothing interrupts."""
    return run()


@pytest.fixture(scope="module")
def stopped(run: Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Checkpoints of the plain run after its steps 2 and 3, where it was stopped. Not to be changed."""
    folder = tmp_path_factory.mktemp("stopped")
    with pytest.raises(KeyboardInterrupt):
        run(folder=folder, on_step=stop_at(3), checkpoint_seconds=0.0)
    return folder


@pytest.mark.parametrize(
    ("step", "method", "trainable", "settings"),
    [
        (1, "next_token", "all", {}),
        (STEPS, "next_token", "all", {}),
        (3, "next_token", "all", {"precision": "bf16", "weight_decay": 0.1}),
        (3, "graddiff", "layers:1", {"checkpoint_seconds": 0.0}),
        (3, "npo", "all", {}),
        (3, "kl_min", "lora:4", {}),
        (3, "ngdiff", "all", {"precision": "bf16"}),
    ],
)
def test_resumed_is_uninterrupted(
    run: Run, tmp_path: Path, step: int, method: str, trainable: str, settings: dict[str, Any]
) -> None:
    check_resumed(run, tmp_path, step, method, trainable, settings)


@pytest.mark.parametrize("method", ["ngdiff", "pdu"])
def test_a_recovery_resumes(run: Run, plan: Plan, tmp_path: Path, method: str) -> None:
    """Its steps have the retain term alone, at a falling rate, whatever the method does in others."""
    plan = replace(plan, recovery=lambda done: UtilityRecovery(1, rests=True) if done else None)
    history = check_resumed(run, tmp_path, 3, method, "all", {"plan": plan, "schedule": "constant"})
    assert [("loss/forget" in row, "loss/retain_kl" in row) for row in history] == [(True, False)] * 2 + [
        (False, True)
    ] * 2
    assert [row["lr"] for row in history] == pytest.approx([1e-2, 1e-2, 1e-2, 5e-3])


def check_resumed(
    run: Run, tmp_path: Path, step: int, method: str, trainable: str, settings: dict[str, Any]
) -> list[Row]:
    """Checks that a run stopped after a step goes on bit for bit; its history."""
    weights, history = run(method, trainable, **settings)
    with pytest.raises(KeyboardInterrupt):
        run(method, trainable, tmp_path, stop_at(step), **settings)
    steps = [step - 1, step] if settings.get("checkpoint_seconds") == 0 else [step]
    assert sorted(folder.name for folder in tmp_path.iterdir()) == [f"step-{number:08d}" for number in steps]
    rows: list[Row] = []
    resumed_weights, resumed_history = run(method, trainable, tmp_path, rows.append, **settings)
    assert len(history) == STEPS
    assert resumed_history == without_seconds(rows) == history
    assert equal(resumed_weights, weights)
    return history


def test_a_whole_run_writes_no_checkpoint_unless_asked(run: Run, tmp_path: Path) -> None:
    run(folder=tmp_path)
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize("stop", [("first", STEPS), ("second", 3)])
def test_two_phases(tiny: Callable[[], Any], plan: Plan, tmp_path: Path, stop: tuple[str, int]) -> None:
    plans = {"first": plan, "second": Plan({"train": plan.sides["retain"]}, 2, 2, 7)}

    def go(folder: Path | None, interrupted: tuple[str, int] | None) -> tuple[dict[str, Tensor], list[Row]]:
        model, rows = tiny().model, list[Row]()
        for phase, steps in plans.items():
            rows += train_loop(
                model,
                2,
                NextToken(),
                steps,
                LoopSettings(lr=1e-2, precision="fp32"),
                checkpoints=folder / phase if folder else None,
                keep_final=phase == "first",
                on_step=stop_at(interrupted[1] if interrupted and interrupted[0] == phase else None),
            )
        return trained(model), without_seconds(rows)

    weights, history = go(None, None)
    with pytest.raises(KeyboardInterrupt):
        go(tmp_path, stop)
    resumed_weights, resumed_history = go(tmp_path, None)
    assert resumed_history == history
    assert equal(resumed_weights, weights)


def test_a_torn_checkpoint_is_not_one(run: Run, whole: Any, tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        run(folder=tmp_path, on_step=stop_at(2))
    torn = tmp_path / "step-00000003"
    torn.mkdir()
    (torn / "model.safetensors").write_bytes(b"half")
    steps: list[int] = []
    resumed_weights, _ = run(folder=tmp_path, on_step=lambda row: steps.append(row["step"]))
    assert steps == list(range(1, STEPS + 1))
    assert equal(resumed_weights, whole[0])


def cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def weights_of(path: Path, change: Callable[[dict[str, Tensor]], None]) -> None:
    tensors = load_file(path)
    change(tensors)
    save_file(tensors, path)


SPOILS: dict[str, tuple[str, Callable[[Path], object]]] = {
    "weights cut off": ("model.safetensors", cut),
    "weights empty": ("model.safetensors", lambda path: path.write_bytes(b"")),
    "weights missing": ("model.safetensors", Path.unlink),
    "a tensor missing": ("model.safetensors", lambda path: weights_of(path, lambda own: own.popitem())),
    "another shape": (
        "model.safetensors",
        lambda path: weights_of(path, lambda own: own.update({max(own): own[max(own)][:-1]})),
    ),
    "another type": (
        "model.safetensors",
        lambda path: weights_of(path, lambda own: own.update({n: t.double() for n, t in own.items()})),
    ),
    "optimizer cut off": ("optimizer.safetensors", cut),
    "optimizer of more": (
        "optimizer.safetensors",
        lambda path: weights_of(path, lambda own: own.update({"99.exp_avg": torch.zeros(2)})),
    ),
    "optimizer of another": (
        "optimizer.safetensors",
        lambda path: weights_of(path, lambda own: own.update({"0.exp_avg": torch.zeros(2)})),
    ),
    "state cut off": ("state.json", cut),
    "state of none": ("state.json", lambda path: path.write_text("[]")),
    "state of another run": ("state.json", lambda path: path.write_text('{"step": 1, "history": [], "shards": 1}')),
}


@pytest.mark.parametrize("spoil", SPOILS)
def test_a_broken_checkpoint_is_set_aside_and_the_one_before_is_taken(
    run: Run, whole: Any, stopped: Path, tmp_path: Path, spoil: str, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = Path(shutil.copytree(stopped, tmp_path / "copy"))
    name, change = SPOILS[spoil]
    change(folder / "step-00000003" / name)
    resumed_weights, resumed_history = run(folder=folder)
    assert resumed_history == whole[1]
    assert equal(resumed_weights, whole[0])
    assert sorted(path.name for path in folder.iterdir()) == [".step-00000003.medunlearn-broken", "step-00000002"]
    assert "step-00000003 cannot be used and was set aside as" in " ".join(capsys.readouterr().err.split())


def test_without_a_checkpoint_that_can_be_used_training_begins_again(
    run: Run, whole: Any, stopped: Path, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(stopped, tmp_path / "copy"))
    for state in folder.glob("step-*/state.json"):
        cut(state)
    resumed_weights, resumed_history = run(folder=folder)
    assert resumed_history == whole[1]
    assert equal(resumed_weights, whole[0])


@pytest.mark.parametrize(("method", "epoch"), [("ngdiff", 0), ("npo", 1), ("ngdiff", 2)])
def test_cut_off_at_the_end_of_an_epoch(
    tiny: Callable[[], Any], plan: Plan, tmp_path: Path, method: str, epoch: int
) -> None:
    def go(folder: Path | None, stop: int | None) -> tuple[dict[str, Tensor], list[Row], list[int]]:
        model, called = tiny().model, list[int]()

        def on_epoch(epochs: int, check: Callable[[], None]) -> bool:
            check()
            called.append(epochs)
            if epochs == stop:
                raise KeyboardInterrupt
            return False

        arguments = {"every": 2} if method == "ngdiff" else {}
        history = train_loop(
            model,
            2,
            Unlearning(make_method(method, arguments)),
            plan,
            LoopSettings(lr=1e-2, precision="fp32", micro_batch_size=2),
            checkpoints=folder,
            reference=Reference(model),
            on_epoch=on_epoch,
        )
        return trained(model), without_seconds(history), called

    weights, history, called = go(None, None)
    assert called == [0, 1, 2]
    if method == "ngdiff":  # the rate moved, so that a resumed run has to know it
        assert len({row["lr"] for row in history}) > 1
    with pytest.raises(KeyboardInterrupt):
        go(tmp_path, epoch)
    resumed_weights, resumed_history, called = go(tmp_path, None)
    assert called == list(range(epoch, 3))
    assert resumed_history == history
    assert equal(resumed_weights, weights)


def test_an_epoch_may_be_the_last(tiny: Callable[[], Any], plan: Plan) -> None:
    model, settings = tiny().model, LoopSettings(lr=1e-2, precision="fp32")
    history = train_loop(model, 2, NextToken(), plan, settings, on_epoch=lambda epochs, check: epochs == 1)
    assert len(history) == plan.steps_an_epoch


def test_a_signal_in_an_evaluation_is_heeded_at_once(tiny: Callable[[], Any], plan: Plan, tmp_path: Path) -> None:
    after: list[int] = []

    def on_epoch(epochs: int, check: Callable[[], None]) -> bool:
        if epochs == 1:
            signal.raise_signal(signal.SIGINT)
            after.append(epochs)
        return False

    settings = LoopSettings(lr=1e-2, precision="fp32")
    with pytest.raises(KeyboardInterrupt):
        train_loop(tiny().model, 2, NextToken(), plan, settings, checkpoints=tmp_path, on_epoch=on_epoch)
    assert not after
    assert [folder.name for folder in tmp_path.iterdir()] == [f"step-{plan.steps_an_epoch:08d}"]
