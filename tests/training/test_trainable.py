"""Selection of trained parameters: every form of the choice, refusals, and proof that the rest stays."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from training_runs import copied, equal

from medunlearn.errors import ConfigError, FrozenParametersError
from medunlearn.models.tiny import build_tiny
from medunlearn.training.batch_plan import Plan
from medunlearn.training.loop import LoopSettings, train_loop
from medunlearn.training.objectives import NextToken
from medunlearn.training.trainable import check_moved, checksums, choose_trainable, trained

Tiny = Callable[[], Any]
SETTINGS = LoopSettings(lr=1e-2, precision="fp32")


def layers_of(model: Any) -> set[str]:
    return {match[1] for name in trained(model) if (match := re.search(r"layers\.(\d)\.", name))}


@pytest.mark.parametrize(
    ("choice", "layers"),
    [("layers:1", "1"), ("layers:0-1", "01"), ("layers:0,2", "02"), ("layers:0,1-2", "012")],
)
def test_layers(tiny: Tiny, choice: str, layers: str) -> None:
    model = choose_trainable(tiny().model, choice)
    assert layers_of(model) == set(layers)
    assert len(trained(model)) == 9 * len(layers)
    assert not any("embed" in name or name == "model.norm.weight" for name in trained(model))


def test_layer_1_is_not_layer_10() -> None:
    model = build_tiny(["a"], width=16, layers=12).model
    assert {name.split(".")[2] for name in trained(choose_trainable(model, "layers:1"))} == {"1"}


def test_pattern(tiny: Tiny) -> None:
    assert set(trained(choose_trainable(tiny().model, r"pattern:\.2\.mlp\.(up|gate)_proj"))) == {
        f"model.layers.2.mlp.{which}_proj.weight" for which in ("up", "gate")
    }


@pytest.mark.parametrize(("choice", "rank", "alpha"), [("lora", 16, 32), ("lora:4", 4, 8), ("lora:4:4", 4, 4)])
def test_lora(tiny: Tiny, choice: str, rank: int, alpha: int) -> None:
    model = choose_trainable(tiny().model, choice, lora_dropout=0.05)
    adapters = trained(model)
    assert len(adapters) == 3 * 7 * 2  # layers x linear maps x A and B
    config = model.peft_config["default"]
    assert (config.lora_alpha, config.lora_dropout) == (alpha, 0.05)
    assert all("lora_" in name for name in adapters)
    assert all(tensor.shape[0] == rank for name, tensor in adapters.items() if "lora_A" in name)


def test_lora_starts_the_same_whatever_the_global_generator_says(tiny: Tiny) -> None:
    adapters = []
    for number in (1, 2):
        torch.manual_seed(number)
        state = torch.get_rng_state()
        adapters.append(trained(choose_trainable(tiny().model, "lora:4")))
        assert torch.equal(torch.get_rng_state(), state)
    assert equal(*adapters)
    assert not equal(trained(choose_trainable(tiny().model, "lora:4", seed=1)), adapters[0])


@pytest.mark.parametrize("choice", ["", "some", "layers", "layers:", "layers:a", "layers:1-", "pattern:", "ALL"])
def test_wrong_forms_are_answered_with_the_right_ones(tiny: Tiny, choice: str) -> None:
    with pytest.raises(
        ConfigError,
        match=re.escape("all, lora, lora:RANK, lora:RANK:ALPHA, lora:RANK:ALPHA:names, layers:7, layers:5-7"),
    ):
        choose_trainable(tiny().model, choice)


@pytest.mark.parametrize(
    ("choice", "words"),
    [
        ("lora:x", "rank and alpha must be whole numbers"),
        ("lora:0", "rank and alpha must be whole numbers"),
        ("lora:", "rank and alpha must be whole numbers"),
        ("lora:4:x", "alpha must be whole numbers"),
        ("lora:4:4:4", "alpha must be whole numbers"),
        ("pattern:(", "is not a regular expression"),
        ("layers:9", "layers 0 to 2"),
        ("layers:0,9", "layers 0 to 2"),
        ("layers:2-1", "matches no parameter"),
        ("pattern:vision", "matches no parameter"),
    ],
)
def test_choices_that_cannot_be(tiny: Tiny, choice: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        choose_trainable(tiny().model, choice)


@pytest.mark.parametrize("choice", ["layers:1", "pattern:q_proj", "lora:4"])
def test_only_what_was_chosen_moves(tiny: Tiny, make_sequences: Callable[..., Any], choice: str) -> None:
    model = choose_trainable(tiny().model, choice)
    before = copied(model)
    train_loop(model, 2, NextToken(), Plan({"train": make_sequences(4)}, 2, 2, 0), SETTINGS)
    for name, tensor in model.named_parameters():
        assert torch.equal(tensor, before[name]) == (not tensor.requires_grad), name


class TestProofOfMoving:
    def test_a_balanced_move_is_seen(self) -> None:
        # Half of a normalisation's ones go up by one unit in the last place and half down: their bits' sum stays.
        ones = torch.ones(32, dtype=torch.bfloat16)
        bits = ones.view(torch.int16) + torch.tensor([1, -1] * 16, dtype=torch.int16)
        assert bits.sum() == ones.view(torch.int16).sum()
        check_moved(checksums({"norm": ones}), {"norm": bits.view(torch.bfloat16)})

    @pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64])
    def test_every_single_value_counts(self, dtype: torch.dtype) -> None:
        tensor = torch.linspace(-2, 2, 15, dtype=dtype).reshape(3, 5)
        before = checksums({"it": tensor})
        assert checksums({"it": tensor.clone()}) == before
        for place in range(15):
            changed = tensor.clone()
            changed.view(-1)[place] += 0.25
            assert checksums({"it": changed}) != before

    def test_those_that_stayed_are_named(self) -> None:
        tensors = {f"layer{n}": torch.full((2,), float(n)) for n in range(7)}
        before = checksums(tensors)
        with pytest.raises(FrozenParametersError, match=r"6 of 7 tensors .* layer1, .*, layer5, \.\.\.\."):
            check_moved(before, {**tensors, "layer0": torch.ones(2)})
