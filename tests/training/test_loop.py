"""Rates and clipping by hand, what a row of the history says, and that training trains."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch

from medunlearn.training.batch_plan import Plan
from medunlearn.training.loop import LoopSettings, train_loop
from medunlearn.training.loop_settings import learning_rate
from medunlearn.training.objectives import NextToken
from medunlearn.training.trainable import trained

Make = Callable[..., Any]


def rates(steps: int, **settings: Any) -> list[float]:
    return [learning_rate(step, steps, LoopSettings(**settings)) for step in range(steps)]


def test_schedules_with_warm_up() -> None:
    # Two of ten steps rise to the peak; the other eight stand on the cosine at 0, 1/8, ... 7/8 of its half turn.
    fall = [1 + math.cos(math.pi * eighth / 8) for eighth in range(8)]
    assert rates(10, lr=2.0, warmup_ratio=0.2) == pytest.approx([1.0, 2.0, *fall])
    assert rates(5, lr=3.0, schedule="constant", warmup_ratio=0.5) == pytest.approx([1, 2, 3, 3, 3])
    assert rates(6, lr=4.0, schedule="linear", warmup_ratio=0.3) == pytest.approx([2, 4, 4, 3, 2, 1])
    # A scheduler that counts four times the steps there are, as MedForget's code does.
    slow = rates(32, lr=4.0, schedule="linear", warmup_ratio=0.0)[:8]
    assert rates(8, lr=4.0, schedule="linear", warmup_ratio=0.0, schedule_end=0.75) == pytest.approx(slow)
    assert rates(4, lr=1.0, schedule="cosine", warmup_ratio=0.0, schedule_end=0.5)[2] == pytest.approx(0.75)


@pytest.mark.parametrize("schedule", ["cosine", "linear", "constant"])
def test_edges(schedule: str) -> None:
    assert rates(1, lr=1.0, schedule=schedule) == [1.0]
    assert rates(3, lr=3.0, schedule=schedule, warmup_ratio=1.0) == pytest.approx([1, 2, 3])
    assert rates(2, lr=1.0, schedule=schedule, warmup_ratio=0.0)[0] == 1.0


def test_rows_say_what_happened(tiny: Make, make_sequences: Make) -> None:
    sequences = make_sequences(5)
    plan = Plan({"train": sequences}, 2, 2, 0)
    history = train_loop(
        tiny().model, 2, NextToken(), plan, LoopSettings(lr=1e-3, warmup_ratio=0.5, precision="fp32")
    )
    assert [row["step"] for row in history] == [1, 2, 3, 4, 5, 6]
    assert [row["epoch"] for row in history] == pytest.approx([1 / 3, 2 / 3, 1, 4 / 3, 5 / 3, 2])
    assert [row["lr"] for row in history] == rates(6, lr=1e-3, warmup_ratio=0.5)
    assert sum(row["tokens"] for row in history) == 2 * sum(len(s.ids) for s in sequences)
    assert all(row["seconds"] > 0 for row in history)


def plain_adamw(model: Any, batches: list[list[Any]], lr: list[float], clip: float) -> list[float]:
    """The same training, written out: whole batches, one sequence a pass, clipped by hand. Returns the norms."""
    optimizer, norms = torch.optim.AdamW(model.parameters(), weight_decay=0.1), list[float]()
    for rate, batch in zip(lr, batches, strict=True):
        optimizer.zero_grad()
        for s in batch:
            logits = model(input_ids=torch.tensor([s.ids])).logits[0, s.scored_from - 1 : -1]
            answer = torch.tensor(s.ids[s.scored_from :])
            loss = torch.nn.functional.cross_entropy(logits, answer, reduction="sum")
            (loss / sum(other.scored for other in batch)).backward()
        gradients = [tensor.grad for tensor in model.parameters() if tensor.grad is not None]
        norm = math.sqrt(sum(float(gradient.double().square().sum()) for gradient in gradients))
        norms.append(norm)
        if clip and norm > clip:
            for gradient in gradients:
                gradient.mul_(clip / norm)
        optimizer.param_groups[0]["lr"] = rate
        optimizer.step()
    return norms


@pytest.mark.parametrize("clip", [0.0, 0.05, 1e6])
def test_weights_are_those_of_the_plain_way(tiny: Make, make_sequences: Make, clip: float) -> None:
    plan = Plan({"train": make_sequences(6)}, 3, 2, 0)
    settings = LoopSettings(lr=1e-3, clip=clip, weight_decay=0.1, precision="fp32", micro_batch_size=2)
    ours, theirs = tiny().model, tiny().model
    history = train_loop(ours, 2, NextToken(), plan, settings)
    batches = [plan.step(number)["train"] for number in range(plan.steps)]
    norms = plain_adamw(theirs, batches, [row["lr"] for row in history], clip)
    assert min(norms) > 0.05
    assert [row["gradient_norm"] for row in history] == pytest.approx(norms, rel=1e-3)
    for name, tensor in trained(theirs).items():
        assert (trained(ours)[name] - tensor).abs().max() < 2e-5, name


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_a_tiny_model_memorizes(tiny: Make, make_sequences: Make, precision: Any) -> None:
    plan = Plan({"train": make_sequences(4)}, 4, 40, 0)
    model = tiny().model
    history = train_loop(model, 2, NextToken(), plan, LoopSettings(lr=1e-2, precision=precision))
    assert history[0]["loss"] > 3
    assert history[-1]["loss"] < 0.1
    assert all(tensor.dtype == torch.float32 for tensor in model.parameters())


def test_dropout_depends_on_the_step_and_the_seed(tiny: Make, make_sequences: Make) -> None:
    def losses(seed: int, noise: int) -> list[float]:
        model = tiny().model
        for layer in model.model.layers:
            layer.self_attn.attention_dropout = 0.5
        torch.manual_seed(noise)
        settings = LoopSettings(lr=1e-3, precision="fp32", seed=seed)
        return [row["loss"] for row in train_loop(model, 2, NextToken(), plan, settings)]

    plan = Plan({"train": make_sequences(4)}, 2, 2, 0)
    assert losses(0, noise=1) == losses(0, noise=2)
    assert losses(0, noise=1) != losses(1, noise=1)
