"""AdamW's forms: the same numbers where they promise them, clear words where they are not to be had."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from training_runs import equal, stop_at

from medunlearn.errors import ConfigError
from medunlearn.training import optimizers
from medunlearn.training.batch_plan import Plan
from medunlearn.training.loop import train_loop
from medunlearn.training.loop_settings import LoopSettings
from medunlearn.training.objectives import NextToken
from medunlearn.training.optimizers import HostAdamW, make_optimizer, moments, restore
from medunlearn.training.trainable import trained

SETTINGS = LoopSettings(lr=1e-2, weight_decay=0.1, precision="fp32")
MEMORY = ("adamw_8bit", "paged_adamw_8bit")


def parameters() -> list[nn.Parameter]:
    source = torch.Generator().manual_seed(0)
    return [nn.Parameter(torch.randn(shape, generator=source)) for shape in ((5, 7), (3,), (64, 80))]


def steps(optimizer: torch.optim.Optimizer, tensors: list[nn.Parameter], first: int, last: int) -> None:
    """Some steps with gradients that depend on the step alone; the second parameter never gets one."""
    for number in range(first, last):
        optimizer.zero_grad()
        source = torch.Generator().manual_seed(number)
        for tensor in (tensors[0], tensors[2]):
            tensor.grad = torch.randn(tensor.shape, generator=source)
        optimizer.step()


def test_moments_on_the_host_give_the_same_bits() -> None:
    plain, ours = parameters(), parameters()
    steps(torch.optim.AdamW(plain, lr=1e-2, weight_decay=0.1, fused=True), plain, 0, 4)
    optimizer = HostAdamW(ours, lr=1e-2, weight_decay=0.1)
    steps(optimizer, ours, 0, 4)
    assert all(torch.equal(our, their) for our, their in zip(ours, plain, strict=True))
    assert torch.equal(ours[1], parameters()[1])
    assert all(tensor.grad is None for tensor in ours)
    assert any(optimizer.state.values())
    assert not any(tensor in optimizer.state for tensor in ours)


@pytest.mark.parametrize("make", [make_optimizer, lambda tensors, s: HostAdamW(tensors, lr=1e-2, weight_decay=0.1)])
def test_state_goes_on_bit_for_bit(make: Callable[..., Any]) -> None:
    whole, cut, again = parameters(), parameters(), parameters()
    steps(make(whole, SETTINGS), whole, 0, 6)
    first, second = make(cut, SETTINGS), make(again, SETTINGS)
    steps(first, cut, 0, 2)
    saved: dict[str, Tensor] = moments(first)
    assert {name.partition(".")[0] for name in saved} == {"0", "2"}
    with torch.no_grad():
        for tensor, other in zip(again, cut, strict=True):
            tensor.copy_(other)
    restore(second, {name: value.clone() for name, value in saved.items()})
    steps(second, again, 2, 6)
    assert all(torch.equal(our, their) for our, their in zip(again, whole, strict=True))


@pytest.mark.parametrize("name", MEMORY)
def test_eight_bits_without_bitsandbytes_names_the_extra(name: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(optimizers, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=rf"optimizer={name} needs bitsandbytes: pip install 'medunlearn\[gpu\]'"):
        make_optimizer(parameters(), LoopSettings(lr=1e-2, optimizer=name))


def test_eight_bits_on_the_host_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(optimizers, "find_spec", lambda name: object())
    with pytest.raises(ConfigError, match="cannot be combined with optimizer=adamw_8bit"):
        make_optimizer(parameters(), LoopSettings(lr=1e-2, optimizer="adamw_8bit", offload="optimizer"))


@pytest.mark.parametrize("name", MEMORY)
def test_eight_bits_train_and_go_on_bit_for_bit(
    name: Any, tiny: Callable[[], Any], make_sequences: Callable[..., Any], tmp_path: Path
) -> None:
    pytest.importorskip("bitsandbytes", reason="8-bit optimizers need bitsandbytes")
    plan = Plan({"train": make_sequences(4)}, 2, 4, 0)
    settings = LoopSettings(lr=1e-2, precision="fp32", optimizer=name)

    def go(folder: Path | None, stop: int = 0) -> tuple[Any, list[Any]]:
        model = tiny().model
        history = train_loop(model, 2, NextToken(), plan, settings, checkpoints=folder, on_step=stop_at(stop))
        return trained(model), history

    whole, history = go(None)
    with pytest.raises(KeyboardInterrupt):
        go(tmp_path, stop=4)
    resumed, _ = go(tmp_path)
    assert history[-1]["loss"] < 0.7 * history[0]["loss"]
    assert equal(resumed, whole)


@pytest.mark.parametrize("name", MEMORY)
def test_eight_bits_are_eight_bits(name: Any) -> None:
    pytest.importorskip("bitsandbytes", reason="8-bit optimizers need bitsandbytes")
    tensors = parameters()
    optimizer = make_optimizer(tensors, LoopSettings(lr=1e-2, optimizer=name))
    steps(optimizer, tensors, 0, 2)
    kinds = {value.dtype for key, value in moments(optimizer).items() if key.startswith("2.state")}
    assert kinds == {torch.uint8}
