"""However a step is cut into passes, its loss terms and its gradient are those of one large batch."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch
from method_variants import VARIANTS, make_variant
from rounding import assert_same
from torch import Tensor

from medunlearn.config import TrainSettings, check
from medunlearn.models import head
from medunlearn.models.batches import collate
from medunlearn.models.layouts import decoder_of, make_batch
from medunlearn.models.reference import Reference
from medunlearn.models.sequences import tokens_once
from medunlearn.probes.material import loop_settings
from medunlearn.training import gradients
from medunlearn.training.batch_plan import Plan, micro_batches
from medunlearn.training.loop import LoopSettings, train_loop
from medunlearn.training.objectives import NextToken, Unlearning
from medunlearn.training.views import ModelView, Totals

CPU = torch.device("cpu")
FIVE = 5


def summed(
    model: Any,
    objective: Any,
    sides: Mapping[str, Any],
    size: int,
    tokens: int | None = None,
    *,
    packed: bool = False,
) -> tuple[dict[str, float], Any]:
    """Terms and gradients of one step over ``sides``, in micro-batches of ``size`` and so many tokens."""
    reference = Reference(model)
    # So far from the reference that a divergence is no small difference of large terms.
    with torch.no_grad():
        for tensor in model.parameters():
            tensor.mul_(1.2)
    totals, terms = {side: Totals.of(members) for side, members in sides.items()}, dict[str, float]()
    for micro in micro_batches(sides, size, tokens=tokens):
        views = {
            side: ModelView(
                model,
                make_batch(model, members, 2, CPU) if packed else collate(members, 2, CPU),
                totals[side],
                reference,
            )
            for side, members in micro.items()
        }
        batch_terms: dict[str, Tensor] = objective.terms(views)
        torch.stack(list(batch_terms.values())).sum().backward()
        for name, value in batch_terms.items():
            terms[name] = terms.get(name, 0.0) + value.item()
    return terms, {name: tensor.grad for name, tensor in model.named_parameters() if tensor.grad is not None}


def objective_of(name: str) -> Any:
    if name == "next_token":
        return NextToken()
    return Unlearning(make_variant(name))


@pytest.mark.parametrize("name", [*VARIANTS, "next_token"])
def test_micro_batches_add_up_to_the_whole_batch(
    name: str, exact_tiny: Callable[[], Any], make_sequences: Callable[..., Any]
) -> None:
    sides = {"forget": make_sequences(FIVE, "f"), "retain": make_sequences(FIVE, "r")}
    assert len({s.scored for s in sides["forget"]}) > 2
    whole, whole_gradients = summed(exact_tiny().model, objective_of(name), sides, FIVE)
    for size, tokens in ((1, None), (3, None), (FIVE, 30)):
        cut, cut_gradients = summed(exact_tiny().model, objective_of(name), sides, size, tokens)
        assert_same(cut, whole)
        assert_same(cut_gradients, whole_gradients)


@pytest.mark.parametrize("name", VARIANTS)
def test_text_in_common_is_cut_to_the_same_numbers(
    name: str, exact_tiny: Callable[[], Any], make_sequences: Callable[..., Any], with_notes: Callable[..., Any]
) -> None:
    """Notes of three questions, in pieces that part some of them, against padded rows that share nothing."""
    sides = {
        "forget": with_notes(make_sequences(FIVE, "f"), 3),
        "retain": with_notes(make_sequences(FIVE, "r"), 3),
    }
    whole, whole_gradients = summed(exact_tiny().model, objective_of(name), sides, FIVE)
    for size in (FIVE, 2, 1):
        cut, cut_gradients = summed(exact_tiny().model, objective_of(name), sides, size, packed=True)
        assert_same(cut, whole)
        assert_same(cut_gradients, whole_gradients)


def test_passes_keep_to_their_budget_of_tokens(
    tiny: Callable[[], Any], make_sequences: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = check(TrainSettings, {"model": "tiny", "micro_batch_tokens": 16, "precision": "fp32"})
    sequences, passes = make_sequences(6), list[list[int]]()

    def noted(model: Any, members: Any, *more: Any) -> Any:
        passes.append([len(sequence.ids) for sequence in members])
        return make_batch(model, members, *more)

    monkeypatch.setattr(gradients, "make_batch", noted)
    train_loop(tiny().model, 2, NextToken(), Plan({"train": sequences}, 6, 1, 0), loop_settings(settings, 0))
    assert sorted(length for lengths in passes for length in lengths) == sorted(len(s.ids) for s in sequences)
    assert any(len(lengths) > 1 for lengths in passes)
    assert all(sum(lengths) <= 16 or len(lengths) == 1 for lengths in passes)


def test_a_reference_is_asked_of_unlearning_alone(
    tiny: Callable[[], Any], make_sequences: Callable[..., Any]
) -> None:
    plan = Plan({"forget": make_sequences(2, "f"), "retain": make_sequences(2, "r")}, 2, 1, 0)
    with pytest.raises(TypeError, match="has no reference model"):
        train_loop(tiny().model, 2, objective_of("npo"), plan, LoopSettings(1e-3))


def test_the_head_is_run_once_for_positions_that_questions_share(
    tiny: Callable[[], Any],
    make_sequences: Callable[..., Any],
    with_notes: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    counts, divergence = list[int](), head.divergence

    def counted(now: Any, states: Tensor, *more: Any) -> Tensor:
        counts.append(len(states))
        return divergence(now, states, *more)

    monkeypatch.setattr(head, "divergence", counted)
    model, sequences = tiny().model, with_notes(make_sequences(4), 2)
    view = ModelView(model, make_batch(model, sequences, 2, CPU), Totals.of(sequences), Reference(model)).at("all")
    assert len(view.divergence_from_reference()) == sum(len(sequence.ids) for sequence in sequences)
    assert counts == [tokens_once(sequences)]


def test_what_is_asked_twice_is_run_once(tiny: Callable[[], Any], make_sequences: Callable[..., Any]) -> None:
    model = copy.deepcopy(tiny().model)
    passes: list[int] = []
    decoder_of(model)  # tries the model on a few tokens
    model.model.register_forward_pre_hook(lambda *_: passes.append(1))
    sequences = make_sequences(3)
    view = ModelView(model, collate(sequences, 2, CPU), Totals.of(sequences), Reference(model))
    assert not passes
    for ask in (view.nll, view.log_distribution, view.token_log_probs, view.sequence_nll):
        ask()
    assert len(passes) == 1
    for _ in range(2):
        view.hidden(0)
    assert len(passes) == 2
    before = view.reference
    for ask in (before.nll, before.sequence_nll, before.log_distribution, before.log_distribution):
        ask()
    assert len(passes) == 4
