"""Gradient checkpointing changes memory and no number, under every method and under LoRA."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from rounding import assert_same
from torch import Tensor

from medunlearn.errors import ConfigError
from medunlearn.methods import LOSSES, make_method
from medunlearn.models.layouts import make_batch
from medunlearn.models.reference import Reference
from medunlearn.training.batch_plan import Plan
from medunlearn.training.loop import train_loop
from medunlearn.training.loop_settings import LoopSettings
from medunlearn.training.objectives import NextToken, Unlearning
from medunlearn.training.trainable import choose_trainable, gradient_checkpointing, trained

# RMU reaches the layers up to its own alone. How a loss reads the passes is one thing, which layers run again is
# another: a loss of each kind of reading meets all three sets of layers, the others one.
CASES = [
    *(
        (name, "all")
        for name in [*LOSSES, "next_token"]
        if name not in ("rmu", "adaptive_rmu", "ceu", "satimp", "wga", "memorize")
    ),
    *((name, trainable) for name in ("npo", "kl_min", "ngdiff") for trainable in ("layers:0-1", "lora:4")),
    ("rmu", "layers:0-1"),
]


@pytest.mark.parametrize(
    ("name", "trainable", "shared"),
    [*((*case, False) for case in CASES), ("npo", "all", True), ("kl_min", "lora:4", True)],
)
def test_recomputing_changes_no_number(
    name: str,
    trainable: str,
    shared: bool,
    exact_tiny: Callable[[], Any],
    make_sequences: Callable[..., Any],
    with_notes: Callable[..., Any],
) -> None:
    # One step from a model that has moved away from its reference: Adam would blow up the rounding of later ones.
    sides = {"forget": make_sequences(5, "f"), "retain": make_sequences(4, "r")}
    plan = Plan({side: with_notes(own) if shared else own for side, own in sides.items()}, 5, 1, 0)
    ended: list[tuple[dict[str, Tensor], dict[str, Any], int]] = []
    for recompute in (False, True):
        model, passes = choose_trainable(exact_tiny().model, trainable), list[int]()
        reference, source = Reference(model), torch.Generator().manual_seed(0)
        with torch.no_grad():
            for tensor in trained(model).values():
                tensor.add_(0.02 * torch.randn(tensor.shape, generator=source))
        assert not shared or make_batch(model, plan.step(0)["forget"], 2, torch.device("cpu")).layout
        mlp = next(module for name, module in model.named_modules() if name.endswith("layers.0.mlp"))
        mlp.register_forward_pre_hook(lambda *_, passes=passes: passes.append(1))
        method = None if name == "next_token" else make_method(name, {"layer": 1} if name == "rmu" else {})
        (row,) = train_loop(
            model,
            2,
            Unlearning(method) if method else NextToken(),  # type: ignore[arg-type]
            plan,
            LoopSettings(lr=1e-3, precision="fp32", micro_batch_size=2, gradient_checkpointing=recompute),
            reference=reference,
        )
        gradients = {key: tensor.grad for key, tensor in trained(model).items() if tensor.grad is not None}
        ended.append((gradients, {key: value for key, value in row.items() if key != "seconds"}, len(passes)))
    (plain, plain_row, few), (ours, row, many) = ended
    assert many > few, "no layer was run again"
    assert_same(row, plain_row)
    assert_same(ours, plain)
    assert len(plain) > 5
    assert all(gradient.norm() > 0 for gradient in plain.values())


def test_less_is_held_for_the_backward_pass(tiny: Callable[[], Any]) -> None:
    model, saved_bytes = tiny().model.train(), list[int]()

    def save(tensor: Tensor) -> Tensor:
        saved_bytes[-1] += tensor.nbytes
        return tensor

    ids = torch.arange(256).reshape(2, 128)
    for recompute in (False, True):
        saved_bytes.append(0)
        with (
            gradient_checkpointing(model, recompute),
            torch.autograd.graph.saved_tensors_hooks(save, lambda tensor: tensor),
        ):
            model.model(input_ids=ids, use_cache=False)
    assert saved_bytes[1] < saved_bytes[0] / 5
    assert not any(layer.gradient_checkpointing for layer in model.model.layers)


def test_no_gradient_goes_below_the_first_trained_layer(tiny: Callable[[], Any]) -> None:
    model = choose_trainable(tiny().model.train(), "layers:2")
    needs_gradient: list[bool] = []
    model.model.layers[1].mlp.register_forward_hook(
        lambda _, inputs, output: needs_gradient.append(output.requires_grad)
    )
    with gradient_checkpointing(model, True):
        model.model(input_ids=torch.arange(32)[None], use_cache=False).last_hidden_state.sum().backward()
    assert needs_gradient == [False]
    assert all(tensor.grad is not None for tensor in trained(model).values())


def test_a_model_without_such_layers_is_refused(tiny: Callable[[], Any]) -> None:
    model = tiny().model
    model.model.layers[1] = torch.nn.Identity()
    with (
        pytest.raises(ConfigError, match="LlamaForCausalLM cannot be run again"),
        gradient_checkpointing(model, True),
    ):
        pass
