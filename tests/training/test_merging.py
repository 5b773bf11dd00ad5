"""A LoRA adapter in the weights: the model is the same, and what rounding took is what it is said to be."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from training_runs import equal, fill_adapter

from medunlearn.errors import FrozenParametersError
from medunlearn.training.merging import merge
from medunlearn.training.trainable import choose_trainable

Tiny = Callable[[], Any]


def learned(tiny: Tiny, dtype: torch.dtype, scale: float) -> Any:
    """A model with an adapter whose B holds numbers of this size."""
    return fill_adapter(choose_trainable(tiny().model.to(dtype), "lora:4:12"), scale)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("scale", [1e-3, 1e-1])
def test_the_share_that_rounding_changed(tiny: Tiny, dtype: torch.dtype, scale: float) -> None:
    before = {name: tensor.double() for name, tensor in tiny().model.to(dtype).state_dict().items()}
    model = learned(tiny, dtype, scale)
    adapter = {name.removeprefix("base_model.model."): tensor for name, tensor in model.state_dict().items()}
    plain, share = merge(model)
    after = plain.state_dict()
    assert after.keys() == before.keys()
    lost = whole = 0.0
    for name, tensor in after.items():
        change = tensor.double() - before[name]
        stem = name.removesuffix(".weight")
        if f"{stem}.lora_A.default.weight" not in adapter:
            assert not change.any(), name
            continue
        up, down = (adapter[f"{stem}.lora_{which}.default.weight"].double() for which in "BA")
        lost += float((change - 3 * up @ down).square().sum())
        whole += float((3 * up @ down).square().sum())
    assert share == pytest.approx(math.sqrt(lost / whole), rel=1e-3, abs=1e-6)
    low, high = {torch.float32: (0, 1e-3), torch.bfloat16: (1e-3, 1)}[dtype]
    assert low < share < high


def test_it_is_the_model_that_peft_merges(tiny: Tiny) -> None:
    ours, theirs = merge(learned(tiny, torch.bfloat16, 0.1))[0], learned(tiny, torch.bfloat16, 0.1)
    expected = theirs.merge_and_unload()
    assert type(ours) is type(expected)
    assert equal(ours.state_dict(), expected.state_dict())


def test_matrices_that_did_not_change_are_an_error(tiny: Tiny) -> None:
    model = learned(tiny, torch.bfloat16, 1e-9)
    with pytest.raises(
        FrozenParametersError, match=r"21 of 21 matrices .*layers\.0\.self_attn\.q_proj.*--weights fp32"
    ):
        merge(model)


def test_an_adapter_that_was_not_trained_adds_nothing(tiny: Tiny) -> None:
    assert merge(learned(tiny, torch.bfloat16, 0.0))[1] == 0.0
