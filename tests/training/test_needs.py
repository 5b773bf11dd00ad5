"""Outputs that an objective reads, traced before the run without a trace left behind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from method_variants import make_variant

from medunlearn.errors import ConfigError, InputError
from medunlearn.training.batch_plan import Plan
from medunlearn.training.objectives import NextToken, Unlearning
from medunlearn.training.precompute import trace_needs
from medunlearn.training.trainable import choose_trainable

Make = Callable[..., Any]


@pytest.fixture
def plan(make_sequences: Make) -> Plan:
    return Plan({"forget": make_sequences(4, "f"), "retain": make_sequences(4, "r")}, 2, 1, 0)


@pytest.mark.parametrize(
    ("name", "model", "forget", "retain"),
    [
        ("ga", {"log_probs"}, set(), None),
        ("graddiff", {"log_probs"}, set(), set()),
        ("simnpo", {"log_probs"}, set(), set()),
        ("npo", {"log_probs"}, {"log_probs"}, set()),
        ("undial", {"final"}, {"final"}, None),
        ("ceu", {"final"}, set(), None),
        ("kl_min", {"log_probs", "final"}, set(), {"final"}),
        ("kl_min.openunlearning", {"log_probs", "final@all"}, set(), {"final@all"}),
        ("rmu", {"hidden:1@answer"}, set(), {"hidden:1@answer"}),
        ("adaptive_rmu", {"hidden:1@all"}, {"hidden:1@all"}, {"hidden:1@all"}),
        ("rmu.wmdp", {"hidden:1@all"}, set(), {"hidden:1@all"}),
    ],
)
def test_every_method(tiny: Make, plan: Plan, name: str, model: set[str], forget: Any, retain: Any) -> None:
    objective = Unlearning(make_variant(name))
    needs = trace_needs(tiny().model, 2, objective, plan)
    assert needs.model == model
    assert needs.reference == {
        side: what for side, what in (("forget", forget), ("retain", retain)) if what is not None
    }


def test_the_look_leaves_nothing_behind(tiny: Make, plan: Plan) -> None:
    class Counts:
        calls = 0

        def loss(self, forget: Any, retain: Any) -> Any:
            self.calls += 1
            return {"forget": forget.nll()}

    model, method, before = tiny().model.train(), Counts(), torch.get_rng_state()
    trace_needs(model, 2, Unlearning(method), plan)
    assert method.calls == 0
    assert model.training
    assert all(tensor.grad is None for tensor in model.parameters())
    assert torch.equal(torch.get_rng_state(), before)


def test_a_loss_that_is_no_terms_by_name_is_refused() -> None:
    class Bare:
        def loss(self, forget: Any, retain: Any) -> Any:
            return torch.zeros(())

    with pytest.raises(InputError, match=r"Bare is a Tensor: it must be terms by name"):
        Unlearning(Bare()).terms({"forget": None, "retain": None})  # type: ignore[dict-item]


@pytest.mark.parametrize("trainable", ["all", "layers:1-2", "lora:2", "pattern:lm_head|layers.2"])
def test_what_a_truncated_pass_cannot_move_is_said_first(tiny: Make, plan: Plan, trainable: str) -> None:
    model = choose_trainable(tiny().model, trainable)
    needs = trace_needs(model, 2, Unlearning(make_variant("rmu")), plan)
    with pytest.raises(ConfigError, match=r"output of layer 1 and nothing above it.*layers:0-1"):
        needs.check_reaches(model)


@pytest.mark.parametrize("trainable", ["layers:0-1", "layers:0", "through:1", r"pattern:layers\.1\.mlp"])
def test_what_it_can_move_is_fine(tiny: Make, plan: Plan, trainable: str) -> None:
    model = choose_trainable(tiny().model, trainable)
    trace_needs(model, 2, Unlearning(make_variant("rmu")), plan).check_reaches(model)
    whole = tiny().model
    trace_needs(whole, 2, NextToken(), plan).check_reaches(whole)
