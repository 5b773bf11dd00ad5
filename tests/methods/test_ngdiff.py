"""NGDiff's direction and rate, worked out by hand on two parameters."""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from medunlearn.methods.graddiff import GradDiff
from medunlearn.methods.ngdiff import NGDiff
from medunlearn.models.sequences import TokenSequence
from medunlearn.training import optimizer_step
from medunlearn.training.batch_plan import Plan
from medunlearn.training.gradients import TermGradients, Training, inner_products, put, weighted_sum
from medunlearn.training.loop_settings import LoopSettings
from medunlearn.training.objectives import NextToken, Unlearning, stepping, weighing
from medunlearn.training.optimizer_step import take_step
from medunlearn.training.optimizers import make_optimizer
from medunlearn.training.processes import ALONE


def of(value: float) -> dict[str, float]:
    return {"retain": value}


def test_the_direction_by_hand() -> None:
    """L_F = (3 x + 4 y) / 5 * 10 and L_R = 2 y: the unit vectors are (0.6, 0.8) and (0, 1)."""
    point = nn.Parameter(torch.tensor([1.0, 1.0]))
    apart = TermGradients([point])
    forget, retain = 10 * (3 * point[0] + 4 * point[1]) / 5, 2 * point[1]
    apart.backward({"forget": -forget, "retain": retain})
    gradients = {name: {"point": apart.take(name)[0]} for name in ("forget", "retain")}
    products = inner_products(gradients, {"point": point}, ALONE)
    assert products == pytest.approx(
        {
            ("forget", "forget"): 100.0,
            ("retain", "retain"): 4.0,
            ("forget", "retain"): -16.0,
            ("retain", "forget"): -16.0,
        }
    )
    weights = NGDiff().weigh(products)
    assert weights == pytest.approx({"forget": 0.1, "retain": 0.5})
    put({"point": point}, weighted_sum(gradients, weights))
    assert point.grad is not None
    assert point.grad.tolist() == pytest.approx([-0.6, 0.2])


def test_terms_that_share_a_graph_are_told_apart() -> None:
    point = nn.Parameter(torch.tensor([2.0]))
    apart, shared = TermGradients([point]), point.square().sum()
    for _ in range(2):  # two micro-batches
        shared = point.square().sum()
        apart.backward({"a": 3 * shared, "b": -shared})
    assert apart.reached() == {"a": [0], "b": [0]}
    assert (apart.take("a")[0].item(), apart.take("b")[0].item()) == (24.0, -8.0)
    assert point.grad is None


def test_a_gradient_of_0_has_no_direction() -> None:
    products = {(a, b): 4.0 * (a == b == "retain") for a in ("forget", "retain") for b in ("forget", "retain")}
    assert NGDiff().weigh(products) == {"forget": 0.0, "retain": 0.5}


@pytest.mark.parametrize(("slope", "curvature"), [(-3.0, 2.0), (-0.1, 1.0), (-8.0, 1.0)])
def test_the_rate_on_a_parabola_is_exact(slope: float, curvature: float) -> None:
    """L(k) = 7 + slope k + curvature k^2 / 2 is lowest at -slope / curvature steps of the rate so far."""

    def at(k: float) -> dict[str, float]:
        return of(7.0 + slope * k + curvature * k * k / 2)

    assert NGDiff().rate(0.5, at(-1), at(0), at(1)) == pytest.approx(0.5 * -slope / curvature)


@pytest.mark.parametrize(
    ("behind", "here", "ahead", "expected"),
    [
        (1.0, 2.0, 3.0, 0.5),  # a line uphill
        (3.0, 2.0, 1.0, 0.5),  # a line downhill has no lowest point
        (0.0, 2.0, 1.0, 0.5),  # a hilltop
        (1.0, 0.9, 2.0, 0.5),  # the lowest point is behind
        (math.inf, 1.0, 0.9, 0.5),
        (1.0, 1.0, math.nan, 0.5),
        (2.0, 1.0, 0.01, 5.0),  # far ahead: no further than trust allows
        (1.0001, 0.5, 1.0, 0.05),  # close at hand: no closer than trust allows
    ],
)
def test_where_the_parabola_says_nothing(behind: float, here: float, ahead: float, expected: float) -> None:
    assert NGDiff().rate(0.5, of(behind), of(here), of(ahead)) == pytest.approx(expected)


def test_when_it_looks() -> None:
    assert [step for step in range(25) if NGDiff().looks(step)] == [0, 10, 20]
    assert not any(NGDiff(automatic=False).looks(step) for step in range(25))
    assert stepping(Unlearning(NGDiff())) == weighing(Unlearning(NGDiff())) == NGDiff()
    assert stepping(Unlearning(GradDiff())) is stepping(NextToken()) is None


def plan_of(steps: int) -> Plan:
    return Plan({"train": [TokenSequence("one", (1, 2), 1, 1)]}, batch_size=1, epochs=steps, seed=0)


@pytest.mark.parametrize("optimizer", ["sgd", "adamw"])
def test_a_step_on_a_quadratic_ends_at_its_lowest_point(monkeypatch: pytest.MonkeyPatch, optimizer: Any) -> None:
    """L_R = (4 x^2 + y^2) / 2 at (1, 1), descended along a direction; the exact line minimum is by hand.

    Plain steps go along the gradient d = (4, 1): the rate is d.d / d.A.d = 17 / 65. AdamW's first step goes along
    the signs (1, 1): 5 / 5 = 1.
    """
    point = nn.Parameter(torch.tensor([1.0, 1.0], dtype=torch.float64))
    start = 0.3

    def loss() -> Tensor:
        return (4 * point[0] ** 2 + point[1] ** 2) / 2

    def probe(training: Training, sequences: Mapping[str, Any], number: int) -> dict[str, float]:
        return of(loss().item())

    monkeypatch.setattr(optimizer_step, "probe", probe)
    settings = LoopSettings(lr=start, optimizer=optimizer)
    training: Any = SimpleNamespace(
        settings=settings,
        optimizer=make_optimizer([point], settings),
        objective=Unlearning(NGDiff()),
        parts={"point": point},
        plan=plan_of(100),
    )
    loss().backward()
    rate = take_step(training, {}, 0, of(loss().item()), None)
    exact, direction = (17 / 65, (4.0, 1.0)) if optimizer == "sgd" else (1.0, (1.0, 1.0))
    assert rate == pytest.approx(exact, rel=1e-6)
    assert point.tolist() == pytest.approx([1 - exact * part for part in direction], abs=1e-6)
    # It holds until the next look, ten steps later.
    loss().backward()
    assert take_step(training, {}, 1, of(loss().item()), rate) == rate


@pytest.mark.parametrize("objective", [Unlearning(NGDiff(automatic=False)), Unlearning(GradDiff())])
def test_other_steps_follow_the_schedule(objective: Unlearning) -> None:
    point = nn.Parameter(torch.tensor([1.0]))
    settings = LoopSettings(lr=0.5, optimizer="sgd", schedule="linear", warmup_ratio=0.0)
    training: Any = SimpleNamespace(
        settings=settings,
        optimizer=make_optimizer([point], settings),
        objective=objective,
        parts={"point": point},
        plan=plan_of(4),
    )
    point.square().sum().backward()
    assert [take_step(training, {}, number, {}, 0.7) for number in (0, 1, 3)] == [0.5, 0.375, 0.125]
    assert point.item() == 1 - 2 * (0.5 + 0.375 + 0.125)
