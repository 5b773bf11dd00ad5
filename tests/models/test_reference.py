"""The reference without a second model is the deep copy that it stands for."""

from __future__ import annotations

import copy
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest
import torch
from torch import Tensor

from medunlearn.models.batches import collate
from medunlearn.models.layouts import decoder_of
from medunlearn.models.reference import Reference
from medunlearn.training.trainable import choose_trainable

CPU = torch.device("cpu")
Make = Callable[..., Any]
TRAINABLES = ["all", "layers:1", "lora:4"]


def autocast(precision: str) -> Any:
    return torch.autocast("cpu", torch.bfloat16) if precision == "bf16" else nullcontext()


def steps(model: Any, batch: Any, precision: str, count: int = 2) -> None:
    """A few optimizer steps, so that the model is far from its reference."""
    parameters = [tensor for tensor in model.parameters() if tensor.requires_grad]
    optimizer = torch.optim.AdamW(parameters, lr=1e-2)
    for _ in range(count):
        with autocast(precision):
            loss = decoder_of(model).logits(batch).logsumexp(1).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@pytest.fixture(params=TRAINABLES)
def pair(request: Any, tiny: Make) -> tuple[Any, Any, Reference]:
    """A model, a deep copy of it as the reference it should have, and the reference it has."""
    original = tiny().model.eval()
    model = choose_trainable(copy.deepcopy(original), request.param)
    return model, original, Reference(model)


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_values_are_the_deep_copys_after_steps(
    pair: tuple[Any, Any, Reference], make_sequences: Make, precision: str
) -> None:
    model, original, reference = pair
    batch = collate(make_sequences(4), 2, CPU)
    for _ in range(2):
        steps(model, batch, precision)
        with autocast(precision):
            # The current model first and in the same autocast: its bfloat16 weights stand in autocast's cache.
            now = decoder_of(model).logits(batch)
            with reference.active():
                before = decoder_of(model).logits(batch)
                hidden = decoder_of(model).hidden(batch, 1)
            again = decoder_of(model).logits(batch)
        with autocast(precision), torch.no_grad():
            expected, expected_hidden = decoder_of(original).logits(batch), decoder_of(original).hidden(batch, 1)
        assert torch.equal(before, expected)
        assert torch.equal(hidden, expected_hidden)
        assert not before.requires_grad
        assert torch.equal(again, now)
        assert (now - before).abs().max() > 0.1


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("order", ["reference first", "model first"])
def test_gradients_do_not_feel_the_reference(
    pair: tuple[Any, Any, Reference], make_sequences: Make, precision: str, order: str
) -> None:
    model, _, reference = pair
    batch = collate(make_sequences(4), 2, CPU)
    steps(model, batch, precision)

    def gradients(with_reference: bool) -> dict[str, Tensor]:
        model.zero_grad(set_to_none=True)
        with autocast(precision):
            for what in ("reference first", "model first"):
                if what == order or not with_reference:
                    loss = decoder_of(model).logits(batch).square().mean()
                if with_reference and what == "reference first":
                    with reference.active():
                        decoder_of(model).logits(batch)
            if with_reference and order == "reference first":
                loss = decoder_of(model).logits(batch).square().mean()
        loss.backward()
        return {name: tensor.grad for name, tensor in model.named_parameters() if tensor.grad is not None}

    alone, beside = gradients(False), gradients(True)
    assert alone.keys() == {name for name, tensor in model.named_parameters() if tensor.requires_grad}
    assert beside.keys() == alone.keys()
    assert all(torch.equal(beside[name], alone[name]) for name in alone)


def test_the_model_is_back_even_after_an_error(pair: tuple[Any, Any, Reference], make_sequences: Make) -> None:
    model, _, reference = pair
    batch = collate(make_sequences(2), 2, CPU)
    steps(model, batch, "fp32")
    model.train()
    trained = {name for name, tensor in model.named_parameters() if tensor.requires_grad}
    now = decoder_of(model).logits(batch)

    def break_off() -> None:
        with reference.active():
            assert not model.training
            raise RuntimeError("in the middle")

    with pytest.raises(RuntimeError, match="in the middle"):
        break_off()
    assert model.training
    assert torch.equal(decoder_of(model).logits(batch), now)
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


@pytest.mark.parametrize("trainable", ["all", "pattern:lm_head|embed_tokens", "layers:1"])
def test_the_head_is_the_old_one(tiny: Make, make_sequences: Make, trainable: str) -> None:
    original = tiny().model
    model = choose_trainable(copy.deepcopy(original), trainable)
    for complete in (False, True):
        reference = Reference(model, complete=complete)
        steps(model, collate(make_sequences(4), 2, CPU), "fp32")
        head, now = reference.head(decoder_of(model)).weight, model.lm_head.weight
        assert torch.equal(head, original.lm_head.weight)
        assert torch.equal(head, now) == (trainable == "layers:1")
        model.load_state_dict(original.state_dict())


def test_what_was_said_to_be_kept_is_not_asked_for(tiny: Make) -> None:
    reference = Reference(tiny().model, complete=True)
    assert reference.kind == "kept numbers"
    with pytest.raises(RuntimeError, match="not cached before training"), reference.active():
        pass
