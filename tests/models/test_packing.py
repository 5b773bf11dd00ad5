"""Packed batches: what they hold, when they are used, and that a branch sees nothing but its own family."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from medunlearn.methods import METHODS, make_method
from medunlearn.models.batches import collate, scored_logits
from medunlearn.models.packing import make_batch, pack, packs
from medunlearn.models.reference import Reference
from medunlearn.models.sequences import TokenSequence
from medunlearn.training.views import ModelView, Totals

CPU = torch.device("cpu")
NOTE = tuple(range(10, 30))


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
    seen = batch.attention_mask[:, 0]
    assert seen[0, 23].nonzero().flatten().tolist() == [*range(20), 22, 23]
    assert seen[0, 21].nonzero().flatten().tolist() == [*range(20), 20, 21]
    assert seen[1, 1].nonzero().flatten().tolist() == [0, 1]
    assert seen[1, 9].nonzero().flatten().tolist() == [9]


def test_a_changed_branch_changes_no_other(tiny: Callable[[], Any]) -> None:
    model = tiny().model
    before, after = (
        scored_logits(model, pack([branch("a", 40, 41), branch("b", *own)], 2, CPU))[:1]
        for own in ((50, 51), (77, 78))
    )
    assert torch.equal(before, after)


def test_rows_are_filled_with_single_sequences(tiny: Callable[[], Any]) -> None:
    sequences = [TokenSequence(str(n), tuple(range(3, 3 + n)), 0, 1) for n in (30, 9, 9, 9, 3)]
    assert make_batch(tiny().model, sequences, 2, CPU).input_ids.shape == (2, 32)


def test_sequences_of_one_length_are_padded_as_ever(tiny: Callable[[], Any]) -> None:
    sequences = [TokenSequence(str(n), tuple(range(n, n + 9)), 0, 1) for n in range(3, 7)]
    assert make_batch(tiny().model, sequences, 2, CPU).position_ids is None


def test_attention_that_takes_no_mask_of_ours_is_noticed(tiny: Callable[[], Any], monkeypatch: Any) -> None:
    model = tiny().model
    whole = model.forward

    def deaf(*args: Any, attention_mask: Any = None, **kwargs: Any) -> Any:
        return whole(*args, attention_mask=attention_mask if attention_mask.dim() == 2 else None, **kwargs)

    monkeypatch.setattr(model, "forward", deaf)
    assert not packs(model)
    batch = make_batch(model, [branch("a", 40, 41), branch("b", 50, 51)], 2, CPU)
    assert torch.equal(batch.input_ids, collate([branch("a", 40, 41), branch("b", 50, 51)], 2, CPU).input_ids)


@pytest.mark.parametrize("name", METHODS)
def test_every_method_gets_the_terms_and_gradients_of_separate_sequences(
    name: str, tiny: Callable[[], Any]
) -> None:
    model, source = tiny().model, torch.Generator().manual_seed(5)
    reference = Reference(model)
    with torch.no_grad():
        for tensor in model.parameters():
            tensor.add_(0.02 * torch.randn(tensor.shape, generator=source))
    sides = {
        "forget": [branch("a", 40, 41, 42), branch("b", 50, 51), TokenSequence("c", tuple(range(60, 75)), 0, 1)],
        "retain": [branch("d", 90, 91), branch("e", 92, 93, 94, 95), branch("f", 96, 97)],
    }
    method = make_method(name, {"layer": 1} if name == "rmu" else {})
    found = []
    for layout in (pack, collate):
        model.zero_grad(set_to_none=True)
        views = {
            side: ModelView(model, layout(chosen, 2, CPU), Totals.of(chosen), reference)
            for side, chosen in sides.items()
        }
        terms = method.loss(views["forget"], views["retain"])
        torch.stack(list(terms.values())).sum().backward()
        values = [term.detach() for term in terms.values()]
        found.append([*values, *(t.grad for t in model.parameters() if t.grad is not None)])
        reference.sequence_nll.clear()
    assert len(found[0]) == len(found[1]) > 2
    for ours, theirs in zip(*found, strict=True):
        assert (ours - theirs).norm() <= 1e-5 * theirs.norm()
