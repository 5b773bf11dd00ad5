"""MANU's steps on activations made by hand, with numbers worked out here, and on the tiny model."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from medunlearn.methods.editing import EditedModel
from medunlearn.methods.manu import MANU
from medunlearn.methods.neuron_importance import Moments, importance, importances, largest, ratio
from medunlearn.models.activations import SequenceReader, Side, Site, Stretch, Tokens

CPU = torch.device("cpu")


def test_the_four_importances_by_hand() -> None:
    # One neuron, four cases: 1, -1, 3, 0.05.
    values = importance(Moments.of(torch.tensor([[1.0], [-1.0], [3.0], [0.05]]), threshold=0.1))
    absolute = (1 + 1 + 3 + 0.05) / 4
    frequency = 3 / 4
    mean = (1 - 1 + 3 + 0.05) / 4
    square = (1 + 1 + 9 + 0.0025) / 4
    assert values.item() == pytest.approx(absolute + frequency + (square - mean**2) + square**0.5, rel=1e-6)


def test_sums_of_parts_are_those_of_the_whole_and_weights_count_cases_again() -> None:
    values = torch.tensor([[1.0, 0.0], [2.0, -4.0], [0.5, 0.2]])
    whole = Moments.of(values, 0.1)
    parts = Moments.of(values[:1], 0.1) + Moments.of(values[1:], 0.1)
    assert torch.allclose(importance(whole), importance(parts), rtol=1e-6)
    twice = Moments.of(values, 0.1, torch.tensor([2.0, 1.0, 1.0]))
    again = Moments.of(torch.cat([values[:1], values]), 0.1)
    assert torch.allclose(importance(twice), importance(again), rtol=1e-6)


def test_the_ratio_and_the_largest_of_all_layers_together() -> None:
    scores = ratio(torch.tensor([1.0, 2.0]), torch.tensor([0.5, 0.0]), epsilon=0.5)
    assert scores.tolist() == [1.0, 4.0]
    # Ten neurons in two layers, 30 percent: 9, 8 and the first of the two 7s.
    first, second = torch.tensor([1.0, 9.0, 7.0, 2.0]), torch.tensor([7.0, 0.0, 8.0, 3.0, 1.0, 2.0])
    assert [places.tolist() for places in largest([first, second], 30)] == [[1, 2], [2]]
    # Never none, however small the share.
    assert [places.tolist() for places in largest([first, second], 0.01)] == [[1], []]


@dataclass
class Given:
    """A reader of activations made by hand, of one module: a row a token, with the image and without it."""

    pictured: list[Tensor]
    bare: list[Tensor]
    images: bool = True

    def order(self) -> list[list[int]]:
        return [[place] for place in range(len(self.pictured))]

    def read(self, places: Sequence[int], sites: Sequence[Site], see: Any, *, images: bool) -> None:
        rows = [(self.pictured if images else self.bare)[place] for place in places]
        longest = max(len(row) for row in rows)
        values = torch.stack([nn.functional.pad(row, (0, 0, 0, longest - len(row)), value=99.0) for row in rows])
        stretches = tuple(
            Stretch(number, 0, len(row), {place: 1.0})
            for number, (place, row) in enumerate(zip(places, rows, strict=True))
        )
        tokens = Tokens(stretches, CPU)
        for site in sites:
            see(site.name, tokens.of(values), tokens)


def side(pictured: list[list[list[float]]], bare: list[list[list[float]]], batch_size: int) -> Side:
    reader = Given(*([torch.tensor(sample) for sample in samples] for samples in (pictured, bare)))
    return Side(reader, tuple({} for _ in pictured), batch_size)


@pytest.mark.parametrize("batch_size", [1, 3])
def test_what_counts_is_the_deviation_between_inputs_with_and_without_the_image(
    tiny: Callable[[], Any], batch_size: int
) -> None:
    model = tiny().model
    mlp = EditedModel(model).mlps("0")[0]
    width = mlp.neurons

    def row(**neurons: float) -> list[float]:
        return [neurons.get(f"n{place}", 0.0) for place in range(width)]

    # Neuron 0 is loud with and without the image, neuron 1 only with it: means 3 against 0 over unlike lengths.
    pictured = [[row(n0=5, n1=2), row(n0=5, n1=4)], [row(n0=5, n1=3)]]
    bare = [[row(n0=5)], [row(n0=5), row(n0=5)]]
    forget, retain = side(pictured, bare, batch_size), side(bare, bare, batch_size)
    before = copy.deepcopy(model)
    # Both samples deviate by 3 in neuron 1: |x| 3, frequency 1, variance 0, root mean square 3; elsewhere 0.
    values = importances(forget, [mlp], MANU().threshold, True)[0]
    assert values[:3].tolist() == pytest.approx([0.0, 7.0, 0.0])
    report = MANU(alpha=0.5, layers="0").edit(EditedModel(model), forget, retain)
    assert report == {
        "neurons": width,
        "zeroed": 1,
        "zeroed_by_layer": {"0": 1},
        "importance_of": "deviations",
    }
    changed = [name for name, tensor in model.state_dict().items() if not tensor.equal(before.state_dict()[name])]
    assert all("layers.0.mlp" in name for name in changed)
    assert len(changed) == 3
    assert not model.model.layers[0].mlp.down_proj.weight[:, 1].any()


def test_on_texts_the_neurons_go_whose_activations_matter_most_for_forget(
    tiny: Callable[[], Any], make_sequences: Callable[..., list[Any]]
) -> None:
    language_model = tiny()
    model = language_model.model
    forget, retain = make_sequences(5, "f"), make_sequences(7, "r")

    def by_hand(sequences: list[Any]) -> Tensor:
        """Of the neurons of both layers, from every token of every sequence run alone."""
        caught: dict[int, list[Tensor]] = {0: [], 2: []}
        hooks = [
            model.model.layers[layer].mlp.down_proj.register_forward_pre_hook(
                lambda module, inputs, layer=layer: caught[layer].append(inputs[0][0])
            )
            for layer in caught
        ]
        with torch.no_grad():
            for sequence in sequences:
                model(input_ids=torch.tensor([sequence.ids]), use_cache=False)
        for hook in hooks:
            hook.remove()
        parts = []
        for values in (torch.cat(parts).double() for parts in caught.values()):
            active = (values.abs() > 0.1).double().mean(dim=0)
            variance, square = values.var(dim=0, unbiased=False), (values**2).mean(dim=0)
            parts.append(values.abs().mean(dim=0) + active + variance + square.sqrt())
        return torch.cat(parts)

    expected = by_hand(forget) / (by_hand(retain) + 1e-5)
    neurons = model.model.layers[0].mlp.down_proj.in_features
    count = int(0.05 * 2 * neurons + 0.5)
    selected = set(expected.topk(count).indices.tolist())
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    reader = lambda sequences: Side(SequenceReader(language_model, sequences, 2), ({},) * len(sequences), 3)  # noqa: E731
    report = MANU(alpha=5.0, layers="0,2").edit(EditedModel(model), reader(forget), reader(retain))
    assert report["zeroed"] == count
    assert report["importance_of"] == "activations"
    for layer, start in ((0, 0), (2, neurons)):
        mlp, name = model.model.layers[layer].mlp, f"model.layers.{layer}.mlp"
        zeroed = [start + place for place in range(neurons) if not mlp.gate_proj.weight[place].any()]
        assert set(zeroed) == {place for place in selected if start <= place < start + neurons}
        untouched = [place for place in range(neurons) if start + place not in selected]
        for matrix in ("gate_proj", "up_proj"):
            assert getattr(mlp, matrix).weight[untouched].equal(before[f"{name}.{matrix}.weight"][untouched])
        assert mlp.down_proj.weight[:, untouched].equal(before[f"{name}.down_proj.weight"][:, untouched])
        assert not mlp.down_proj.weight[:, [place - start for place in zeroed]].any()
    untouched = [name for name in before if "layers.1." in name or "mlp" not in name]
    assert all(model.state_dict()[name].equal(before[name]) for name in untouched)
