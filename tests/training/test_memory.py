"""Recomputed activations change memory and no number, under every method and under LoRA."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from medunlearn.errors import ConfigError
from medunlearn.methods import METHODS, make_method
from medunlearn.models.reference import Reference
from medunlearn.training.loop import train_loop
from medunlearn.training.memory import recomputing
from medunlearn.training.objectives import NextToken, Unlearning
from medunlearn.training.plan import Plan
from medunlearn.training.settings import LoopSettings
from medunlearn.training.trainable import choose_trainable, trained

# RMU reaches the layers up to its own alone.
CASES = [
    (name, trainable)
    for name in [*METHODS, "next_token"]
    for trainable in ("all", "layers:0-1", "lora:4")
    if name != "rmu" or trainable == "layers:0-1"
]


@pytest.mark.parametrize(("name", "trainable"), CASES)
def test_recomputing_changes_no_number(
    name: str, trainable: str, tiny: Callable[[], Any], make_sequences: Callable[..., Any]
) -> None:
    plan = Plan({"forget": make_sequences(5, "f"), "retain": make_sequences(4, "r")}, 3, 2, 0)
    ended: list[tuple[dict[str, Tensor], list[dict[str, Any]], int]] = []
    for asked in (False, True):
        model, passes = choose_trainable(tiny().model, trainable), list[int]()
        mlp = next(module for name, module in model.named_modules() if name.endswith("layers.0.mlp"))
        mlp.register_forward_pre_hook(lambda *_, passes=passes: passes.append(1))
        method = None if name == "next_token" else make_method(name, {"layer": 1} if name == "rmu" else {})
        history = train_loop(
            model,
            2,
            Unlearning(method) if method else NextToken(),  # type: ignore[arg-type]
            plan,
            LoopSettings(lr=1e-3, precision="fp32", micro_batch_size=2, gradient_checkpointing=asked),
            reference=Reference(model),
        )
        ended.append((trained(model), history, len(passes)))
    (plain, plain_rows, few), (ours, rows, many) = ended
    assert many > few, "no layer was run again"
    for row, plain_row in zip(rows, plain_rows, strict=True):
        del row["seconds"], plain_row["seconds"]
        assert row == pytest.approx(plain_row, rel=1e-5, abs=1e-7)
    for key, tensor in plain.items():
        assert (ours[key] - tensor).norm() <= 1e-5 * tensor.norm(), key


def test_less_is_held_for_the_backward_pass(tiny: Callable[[], Any]) -> None:
    model, held = tiny().model.train(), list[int]()

    def keep(tensor: Tensor) -> Tensor:
        held[-1] += tensor.nbytes
        return tensor

    ids = torch.arange(256).reshape(2, 128)
    for asked in (False, True):
        held.append(0)
        with recomputing(model, asked), torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
            model.model(input_ids=ids, use_cache=False)
    assert held[1] < held[0] / 5
    assert not any(layer.gradient_checkpointing for layer in model.model.layers)


def test_no_gradient_goes_below_the_first_trained_layer(tiny: Callable[[], Any]) -> None:
    model = choose_trainable(tiny().model.train(), "layers:2")
    seen: list[bool] = []
    model.model.layers[1].mlp.register_forward_hook(lambda _, inputs, output: seen.append(output.requires_grad))
    with recomputing(model, True):
        model.model(input_ids=torch.arange(32)[None], use_cache=False).last_hidden_state.sum().backward()
    assert seen == [False]
    assert all(tensor.grad is not None for tensor in trained(model).values())


def test_a_model_without_such_layers_is_refused(tiny: Callable[[], Any]) -> None:
    model = tiny().model
    model.model.layers[1] = torch.nn.Identity()
    with pytest.raises(ConfigError, match="LlamaForCausalLM cannot be run again"), recomputing(model, True):
        pass
