"""Rounded weights, by hand and against the distribution that NF4's levels come from."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import norm

from medunlearn.models.error_compensation import compensated, round_compensated
from medunlearn.models.quantization import (
    NF4_LEVELS,
    WEIGHT_TYPES,
    WeightType,
    input_sizes,
    round_activation_aware,
    round_weights,
    rounded,
)


def test_a_row_by_hand() -> None:
    # s = 7 / 7 = 1, so that int4 rounds to whole numbers; the largest value stays.
    row = torch.tensor([[7.0, -2.4, 0.6, -0.4]])
    assert rounded(row, "int4").tolist() == [[7.0, -2.0, 1.0, 0.0]]
    assert rounded(torch.tensor([[12.7, 0.04, -0.06]]), "int8")[0].tolist() == pytest.approx([12.7, 0.0, -0.1])
    assert rounded(2 * torch.tensor([[1.0, -1.0, 0.1, 0.0]]), "nf4")[0].tolist() == pytest.approx(
        [2.0, -2.0, 2 * NF4_LEVELS[8], 0.0]
    )


def test_int8_has_a_scale_a_row_and_4_bits_one_a_group_of_64() -> None:
    weights = torch.zeros(2, 130)
    weights[0, 0], weights[0, 64], weights[0, 129], weights[1, 5] = 700.0, 7.0, 0.07, 0.7
    for kind in ("int4", "nf4"):
        assert torch.equal(rounded(weights, kind), weights), "each is the largest of its group"
    by_row = rounded(weights, "int8")
    assert by_row[0, 129] == 0.0
    assert by_row[1, 5] == pytest.approx(0.7)


@pytest.mark.parametrize(("kind", "levels"), [("int8", 255), ("int4", 15), ("nf4", 16)])
def test_the_error_is_at_most_half_a_step(kind: WeightType, levels: int) -> None:
    weights = torch.randn(8, 64, generator=torch.Generator().manual_seed(0))
    result = rounded(weights, kind)
    assert result.unique(dim=None).numel() <= 8 * levels
    largest = weights.abs().amax(dim=1, keepdim=True)
    step = {"int8": 1 / 127, "int4": 1 / 7, "nf4": max(np.diff(NF4_LEVELS))}[kind]
    assert ((result - weights).abs() <= largest * step / 2 * 1.0001).all()
    assert torch.equal(rounded(result, kind), result), "what is rounded stays"


def test_nf4_levels_are_quantiles_of_a_normal_distribution() -> None:
    """As QLoRA makes them: 8 quantiles above 0 and 7 below it, between the same tails, scaled to 1."""
    offset = 0.9677083
    positive = norm.ppf(np.linspace(offset, 0.5, 9)[:-1])
    negative = -norm.ppf(np.linspace(offset, 0.5, 8)[:-1])
    levels = np.sort([*positive, 0.0, *negative])
    assert np.allclose(levels / levels.max(), NF4_LEVELS, atol=1e-6)


@pytest.mark.parametrize("kind", WEIGHT_TYPES)
def test_only_matrices_of_the_decoder_layers_change(tiny: Callable[[], Any], kind: WeightType) -> None:
    language_model = tiny()
    before = {name: tensor.clone() for name, tensor in language_model.model.named_parameters()}
    # Three layers of q, k, v, o, gate, up and down.
    assert round_weights(language_model.model, kind) == 21
    changed = {n for n, t in language_model.model.named_parameters() if not torch.equal(t, before[n])}
    assert changed == {name for name in before if ".layers." in name and before[name].dim() == 2}


def test_gpt2_has_a_column_an_output() -> None:
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    model = GPT2LMHeadModel(GPT2Config(vocab_size=20, n_embd=8, n_layer=1, n_head=2, n_positions=16))
    weight = model.transformer.h[0].attn.c_attn.weight
    before = weight.detach().clone()
    round_weights(model, "int8")
    assert torch.equal(weight, rounded(before.t(), "int8").t())
    assert not torch.equal(weight, rounded(before, "int8"))


def test_activation_aware_rounding(tiny: Callable[[], Any]) -> None:
    """Channels of equal inputs are rounded as without them; a channel with large inputs is rounded more finely."""
    model, plain = tiny().model, tiny().model
    sizes = input_sizes(model, [[5, 6, 7, 8, 9], [9, 8, 7]])
    assert len(sizes) == 21
    assert round_activation_aware(model, {module: torch.ones_like(size) for module, size in sizes.items()}) == 21
    round_weights(plain, "int4")
    torch.testing.assert_close(dict(model.named_parameters()), dict(plain.named_parameters()))
    layer = torch.nn.Linear(64, 8, bias=False)
    before, size = layer.weight.detach().clone(), torch.ones(64)
    size[3] = 400.0
    round_activation_aware(layer, {layer: size})
    after, blind = layer.weight.detach(), rounded(before, "int4")
    assert (after - before)[:, 3].abs().max() < (blind - before)[:, 3].abs().max() / 4


def test_errors_are_made_up_for_by_later_columns() -> None:
    """Two inputs are always equal: the 0.4 that the first loses goes to the second, 0.8 of it rounds to 1."""
    row, products = torch.tensor([[7.0, 0.4, 0.4]]), torch.zeros(3, 3)
    products[0, 0], products[1:, 1:] = 1.0, 1.0
    assert compensated(row, products).tolist() == [[7.0, 0.0, 1.0]]
    assert rounded(row, "int4").tolist() == [[7.0, 0.0, 0.0]]
    # Inputs that have nothing to do with each other, or none at all: each is rounded to the nearest.
    weights = torch.randn(4, 130, generator=torch.Generator().manual_seed(0))
    for nothing in (torch.eye(130), torch.zeros(130, 130)):
        torch.testing.assert_close(compensated(weights, nothing), rounded(weights, "int4"))
    # Over groups, too, outputs move less than by rounding to the nearest.
    inputs = torch.randn(8, 500, generator=torch.Generator().manual_seed(1))
    inputs = torch.randn(130, 8, generator=torch.Generator().manual_seed(2)) @ inputs
    errors = [
        ((result - weights) @ inputs).norm()
        for result in (compensated(weights, inputs @ inputs.t()), rounded(weights, "int4"))
    ]
    assert errors[0] < errors[1] / 3


def test_compensation_rounds_every_map_of_the_layers(tiny: Callable[[], Any]) -> None:
    model = tiny().model
    before = {name: tensor.clone() for name, tensor in model.named_parameters()}
    assert round_compensated(model, [[5, 6, 7, 8, 9], [9, 8, 7]]) == 21
    changed = {name for name, tensor in model.named_parameters() if not torch.equal(tensor, before[name])}
    assert changed == {name for name in before if ".layers." in name and before[name].dim() == 2}
