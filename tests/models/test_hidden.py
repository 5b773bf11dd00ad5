"""The pass that ends at a layer: same values and gradients as the whole pass, and nothing above it is run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from rounding import assert_same
from torch import Tensor, nn

from medunlearn.errors import InputError
from medunlearn.models.batches import collate
from medunlearn.models.decoder import Trunk, decoder_layers
from medunlearn.models.head import Head
from medunlearn.models.layouts import decoder_of
from medunlearn.models.sequences import TokenSequence
from medunlearn.training.trainable import choose_trainable

CPU = torch.device("cpu")
Make = Callable[..., Any]


def whole_pass(model: Any, sequences: Any, layer: int) -> Tensor:
    """The same states by transformers' own way, a sequence at a time. Its last state is normalised, ours is not."""
    states_by_sequence = []
    for s in sequences:
        hidden = model(input_ids=torch.tensor([s.ids]), output_hidden_states=True, use_cache=False).hidden_states
        states_by_sequence.append(hidden[layer + 1][0, s.scored_from - 1 : -1])
    return torch.cat(states_by_sequence)


def gradients(model: Any, states: Tensor) -> dict[str, Tensor]:
    model.zero_grad(set_to_none=True)
    (states * torch.linspace(-1, 1, states.numel()).reshape(states.shape)).sum().backward()
    return {name: tensor.grad for name, tensor in model.named_parameters() if tensor.grad is not None}


@pytest.mark.parametrize("layer", [0, 1])
@pytest.mark.parametrize("trainable", ["all", "lora:2", "layers:0"])
def test_values_and_gradients(exact_tiny: Make, make_sequences: Make, layer: int, trainable: str) -> None:
    model, sequences = choose_trainable(exact_tiny().model, trainable), make_sequences(5)
    ours = decoder_of(model).hidden(collate(sequences, 2, CPU), layer)
    theirs = whole_pass(model, sequences, layer)
    assert ours.shape == (sum(s.scored for s in sequences), 32)
    assert_same({"states": ours}, {"states": theirs})
    assert_same(gradients(model, ours), gradients(model, theirs))


def test_the_last_layer_is_taken_before_the_final_norm(exact_tiny: Make, make_sequences: Make) -> None:
    model, sequences = exact_tiny().model, make_sequences(3)
    ours = decoder_of(model).hidden(collate(sequences, 2, CPU), 2)
    assert_same({"states": model.model.norm(ours)}, {"states": whole_pass(model, sequences, 2)})


@pytest.mark.parametrize("layer", [0, 1, 2])
def test_layers_above_are_not_run(tiny: Make, make_sequences: Make, layer: int) -> None:
    model, run, back = tiny().model, list[int](), list[int]()
    decoder_of(model)  # tries the model on a few tokens
    for place, module in enumerate(model.model.layers):
        module.register_forward_hook(lambda *_, place=place: run.append(place))
        module.register_full_backward_hook(lambda *_, place=place: back.append(place))
    gradients(model, decoder_of(model).hidden(collate(make_sequences(3), 2, CPU), layer))
    assert run == list(range(layer + 1))
    assert set(back) <= set(run)
    decoder_of(model).logits(collate(make_sequences(3), 2, CPU))
    assert run[layer + 1 :] == [0, 1, 2]


@pytest.mark.parametrize("layer", [3, 7, -1])
def test_a_layer_that_is_not_there(tiny: Make, make_sequences: Make, layer: int) -> None:
    with pytest.raises(InputError, match=rf"no layer {layer}: this model has the layers 0 to 2"):
        decoder_of(tiny().model).hidden(collate(make_sequences(1), 2, CPU), layer)


def test_a_model_without_layers_is_refused(tiny: Make) -> None:
    model = tiny().model
    model.model.layers = nn.ModuleList(list(model.model.layers)[:2])
    with pytest.raises(InputError, match="Cannot find the 3 decoder layers of a LlamaForCausalLM"):
        decoder_layers(model)


@pytest.mark.parametrize("columns", [1, 40])
def test_head_and_last_mlp_run_on_what_is_scored(tiny: Make, monkeypatch: Any, columns: int) -> None:
    # A long prompt before a short answer: both see the end alone.
    model, head_rows, widths = tiny().model, list[int](), list[int]()
    decoder_of(model)
    own = Head.logits
    monkeypatch.setattr(Head, "logits", lambda self, hidden: head_rows.append(len(hidden)) or own(self, hidden))
    for layer in model.model.layers:
        layer.mlp.down_proj.register_forward_hook(lambda module, inputs, output: widths.append(output.shape[1]))
    ids = tuple(range(3, 203))
    batch = collate([TokenSequence("long", ids, 0, len(ids) - columns)], 2, CPU)
    logits = decoder_of(model).logits(batch)
    assert head_rows == [len(logits)] == [columns]
    assert widths == [208, 208, columns]
    assert torch.allclose(logits, model(input_ids=torch.tensor([ids])).logits[0, -columns - 1 : -1], atol=1e-4)


@pytest.mark.parametrize("trainable", ["layers:1", "layers:2", "pattern:lm_head|embed", "pattern:model.norm"])
def test_a_pass_from_a_trunk_is_a_whole_pass(exact_tiny: Make, make_sequences: Make, trainable: str) -> None:
    model, batch = choose_trainable(exact_tiny().model, trainable), collate(make_sequences(4), 2, CPU)
    decoder = decoder_of(model)
    count = decoder.first_trained()
    assert count == {"layers:1": 1, "layers:2": 2, "pattern:model.norm": 3}.get(trainable, 0)
    if not count:
        return
    run = list[int]()
    whole = gradients(model, decoder.logits(batch))
    trunk = Trunk(count, decoder.trunk(batch, count))
    assert not trunk.states.requires_grad
    for place, module in enumerate(model.model.layers):
        module.register_forward_hook(lambda *_, place=place: run.append(place))
    from_trunk = gradients(model, decoder.logits(batch, trunk))
    assert run == list(range(count, 3))
    assert_same(from_trunk, whole)
    states = [
        {str(layer): decoder.hidden(batch, layer, *trunks) for layer in range(3)} for trunks in ((trunk,), ())
    ]
    assert_same(*states)


def test_dropout_in_the_frozen_layers_is_new_in_every_pass(tiny: Make) -> None:
    model = choose_trainable(tiny().model, "layers:2")
    model.model.layers[0].self_attn.attention_dropout = 0.1
    assert decoder_of(model.eval()).first_trained() == 2
    assert decoder_of(model.train()).first_trained() == 0
