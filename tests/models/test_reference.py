"""The reference without a second model is the deep copy that it stands for."""

from __future__ import annotations

import copy
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest
import torch
from torch import Tensor

from medunlearn.models.batches import collate, scored_hidden, scored_logits
from medunlearn.models.reference import Reference
from medunlearn.training.trainable import choose_trainable
from medunlearn.training.views import ModelView, Totals

CPU = torch.device("cpu")
Make = Callable[..., Any]
TRAINABLES = ["all", "layers:1", "lora:4"]


def autocast(precision: str) -> Any:
    return torch.autocast("cpu", torch.bfloat16) if precision == "bf16" else nullcontext()


def steps(model: Any, batch: Any, precision: str, count: int = 3) -> None:
    """A few optimizer steps, so that the model is far from its reference."""
    chosen = [tensor for tensor in model.parameters() if tensor.requires_grad]
    optimizer = torch.optim.AdamW(chosen, lr=1e-2)
    for _ in range(count):
        with autocast(precision):
            loss = scored_logits(model, batch).logsumexp(1).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@pytest.fixture(params=TRAINABLES)
def kept(request: Any, tiny: Make) -> tuple[Any, Any, Reference]:
    """A model, a deep copy of it as the reference it should have, and the reference it has."""
    original = tiny().model.eval()
    model = choose_trainable(copy.deepcopy(original), request.param)
    return model, original, Reference(model)


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_values_are_the_deep_copys_after_steps(
    kept: tuple[Any, Any, Reference], make_sequences: Make, precision: str
) -> None:
    model, original, reference = kept
    batch = collate(make_sequences(4), 2, CPU)
    for _ in range(2):
        steps(model, batch, precision)
        with autocast(precision):
            # The current model first and in the same autocast: its bfloat16 weights stand in autocast's cache.
            now = scored_logits(model, batch)
            with reference.active():
                before = scored_logits(model, batch)
                hidden = scored_hidden(model, batch, 1)
            again = scored_logits(model, batch)
        with autocast(precision), torch.no_grad():
            wanted, wanted_hidden = scored_logits(original, batch), scored_hidden(original, batch, 1)
        assert torch.equal(before, wanted)
        assert torch.equal(hidden, wanted_hidden)
        assert not before.requires_grad
        assert torch.equal(again, now)
        assert (now - before).abs().max() > 0.1


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("order", ["reference first", "model first"])
def test_gradients_do_not_feel_the_reference(
    kept: tuple[Any, Any, Reference], make_sequences: Make, precision: str, order: str
) -> None:
    model, _, reference = kept
    batch = collate(make_sequences(4), 2, CPU)
    steps(model, batch, precision)

    def gradients(with_reference: bool) -> dict[str, Tensor]:
        model.zero_grad(set_to_none=True)
        with autocast(precision):
            for what in ("reference first", "model first"):
                if what == order or not with_reference:
                    loss = scored_logits(model, batch).square().mean()
                if with_reference and what == "reference first":
                    with reference.active():
                        scored_logits(model, batch)
            if with_reference and order == "reference first":
                loss = scored_logits(model, batch).square().mean()
        loss.backward()
        return {name: tensor.grad for name, tensor in model.named_parameters() if tensor.grad is not None}

    alone, beside = gradients(False), gradients(True)
    assert alone.keys() == {name for name, tensor in model.named_parameters() if tensor.requires_grad}
    assert beside.keys() == alone.keys()
    assert all(torch.equal(beside[name], alone[name]) for name in alone)


def test_the_model_is_back_even_after_an_error(kept: tuple[Any, Any, Reference], make_sequences: Make) -> None:
    model, _, reference = kept
    batch = collate(make_sequences(2), 2, CPU)
    steps(model, batch, "fp32")
    model.train()
    trained = {name for name, tensor in model.named_parameters() if tensor.requires_grad}
    now = scored_logits(model, batch)

    def break_off() -> None:
        with reference.active():
            assert not model.training
            raise RuntimeError("in the middle")

    with pytest.raises(RuntimeError, match="in the middle"):
        break_off()
    assert model.training
    assert torch.equal(scored_logits(model, batch), now)
    assert {name for name, tensor in model.named_parameters() if tensor.requires_grad} == trained


@pytest.mark.parametrize(
    ("trainable", "kind", "share"), [("all", "swapped", 1), ("layers:1", "swapped", 1), ("lora:4", "adapter", 0)]
)
def test_what_it_costs(tiny: Make, trainable: str, kind: str, share: int) -> None:
    model = choose_trainable(tiny().model, trainable)
    reference = Reference(model)
    trained_bytes = sum(4 * tensor.numel() for tensor in model.parameters() if tensor.requires_grad)
    assert reference.kind.startswith(kind)
    assert reference.held_bytes() == share * trained_bytes


class TestSequenceLikelihoods:
    def views(self, model: Any, reference: Reference, *batches: Any) -> list[ModelView]:
        return [ModelView(model, collate(chosen, 2, CPU), Totals.of(chosen), reference) for chosen in batches]

    def test_once_a_key(self, tiny: Make, make_sequences: Make) -> None:
        model, passes = tiny().model, list[int]()
        model.register_forward_pre_hook(lambda *_: passes.append(1))
        sequences, reference = make_sequences(6), Reference(model)
        for epoch in range(3):
            for view in self.views(model, reference, sequences[:3], sequences[3:]):
                view.reference.sequence_nll()
            assert len(passes) == 2, epoch
        # Other batches of the same keys ask for nothing new either, in any order.
        (view,) = self.views(model, reference, [sequences[5], sequences[0]])
        found = view.reference.sequence_nll()
        assert len(passes) == 2
        assert found.tolist() == [reference.sequence_nll["s5"], reference.sequence_nll["s0"]]
        assert reference.sequence_nll.keys() == {s.key for s in sequences}

    def test_values_are_the_deep_copys(self, tiny: Make, make_sequences: Make) -> None:
        model, sequences = tiny().model, make_sequences(5)
        original, reference = copy.deepcopy(model), Reference(model)
        steps(model, collate(sequences, 2, CPU), "fp32")
        (view,), (plain,) = (
            self.views(model, reference, sequences),
            self.views(original, Reference(original), sequences),
        )
        assert torch.equal(view.reference.sequence_nll(), plain.sequence_nll().detach())

    def test_a_known_value_stays_when_its_batch_holds_a_new_one(self, tiny: Make, make_sequences: Make) -> None:
        model, sequences = tiny().model, make_sequences(3)
        reference = Reference(model)
        reference.sequence_nll["s0"] = 123.0
        (view,) = self.views(model, reference, sequences)
        assert view.reference.sequence_nll().tolist()[0] == 123.0
        assert reference.sequence_nll["s0"] == 123.0
        assert len(reference.sequence_nll) == 3

    def test_the_references_reference_is_itself(self, tiny: Make, make_sequences: Make) -> None:
        (view,) = self.views(tiny().model, Reference(tiny().model), make_sequences(2))
        assert view.reference.reference is view.reference
