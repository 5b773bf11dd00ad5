"""CHIP's steps on activations made by hand, with numbers worked out here, and its invariants on the tiny model."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from medunlearn.errors import InputError
from medunlearn.methods.chip import CHIP, nodes_of
from medunlearn.methods.editing import EditedModel
from medunlearn.methods.sibling_projection import Sums, directions, mixed, project, select, subspace
from medunlearn.models.activations import SequenceReader, Side, Stretch, Tokens
from medunlearn.models.mlps import Matrix, mlps

CPU = torch.device("cpu")


def test_an_image_counts_three_tenths_and_a_text_alone_whole() -> None:
    stretches = (Stretch(0, 0, 2, {0: 1.0}, "vision"), Stretch(0, 2, 4, {0: 1.0}), Stretch(1, 0, 2, {1: 1.0}))
    tokens = Tokens(stretches, CPU)
    values = tokens.of(torch.tensor([[[1.0], [3.0], [10.0], [30.0]], [[4.0], [8.0], [0.0], [0.0]]]))
    assert mixed(values, tokens, 0.3).flatten().tolist() == pytest.approx([0.3 * 2 + 0.7 * 20, 6.0])


def test_units_are_selected_by_the_difference_of_mean_magnitudes() -> None:
    # |a| of two samples a side: 3, 1, 2 on average against 1, 1, 5.
    forget = Sums.of(torch.tensor([[2.0, -1.0, 2.0], [-4.0, 1.0, -2.0]]), [[0], [0]], 1)
    retain = Sums.of(torch.tensor([[1.0, 1.0, 5.0], [-1.0, 1.0, -5.0]]), [[0], []], 1)
    assert forget.magnitude.tolist() == [3.0, 1.0, 2.0]
    assert retain.magnitude.tolist() == [1.0, 1.0, 5.0]
    assert select(forget.magnitude, retain.magnitude, 67).tolist() == [0, 1]
    assert select(forget.magnitude, retain.magnitude, 1).tolist() == [0]
    # A group's mean is of the samples in it alone, with their signs.
    assert forget.means.tolist() == [[-1.0, 0.0, 0.0]]
    assert retain.means.tolist() == [[1.0, 1.0, 5.0]]


def test_selection_by_nodes_counts_a_sample_once_a_node_of_the_level_and_of_the_one_below() -> None:
    levels = ("institution", "patient", "study")
    name_of_institution = {"institution": "A"}
    name_of_patient = name_of_institution | {"patient": "A1"}
    of_study = name_of_patient | {"study": "A1x"}
    groups = [name_of_institution, name_of_patient, of_study]
    # Of a patient: its node and its studies'; what asks for the institution is above.
    assert nodes_of(levels, "patient", groups) == [0, 1, 2]
    assert nodes_of(levels, "institution", groups) == [1, 2, 2]
    # The finest level has none below, and a level outside the chain neither.
    assert nodes_of(levels, "study", groups) == [0, 0, 1]
    assert nodes_of(levels, "item", [{"item": "x"}, *groups]) == [1, 0, 0, 0]

    values = torch.tensor([[9.0, 0.0], [3.0, -3.0], [0.0, 6.0]])
    sums = Sums.of(values, [[], [], [0]], 1, nodes_of(levels, "patient", groups))
    # (0 x 9 + 1 x 3 + 2 x 0) / 3 and (0 + 3 + 2 x 6) / 3; the plain means are 4 and 3, with the other unit ahead.
    assert sums.magnitude.tolist() == [1.0, 5.0]
    zeros = torch.zeros(2)
    assert select(sums.magnitude, zeros, 50).tolist() == [1]
    assert select(Sums.of(values, [[], [], [0]], 1).magnitude, zeros, 50).tolist() == [0]
    # Directions are the same: means over the samples of a node, each once.
    assert sums.means.tolist() == [[0.0, 6.0]]


def test_sums_of_parts_are_those_of_the_whole() -> None:
    values, groups = torch.arange(12.0).reshape(4, 3), [[0], [0, 1], [], [1]]
    whole = Sums.of(values, groups, 2)
    parts = Sums.of(values[:1], groups[:1], 2) + Sums.of(values[1:], groups[1:], 2)
    assert parts.magnitude.equal(whole.magnitude)
    assert parts.means.equal(whole.means)
    assert whole.means.tolist() == [[1.5, 2.5, 3.5], [6.0, 7.0, 8.0]]


def test_directions_lead_from_the_siblings_to_the_target_and_have_length_one() -> None:
    units = torch.tensor([[4.0, 6.0], [1.0, 1.0], [1.0, 3.0]])
    pools = torch.tensor([[1.0, 2.0], [1.0, 1.0]])
    # (3, 4) over 5; nothing; (0, 2) over 2.
    assert torch.allclose(directions(units, pools, [0, 1, 1]), torch.tensor([[0.6, 0.8], [0.0, 1.0]]))


def test_as_many_singular_directions_as_hold_the_energy() -> None:
    # Singular values 3, 2, 1 along the axes: energies 9/14, 13/14, 1.
    apart = torch.diag(torch.tensor([3.0, 2.0, 1.0]))
    for energy, rank in ((9 / 14, 1), (0.65, 2), (13 / 14, 2), (0.95, 3), (1.0, 3)):
        basis = subspace(apart, energy)
        assert basis.shape == (3, rank), energy
        assert torch.allclose(basis.abs(), torch.eye(3, rank, dtype=torch.float64))
    assert subspace(torch.zeros(0, 3), 0.95).shape == (3, 0)


def test_projection_by_hand() -> None:
    linear = nn.Linear(2, 3)
    with torch.no_grad():
        linear.weight.copy_(torch.tensor([[1.0, 2.0], [5.0, 6.0], [3.0, 4.0]]))
    bias = linear.bias.detach().clone()
    half = 1 / math.sqrt(2)
    project(Matrix("m", linear), torch.tensor([0, 2]), torch.tensor([[half], [half]], dtype=torch.float64))
    # Rows 0 and 2 lose their mean in each column: (1, 3) -> (-1, 1), (2, 4) -> (-1, 1).
    assert torch.allclose(linear.weight, torch.tensor([[-1.0, -1.0], [5.0, 6.0], [1.0, 1.0]]))
    assert linear.bias.equal(bias)


def side(language_model: Any, sequences: list[Any], nodes: list[str], batch_size: int) -> Side:
    groups = tuple({"disease": node[0], "patient": node} for node in nodes)
    return Side(SequenceReader(language_model, sequences, 2), groups, batch_size)


def edited(tiny: Callable[[], Any], make_sequences: Any, batch_size: int, method: CHIP) -> tuple[Any, Any, Any]:
    """The model before, the model after, and the report: two patients of two diseases go, four stay."""
    language_model = tiny()
    before = tiny().model
    forget = side(language_model, make_sequences(4, "f"), ["a1", "a1", "b1", "b1"], batch_size)
    retain = side(language_model, make_sequences(6, "r"), ["a2", "a2", "a3", "b2", "b3", "b3"], batch_size)
    report = method.edit(EditedModel(language_model.model, ("disease", "patient"), "patient"), forget, retain)
    return before, language_model.model, report


def test_selected_rows_lose_the_subspace_and_others_no_bit(
    tiny: Callable[[], Any], make_sequences: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    from medunlearn.methods import sibling_projection as module

    removed: dict[str, tuple[Any, Any]] = {}

    def watch(matrix: Matrix, units: Any, basis: Any) -> None:
        removed[matrix.name] = (units, basis)
        project(matrix, units, basis)

    monkeypatch.setattr(module, "project", watch)
    before, after, report = edited(tiny, make_sequences, 4, CHIP(top=20.0, layers="1-2"))
    assert len(removed) == 6
    for layer in (1, 2):
        pairs = zip(mlps(before, str(layer))[0].matrices, mlps(after, str(layer))[0].matrices, strict=True)
        for old, new in pairs:
            units, basis = removed[new.name]
            assert report["matrices"][new.name] == {
                "selected": int(new.units * 0.2),
                "directions": 2,
                "removed": basis.shape[1],
            }
            scale = old.rows[units].norm().double()
            assert (basis.T @ new.rows[units].double()).norm() < 1e-5 * scale
            assert (basis.T @ old.rows[units].double()).norm() > 1e-2 * scale
            others = [unit for unit in range(new.units) if unit not in units.tolist()]
            assert new.rows[others].equal(old.rows[others])
    same, now = before.state_dict(), after.state_dict()
    changed = {name for name in same if not same[name].equal(now[name])}
    assert len(changed) == 6
    assert all(".mlp." in name and "layers.0" not in name for name in changed)


def test_no_number_depends_on_how_samples_are_batched(
    tiny: Callable[[], Any], make_sequences: Callable[..., Any]
) -> None:
    method = CHIP(top=20.0, layers="2")
    (_, first, report), (_, four, again) = (edited(tiny, make_sequences, size, method) for size in (1, 4))
    assert report == again
    for name, tensor in first.state_dict().items():
        assert torch.allclose(tensor, four.state_dict()[name], rtol=1e-3, atol=1e-4), name


def test_selection_by_nodes_is_recorded_and_needs_a_sample_in_a_node(
    tiny: Callable[[], Any], make_sequences: Callable[..., Any]
) -> None:
    method = CHIP(selection="nodes", top=20.0, layers="2")
    assert (method.label, CHIP().label) == ("CHIP, selection by nodes", "CHIP")
    assert edited(tiny, make_sequences, 4, method)[2]["selection"] == "nodes"
    sides = [side(tiny(), make_sequences(1, "f"), [node], 1) for node in ("a1", "a2")]
    with pytest.raises(InputError, match="no sample of one side"):
        method.edit(EditedModel(tiny().model, ("disease", "patient"), "section"), *sides)


def test_targets_that_are_where_their_siblings_are_change_nothing(
    tiny: Callable[[], Any], make_sequences: Callable[..., Any]
) -> None:
    language_model = tiny()
    same = [side(language_model, make_sequences(1, "f"), [node], 1) for node in ("a1", "a2")]
    with pytest.raises(InputError, match="no direction"):
        CHIP(layers="1").edit(EditedModel(language_model.model, ("disease", "patient"), "patient"), *same)
    assert language_model.model.state_dict().keys() == tiny().model.state_dict().keys()
    for name, tensor in tiny().model.state_dict().items():
        assert tensor.equal(language_model.model.state_dict()[name])
