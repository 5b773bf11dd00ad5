"""The pass that ends at a layer: same values and gradients as the whole pass, and nothing above it is run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from medunlearn.errors import InputError
from medunlearn.models.batches import collate, decoder_layers, scored_hidden, scored_logits
from medunlearn.training.trainable import choose_trainable

CPU = torch.device("cpu")
Make = Callable[..., Any]


def whole_pass(model: Any, sequences: Any, layer: int) -> Tensor:
    """The same states by transformers' own way, a sequence at a time. Its last state is normalised, ours is not."""
    found = []
    for s in sequences:
        hidden = model(input_ids=torch.tensor([s.ids]), output_hidden_states=True, use_cache=False).hidden_states
        found.append(hidden[layer + 1][0, s.scored_from - 1 : -1])
    return torch.cat(found)


def gradients(model: Any, states: Tensor) -> dict[str, Tensor]:
    model.zero_grad(set_to_none=True)
    (states * torch.linspace(-1, 1, states.numel()).reshape(states.shape)).sum().backward()
    return {name: tensor.grad for name, tensor in model.named_parameters() if tensor.grad is not None}


@pytest.mark.parametrize("layer", [0, 1])
@pytest.mark.parametrize("trainable", ["all", "lora:2", "layers:0"])
def test_values_and_gradients(tiny: Make, make_sequences: Make, layer: int, trainable: str) -> None:
    model, sequences = choose_trainable(tiny().model, trainable), make_sequences(5)
    ours = scored_hidden(model, collate(sequences, 2, CPU), layer)
    theirs = whole_pass(model, sequences, layer)
    assert ours.shape == (sum(s.scored for s in sequences), 32)
    assert torch.allclose(ours, theirs, rtol=1e-5, atol=1e-5)
    found, wanted = gradients(model, ours), gradients(model, theirs)
    assert found.keys() == wanted.keys()
    for name, gradient in wanted.items():
        assert (found[name] - gradient).norm() <= 1e-5 * gradient.norm(), name


def test_the_last_layer_is_taken_before_the_final_norm(tiny: Make, make_sequences: Make) -> None:
    model, sequences = tiny().model, make_sequences(3)
    ours = scored_hidden(model, collate(sequences, 2, CPU), 2)
    assert torch.allclose(model.model.norm(ours), whole_pass(model, sequences, 2), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("layer", [0, 1, 2])
def test_layers_above_are_not_run(tiny: Make, make_sequences: Make, layer: int) -> None:
    model, run, back = tiny().model, list[int](), list[int]()
    for place, module in enumerate(model.model.layers):
        module.register_forward_hook(lambda *_, place=place: run.append(place))
        module.register_full_backward_hook(lambda *_, place=place: back.append(place))
    model.lm_head.register_forward_hook(lambda *_: run.append(99))
    gradients(model, scored_hidden(model, collate(make_sequences(3), 2, CPU), layer))
    assert run == list(range(layer + 1))
    assert set(back) <= set(run)
    scored_logits(model, collate(make_sequences(3), 2, CPU))
    assert run[layer + 1 :] == [0, 1, 2, 99]


def test_nothing_is_left_behind(tiny: Make, make_sequences: Make) -> None:
    model, batch = tiny().model, collate(make_sequences(3), 2, CPU)
    before = scored_logits(model, batch)
    scored_hidden(model, batch, 0)
    assert not any(module._forward_hooks for module in model.model.layers)
    assert torch.equal(scored_logits(model, batch), before)


@pytest.mark.parametrize("layer", [3, 7, -1])
def test_a_layer_that_is_not_there(tiny: Make, make_sequences: Make, layer: int) -> None:
    with pytest.raises(InputError, match=rf"no layer {layer}: this model has the layers 0 to 2"):
        scored_hidden(tiny().model, collate(make_sequences(1), 2, CPU), layer)


def test_layers_are_found_through_an_adapter(tiny: Make) -> None:
    model = tiny().model
    assert decoder_layers(model) is model.model.layers
    assert decoder_layers(choose_trainable(model, "lora:2")) is model.model.layers


def test_a_model_without_layers_is_refused(tiny: Make) -> None:
    model = tiny().model
    model.model.layers = nn.ModuleList(list(model.model.layers)[:2])
    with pytest.raises(InputError, match="Cannot find the 3 decoder layers of a LlamaForCausalLM"):
        decoder_layers(model)


@pytest.mark.parametrize("columns", [1, 40])
def test_the_head_runs_on_what_is_scored(tiny: Make, make_sequences: Make, columns: int) -> None:
    # A long prompt before a short answer: the head sees the end alone.
    from medunlearn.models.sequences import TokenSequence

    model, widths = tiny().model, list[int]()
    model.lm_head.register_forward_hook(lambda module, inputs, output: widths.append(output.shape[1]))
    ids = tuple(range(3, 203))
    batch = collate([TokenSequence("long", ids, 0, len(ids) - columns)], 2, CPU)
    logits = scored_logits(model, batch)
    assert len(logits) == columns
    assert widths[0] == columns
    assert torch.allclose(logits, model(input_ids=torch.tensor([ids])).logits[0, -columns - 1 : -1], atol=1e-4)
