"""Activations are those of each sample alone, however samples are batched and whatever text they share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from medunlearn.errors import InputError
from medunlearn.models.activations import SequenceReader, Side, Site, Stretch, Tokens
from medunlearn.models.layer_choice import chosen_layers
from medunlearn.models.mlps import mlps
from medunlearn.models.sequences import TokenSequence

CPU = torch.device("cpu")


def test_means_by_hand() -> None:
    # Tokens 1 and 3 belong to both samples, 5 to sample 4 alone, 7 and 9 (an image's) to sample 6 alone.
    stretches = (
        Stretch(0, 0, 2, {4: 1.0, 6: 1.0}),
        Stretch(0, 2, 3, {4: 1.0}),
        Stretch(1, 0, 2, {6: 1.0}, "vision"),
    )
    tokens = Tokens(stretches, CPU)
    values = tokens.of(torch.tensor([[[1.0], [3.0], [5.0]], [[7.0], [9.0], [-1.0]]]))
    assert values.flatten().tolist() == [1.0, 3.0, 5.0, 7.0, 9.0]
    assert tokens.samples == (4, 6)
    assert tokens.weights.tolist() == [2.0, 2.0, 1.0, 1.0, 1.0]
    assert tokens.means(values).flatten().tolist() == [3.0, 5.0]
    assert tokens.means(values, "text").flatten().tolist() == [3.0, 2.0]
    vision = tokens.means(values, "vision").flatten()
    assert vision[0].isnan()
    assert vision[1] == 8.0


def test_text_that_stands_twice_counts_as_once() -> None:
    stretches = (*tuple(Stretch(row, 0, 2, {0: 0.5, 1: 0.5}) for row in (0, 1)), Stretch(0, 2, 3, {0: 1.0}))
    tokens = Tokens(stretches, CPU)
    values = tokens.of(torch.tensor([[[1.0], [3.0], [8.0]], [[1.0], [3.0], [0.0]]]))
    assert tokens.means(values).flatten().tolist() == [4.0, 2.0]


def related() -> list[TokenSequence]:
    """Three questions on one text, and two alone."""
    shared = (5, 9, 13, 17)
    ends = [(21, 25, 1), (30, 31, 32, 1), (40, 1)]
    family = [TokenSequence(f"q{place}", (*shared, *end), 4, 5) for place, end in enumerate(ends)]
    return [*family, TokenSequence("a", (50, 51, 52, 1), 0, 2), TokenSequence("b", (60, 61, 62, 63, 64, 1), 0, 3)]


@pytest.mark.parametrize("batch_size", [1, 2, 5])
def test_a_samples_mean_is_that_of_the_sample_alone(tiny: Callable[[], Any], batch_size: int) -> None:
    language_model, sequences = tiny(), related()
    sites = [Site("in", mlps(language_model.model, "1")[0].reads.module, "in")]
    sites.append(Site("out", mlps(language_model.model, "0")[0].makes[0].module, "out"))
    side = Side(SequenceReader(language_model, sequences, 1), ({},) * len(sequences), batch_size)
    rows_by_sample: dict[tuple[str, int], Tensor] = {}
    for places, values in side.each(lambda look: (look.places, look.see(sites, lambda v, t: t.means(v)))):
        for name, rows in values.items():
            rows_by_sample |= {(name, place): row for place, row in zip(places, rows, strict=True)}
    assert {place for _, place in rows_by_sample} == set(range(5))
    caught: dict[str, Tensor] = {}
    hooks = [
        sites[0].module.register_forward_pre_hook(lambda m, i: caught.__setitem__("in", i[0])),
        sites[1].module.register_forward_hook(lambda m, i, o: caught.__setitem__("out", o)),
    ]
    for place, sequence in enumerate(sequences):
        with torch.no_grad():
            language_model.model(input_ids=torch.tensor([sequence.ids]), use_cache=False)
        for name in ("in", "out"):
            assert torch.allclose(rows_by_sample[name, place], caught[name][0].mean(dim=0), rtol=1e-4, atol=1e-5)
    for hook in hooks:
        hook.remove()


def test_layers_above_are_not_run_and_no_hook_stays(tiny: Callable[[], Any]) -> None:
    language_model = tiny()
    ran: list[int] = []
    for number, layer in enumerate(language_model.model.model.layers):
        layer.register_forward_hook(lambda module, inputs, output, number=number: ran.append(number))
    sites = [Site("in", mlps(language_model.model, "0")[0].reads.module, "in")]
    side = Side(SequenceReader(language_model, related(), 0), ({},) * 5, 8)
    list(side.each(lambda look: look.see(sites, lambda v, t: None)))
    ran.clear()
    list(side.each(lambda look: look.see(sites, lambda v, t: None)))
    assert ran == [0]
    assert not sites[0].module._forward_pre_hooks


@pytest.mark.parametrize(
    ("words", "numbers"),
    [("all", [0, 1, 2, 3]), ("last:2", [2, 3]), ("1-2", [1, 2]), ("3,0", [0, 3]), ("0,2-3", [0, 2, 3])],
)
def test_layers_are_chosen_by_words(words: str, numbers: list[int]) -> None:
    assert chosen_layers(words, 4) == numbers


@pytest.mark.parametrize("words", ["last:5", "4", "", "last:0", "first", "2-1", "-1"])
def test_layers_that_are_not_there_are_refused(words: str) -> None:
    with pytest.raises(InputError, match="layers="):
        chosen_layers(words, 4)


def family(name: str) -> Any:
    from transformers import AutoConfig, AutoModelForCausalLM

    small = {"vocab_size": 40, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}
    shapes: dict[str, dict[str, Any]] = {
        "llama": small | {"intermediate_size": 24},
        "phi3": small | {"intermediate_size": 24, "pad_token_id": 0},
        "gpt_neox": small | {"intermediate_size": 24},
        "gpt2": {"vocab_size": 40, "n_embd": 16, "n_layer": 2, "n_head": 2, "n_inner": 24},
        "opt": small | {"ffn_dim": 24, "word_embed_proj_dim": 16, "max_position_embeddings": 32},
    }
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        return AutoModelForCausalLM.from_config(AutoConfig.for_model(name, **shapes[name])).eval()


@pytest.mark.parametrize("name", ["llama", "phi3", "gpt_neox", "gpt2", "opt"])
def test_zeroed_neurons_are_out_of_the_model_in_every_family(name: str) -> None:
    model = family(name)
    mlp = mlps(model, "1")[0]
    neurons = torch.tensor([0, 7, 23])
    assert mlp.neurons == 24

    def silence(module: Any, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        values = inputs[0].clone()
        values[..., neurons] = 0
        return (values,)

    ids = torch.tensor([[3, 14, 15, 9, 2, 6]])
    with torch.no_grad():
        before = model(input_ids=ids).logits
        hook = mlp.reads.module.register_forward_pre_hook(silence)
        silenced = model(input_ids=ids).logits
        hook.remove()
        mlp.zero(neurons)
        assert torch.allclose(model(input_ids=ids).logits, silenced, atol=1e-6)
    assert not torch.allclose(before, silenced, atol=1e-6)
    for matrix in mlp.makes:
        assert not matrix.rows[neurons].any()


def test_a_mixture_of_experts_is_refused() -> None:
    from transformers import AutoConfig, AutoModelForCausalLM

    config = AutoConfig.for_model(
        "mixtral", vocab_size=40, hidden_size=16, intermediate_size=24, num_hidden_layers=1, num_attention_heads=2,
        num_key_value_heads=2, num_local_experts=2,
    )  # fmt: skip
    with pytest.raises(InputError, match="plain MLP"):
        mlps(AutoModelForCausalLM.from_config(config))
