"""Failures and signals that end a run: the error, the weights in memory, and the checkpoints left."""

from __future__ import annotations

import os
import re
import signal
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from training_runs import equal, stop_at

from medunlearn.errors import FrozenParametersError, NonFiniteLossError, StorageError
from medunlearn.training import checkpoint
from medunlearn.training.batch_plan import Plan
from medunlearn.training.loop import LoopSettings, train_loop
from medunlearn.training.objectives import NextToken
from medunlearn.training.trainable import choose_trainable, trained

Make = Callable[..., Any]
SETTINGS = LoopSettings(lr=1e-2, precision="fp32")


class Faulty:
    """The likelihood, and from the given call on something else besides."""

    def __init__(self, at: int, fault: Callable[[Tensor], Tensor | float]) -> None:
        self.at, self.fault, self.calls = at, fault, 0

    def terms(self, views: Mapping[str, Any]) -> dict[str, Tensor]:
        self.calls += 1
        usual = views["train"].nll()
        return {"usual": usual, "odd": usual * 0 + (self.fault(usual) if self.calls >= self.at else 0.0)}


@pytest.fixture
def plan(make_sequences: Make) -> Plan:
    return Plan({"train": make_sequences(10)}, 2, 1, 0)


def after(tiny: Make, plan: Plan, steps: int) -> dict[str, Tensor]:
    """The weights after the first ``steps`` steps of the run."""
    model = tiny().model
    with pytest.raises(KeyboardInterrupt):
        train_loop(model, 2, NextToken(), plan, SETTINGS, on_step=stop_at(steps))
    return trained(model)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_a_term_that_is_not_finite_stops_and_keeps_the_last_good_state(
    tiny: Make, plan: Plan, tmp_path: Path, value: float
) -> None:
    model, objective = tiny().model, Faulty(4, lambda usual: value)
    with pytest.raises(NonFiniteLossError, match=rf"'odd' became {value} at step 3\. .*Lower --lr"):
        train_loop(model, 2, objective, plan, SETTINGS, checkpoints=tmp_path)
    good = after(tiny, plan, 3)
    assert equal(trained(model), good)
    fresh = tiny().model
    optimizer = torch.optim.AdamW(fresh.parameters())
    resumed = checkpoint.load_checkpoint(tmp_path, fresh, optimizer)
    assert resumed is not None
    assert resumed.step == len(resumed.history) == 3
    assert equal(trained(fresh), good)


def test_a_gradient_that_is_not_finite(tiny: Make, plan: Plan, tmp_path: Path) -> None:
    # sqrt(0) is 0, and its slope infinite.
    model, objective = tiny().model, Faulty(3, lambda usual: (usual - usual.detach()).abs().sqrt())
    with pytest.raises(NonFiniteLossError, match="gradient is not finite at step 2 although the loss is"):
        train_loop(model, 2, objective, plan, SETTINGS, checkpoints=tmp_path)
    assert equal(trained(model), after(tiny, plan, 2))
    assert [folder.name for folder in tmp_path.iterdir()] == ["step-00000002"]
    assert not model.training


class FirstLayerOnly:
    def terms(self, views: Mapping[str, Any]) -> dict[str, Tensor]:
        return {"state": views["train"].mean_over_tokens(views["train"].hidden(0).square().mean(1))}


@pytest.fixture(params=[5, 1], ids=["five steps", "one step"])
def any_plan(make_sequences: Make, request: pytest.FixtureRequest) -> Plan:
    return Plan({"train": make_sequences(10)}, 10 // request.param, 1, 0)


def test_what_no_gradient_reaches_is_an_error(tiny: Make, any_plan: Plan) -> None:
    with pytest.raises(FrozenParametersError, match=r"19 of 29 .*layers\.1\.self_attn\.q_proj.*no gradient"):
        train_loop(tiny().model, 2, FirstLayerOnly(), any_plan, SETTINGS)


def test_an_adapter_that_no_gradient_reaches_is_an_error(tiny: Make, any_plan: Plan) -> None:
    # Two of three layers with seven maps each; the first step is not due to move A, since B is 0 before it.
    count = "14 of 21" if any_plan.steps == 1 else "28 of 42"
    with pytest.raises(
        FrozenParametersError, match=rf"{count} .*layers\.1\.self_attn\.q_proj\.lora_B.*no gradient"
    ):
        train_loop(choose_trainable(tiny().model, "lora:2"), 2, FirstLayerOnly(), any_plan, SETTINGS)


def test_a_rate_too_small_for_the_weights_is_an_error(tiny: Make, any_plan: Plan) -> None:
    model = tiny().model.to(torch.bfloat16)
    with pytest.raises(FrozenParametersError, match="too small for the type of the weights"):
        train_loop(model, 2, NextToken(), any_plan, LoopSettings(lr=1e-12))


class Signals:
    """The likelihood; in the given call signals come in the middle of the step."""

    def __init__(self, at: int, *signals: signal.Signals) -> None:
        self.at, self.signals, self.calls, self.went_on = at, signals, 0, 0

    def terms(self, views: Mapping[str, Any]) -> dict[str, Tensor]:
        self.calls += 1
        if self.calls == self.at:
            for number in self.signals:
                os.kill(os.getpid(), number)
                self.went_on += 1
        return {"train": views["train"].nll()}


@pytest.mark.parametrize(
    ("at", "number"), [(1, signal.SIGINT), (3, signal.SIGTERM), (5, signal.SIGINT), (5, signal.SIGTERM)]
)
def test_a_signal_ends_at_a_step_boundary(
    tiny: Make, plan: Plan, tmp_path: Path, at: int, number: signal.Signals
) -> None:
    model, handlers = tiny().model, (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM))
    with pytest.raises(KeyboardInterrupt):
        train_loop(model, 2, Signals(at, number), plan, SETTINGS, checkpoints=tmp_path)
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == handlers
    assert [folder.name for folder in tmp_path.iterdir()] == [f"step-{at:08d}"]
    assert equal(trained(model), after(tiny, plan, at))


def test_a_second_signal_breaks_in_and_writes_nothing(tiny: Make, plan: Plan, tmp_path: Path) -> None:
    objective = Signals(3, signal.SIGINT, signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        train_loop(tiny().model, 2, objective, plan, SETTINGS, checkpoints=tmp_path)
    assert objective.went_on == 1
    assert not any(tmp_path.iterdir())


def test_training_in_a_thread(tiny: Make, plan: Plan) -> None:
    rows: list[Any] = []
    worker = threading.Thread(target=lambda: rows.extend(train_loop(tiny().model, 2, NextToken(), plan, SETTINGS)))
    worker.start()
    worker.join()
    assert len(rows) == 5


def test_a_full_disk_leaves_the_older_checkpoint(
    tiny: Make, plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(tensors: Any, path: Path) -> None:
        if "step-00000003" in str(path):
            raise OSError(28, "No space left on device")
        save_file(tensors, path)

    save_file = checkpoint.save_file
    monkeypatch.setattr(checkpoint, "save_file", full)
    with pytest.raises(StorageError, match=re.escape("The disk is full")):
        train_loop(
            tiny().model,
            2,
            NextToken(),
            plan,
            LoopSettings(lr=1e-2, precision="fp32", checkpoint_seconds=0),
            checkpoints=tmp_path,
        )
    assert [path.parent.name for path in tmp_path.glob("*/state.json")] == ["step-00000002"]
