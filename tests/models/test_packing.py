"""Packed batches: what they hold, when they are used, and that a branch sees nothing but its own family."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from method_variants import VARIANTS, make_variant
from rounding import assert_same

from medunlearn.models.batches import collate
from medunlearn.models.branches import BranchGroup
from medunlearn.models.decoder import LayoutSupport
from medunlearn.models.layouts import decoder_of, describe_layouts, make_batch
from medunlearn.models.packing import pack, pack_for_branches
from medunlearn.models.reference import Reference
from medunlearn.models.sequences import TokenSequence
from medunlearn.training.views import ModelView, Totals

CPU = torch.device("cpu")
NOTE = tuple(range(10, 30))


@pytest.fixture
def unprobed(tiny: Callable[[], Any]) -> Any:
    """A tiny model whose layouts have not been probed yet."""
    model = tiny().model
    del vars(model)["_layout_probe"]
    model.set_attn_implementation("sdpa")
    return model


def branch(name: str, *own: int) -> TokenSequence:
    return TokenSequence(name, (*NOTE, *own), len(NOTE), len(NOTE) + 1)


def test_shared_tokens_stand_once() -> None:
    batch = pack([branch("a", 40, 41, 42), branch("b", 50, 51)], 2, CPU)
    assert batch.input_ids.shape == (1, 32)
    assert batch.input_ids[0, :25].tolist() == [*NOTE, 40, 41, 42, 50, 51]
    assert batch.position_ids is not None
    assert batch.position_ids[0, :25].tolist() == [*range(20), 20, 21, 22, 20, 21]
    assert batch.column.tolist() == [20, 21, 23]
    assert batch.targets.tolist() == [41, 42, 51]
    assert batch.sequence.tolist() == [0, 0, 1]


def test_a_token_sees_its_note_and_its_own_branch() -> None:
    batch = pack([branch("a", 40, 41), branch("b", 50, 51), TokenSequence("c", (60, 61), 0, 1)], 2, CPU)
    # The longest family takes 24 tokens, so the single sequence has a row of its own.
    visible = {place: batch.attention_mask[place[0], 0, place[1]].nonzero().flatten().tolist()
               for place in ((0, 23), (0, 21), (1, 1), (1, 9))}  # fmt: skip
    assert visible == {(0, 23): [*range(20), 22, 23], (0, 21): [*range(22)], (1, 1): [0, 1], (1, 9): [9]}


def test_one_row_without_padding_for_branches() -> None:
    sequences = [TokenSequence(str(n), tuple(range(3, 3 + n)), 0, 1) for n in (30, 9, 10, 9)]
    batch = pack_for_branches([*sequences, branch("a", 40, 41), branch("b", 50, 51, 52)], 2, CPU)
    assert batch.input_ids.shape == (1, 96)
    assert batch.layout is not None
    # The note and its branches, singles of like length together, and what rounds the row up.
    assert batch.layout.groups == (
        BranchGroup(20, (2, 3)),
        BranchGroup(0, (9, 9, 10)),
        BranchGroup(0, (30,)),
        BranchGroup(0, (13,)),
    )
    spans = {span.name: batch.input_ids[0, span.start : span.stop].tolist() for span in batch.spans}
    assert spans == {s.key: list(s.ids) for s in sequences} | {
        "a": [40, 41],
        "b": [50, 51, 52],
        branch("a").shared_name: list(NOTE),
    }


def test_a_model_set_to_branches_does_everything_else_as_ever(unprobed: Any) -> None:
    model, ids = unprobed, torch.arange(3, 19)[None]
    before = model.generate(ids, max_new_tokens=5, do_sample=False), model(input_ids=ids).logits
    decoder_of(model)
    after = model.generate(ids, max_new_tokens=5, do_sample=False), model(input_ids=ids).logits
    assert all(torch.equal(ours, theirs) for ours, theirs in zip(after, before, strict=True))


def test_attention_that_takes_nothing_of_ours_is_noticed(unprobed: Any, monkeypatch: Any) -> None:
    model = unprobed
    whole = model.model.forward

    def deaf(*args: Any, attention_mask: Any = None, layout: Any = None, **kwargs: Any) -> Any:
        return whole(*args, attention_mask=attention_mask if attention_mask.dim() == 2 else None, **kwargs)

    monkeypatch.setattr(model.model, "forward", deaf)
    assert decoder_of(model).support == LayoutSupport("padded", head=True, layers=True, mlp=True)
    assert describe_layouts(model).startswith("padded: the model takes no layout")
    batch = make_batch(model, [branch("a", 40, 41), branch("b", 50, 51)], 2, CPU)
    assert torch.equal(batch.input_ids, collate([branch("a", 40, 41), branch("b", 50, 51)], 2, CPU).input_ids)


def test_a_model_that_does_more_behind_its_head_and_layers_is_left_to_itself(unprobed: Any) -> None:
    model = unprobed
    model.lm_head.register_forward_hook(lambda module, inputs, output: output * 2)
    for layer in model.model.layers:
        layer.mlp.register_forward_hook(lambda module, inputs, output: output.cumsum(1))
    # An MLP that looks at other positions stands in the way of packing too.
    assert decoder_of(model).support == LayoutSupport("padded", head=False, layers=True, mlp=False)
    assert describe_layouts(model).endswith("; whole head, mlp")


@pytest.mark.parametrize("name", VARIANTS)
def test_every_method_gets_the_terms_and_gradients_of_separate_sequences(
    name: str, exact_tiny: Callable[[], Any]
) -> None:
    model, source = exact_tiny().model, torch.Generator().manual_seed(5)
    reference = Reference(model)
    with torch.no_grad():
        for tensor in model.parameters():
            tensor.add_(0.02 * torch.randn(tensor.shape, generator=source))
    sides = {
        "forget": [branch("a", 40, 41, 42), branch("b", 50, 51), TokenSequence("c", tuple(range(60, 75)), 0, 1)],
        "retain": [branch("d", 90, 91), branch("e", 92, 93, 94, 95), branch("f", 96, 97)],
    }
    method = make_variant(name)
    results = []
    for layout in (pack, pack_for_branches, collate):
        model.zero_grad(set_to_none=True)
        views = {
            side: ModelView(model, layout(members, 2, CPU), Totals.of(members), reference)
            for side, members in sides.items()
        }
        terms = method.loss(views["forget"], views["retain"])
        torch.stack(list(terms.values())).sum().backward()
        gradients = {key: t.grad for key, t in model.named_parameters() if t.grad is not None}
        results.append({**terms, **gradients})
    for packed in results[:2]:
        assert len(packed) > 2
        assert_same(packed, results[2])


@pytest.mark.parametrize("layout", [pack, pack_for_branches])
def test_a_changed_branch_changes_no_other(tiny: Callable[[], Any], layout: Any) -> None:
    decoder = decoder_of(tiny().model)
    assert decoder.support.attention == "branches"
    before, after = (
        decoder.logits(layout([branch("a", 40, 41), branch("b", *own)], 2, CPU))[:1] for own in ((50, 51), (77, 78))
    )
    assert torch.equal(before, after)
