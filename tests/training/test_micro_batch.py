"""A step that does not fit in memory is taken in smaller passes, to the same numbers; what never fits says so."""

from __future__ import annotations

import gc
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from rounding import assert_same, assert_same_movement, movement_bound
from torch import Tensor
from training_runs import equal, stop_at

from medunlearn.errors import OutOfMemoryError
from medunlearn.methods import make_method
from medunlearn.models.reference import Reference
from medunlearn.training.batch_plan import Plan
from medunlearn.training.loop import LoopSettings, train_loop
from medunlearn.training.objectives import NextToken, Objective, Unlearning
from medunlearn.training.precompute import CachePlan
from medunlearn.training.trainable import choose_trainable, trained

Make = Callable[..., Any]
SETTINGS = LoopSettings(lr=1e-3, precision="fp32", micro_batch_size=8)


class Room:
    """An objective in whose passes ``room`` sequences a side fit; memory runs out behind the forward pass."""

    def __init__(self, usual: Objective, room: int) -> None:
        self.usual, self.room, self.sizes = usual, room, list[int]()

    def terms(self, views: Mapping[str, Any]) -> dict[str, Tensor]:
        terms = self.usual.terms(views)
        self.sizes.append(max(view.batch.size for view in views.values()))
        if self.sizes[-1] > self.room:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")
        return dict(terms)


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gc, "collect", lambda: 0)


@pytest.fixture
def plan(make_sequences: Make) -> Plan:
    """Two epochs of three steps, of 5, 5 and 2 sequences a side."""
    return Plan({"forget": make_sequences(12, "f"), "retain": make_sequences(9, "r")}, 5, 2, 0)


def run(tiny: Make, objective: Objective, plan: Plan, settings: LoopSettings = SETTINGS, **more: Any) -> Any:
    model = choose_trainable(tiny().model, "layers:0-1")
    history = train_loop(model, 2, objective, plan, settings, reference=Reference(model), **more)
    return trained(model), history


@pytest.mark.parametrize(("name", "room"), [("graddiff", 1), ("npo", 2), ("kl_min", 3)])
def test_smaller_passes_change_no_number(exact_tiny: Make, plan: Plan, name: str, room: int) -> None:
    method = make_method(name, {})
    whole, expected = run(exact_tiny, Unlearning(method), plan)
    objective = Room(Unlearning(method), room)
    cut, history = run(exact_tiny, objective, plan)
    # Five at a time, then three, two and one; what fits stays.
    tries = {1: [5, 3, 2, 1], 2: [5, 3, 2], 3: [5, 3]}[room]
    assert objective.sizes[: len(tries)] == tries
    assert max(objective.sizes[len(tries) :]) == room
    assert {row["micro_batch_size"] for row in history} == {room}
    assert {row["micro_batch_size"] for row in expected} == {8}
    for row, other in zip(history, expected, strict=True):
        assert row["loss"] == pytest.approx(other["loss"], rel=movement_bound(), abs=movement_bound())
    assert_same_movement(cut, whole, dict(exact_tiny().model.named_parameters()))


def test_what_went_backward_before_memory_ran_out_does_not_count_twice(exact_tiny: Make, plan: Plan) -> None:
    """The second pass of the first step fails half-way back, and with it the whole step is computed again."""
    ended: list[dict[str, Tensor]] = []
    settings = LoopSettings(lr=1e-3, precision="fp32", micro_batch_size=3)
    for full in (False, True):
        model, passes = choose_trainable(exact_tiny().model, "layers:0-1"), list[int]()

        def fail(gradient: Tensor, passes: list[int] = passes, full: bool = full) -> None:
            passes.append(1)
            if full and len(passes) == 2:
                raise torch.OutOfMemoryError("CUDA out of memory.")

        model.model.layers[0].self_attn.q_proj.weight.register_hook(fail)
        history = train_loop(model, 2, NextToken(), plan, settings)
        assert {row["micro_batch_size"] for row in history} == {2 if full else 3}
        ended.append(trained(model))
    whole, cut = ended
    assert_same_movement(cut, whole, dict(exact_tiny().model.named_parameters()))


def test_dropout_draws_as_a_run_of_that_size_does(tiny: Make, plan: Plan) -> None:
    def dropping() -> Any:
        language_model = tiny()
        for layer in language_model.model.model.layers:
            layer.self_attn.attention_dropout = 0.3
        return language_model

    state = torch.get_rng_state()
    cut, _ = run(dropping, Room(NextToken(), 2), plan, LoopSettings(lr=1e-3, precision="fp32", micro_batch_size=4))
    twos, _ = run(dropping, NextToken(), plan, LoopSettings(lr=1e-3, precision="fp32", micro_batch_size=2))
    assert equal(cut, twos)
    assert torch.equal(torch.get_rng_state(), state)


def test_the_passes_that_look_for_a_rate(exact_tiny: Make, plan: Plan) -> None:
    """NGDiff steps, looks, and steps back: memory that runs out in the look leaves no half of that."""

    class Look(Unlearning):
        def probe(self, views: Mapping[str, Any]) -> Any:
            if views["forget"].batch.size > 2:
                raise torch.OutOfMemoryError("CUDA out of memory.")
            return super().probe(views)

    method = make_method("ngdiff", {"every": 2})
    whole, expected = run(exact_tiny, Unlearning(method), plan)
    cut, history = run(exact_tiny, Look(method), plan)
    assert {row["micro_batch_size"] for row in history} == {2}
    assert [row["lr"] for row in history] == pytest.approx([row["lr"] for row in expected], rel=movement_bound())
    assert_same_movement(cut, whole, dict(exact_tiny().model.named_parameters()))


def test_rows_of_records_are_cut_too(exact_tiny: Make, make_sequences: Make) -> None:
    plan = Plan({"train": make_sequences(24)}, 4, 1, 0, row=40)
    whole, _ = run(exact_tiny, NextToken(), plan)
    objective = Room(NextToken(), 4)
    cut, history = run(exact_tiny, objective, plan)
    assert {row["micro_batch_size"] for row in history} < {1, 2, 3, 4}
    assert objective.sizes[0] > 4
    assert_same_movement(cut, whole, dict(exact_tiny().model.named_parameters()))


def test_what_never_fits_is_an_error_and_the_run_goes_on_from_the_last_step(
    tiny: Make, plan: Plan, tmp_path: Path
) -> None:
    whole, expected = run(tiny, Room(NextToken(), 2), plan)
    objective = Room(NextToken(), 2)
    with pytest.raises(OutOfMemoryError, match="at step 2, with one sequence or row per side") as caught:
        run(tiny, objective, plan, checkpoints=tmp_path, on_step=lambda row: _full_after(objective, row, 2))
    assert caught.value.exit_code == 2
    assert [folder.name for folder in tmp_path.iterdir()] == ["step-00000002"]
    resumed, history = run(tiny, NextToken(), plan, checkpoints=tmp_path)
    assert equal(resumed, whole)
    assert [row["micro_batch_size"] for row in history] == [row["micro_batch_size"] for row in expected]


@pytest.mark.parametrize(("before", "after"), [(5, 2), (2, 5)])
def test_a_run_goes_on_with_the_size_that_is_asked_for(
    exact_tiny: Make, plan: Plan, tmp_path: Path, before: int, after: int
) -> None:
    settings = replace(SETTINGS, micro_batch_size=before)
    whole, expected = run(exact_tiny, NextToken(), plan, settings)
    with pytest.raises(KeyboardInterrupt):
        run(exact_tiny, NextToken(), plan, settings, checkpoints=tmp_path, on_step=stop_at(2))
    other = replace(SETTINGS, micro_batch_size=after, gradient_checkpointing=True)
    resumed, history = run(exact_tiny, NextToken(), plan, other, checkpoints=tmp_path)
    assert [row["micro_batch_size"] for row in history] == [before] * 2 + [after] * 4
    for row, usual in zip(history, expected, strict=True):
        assert row["loss"] == pytest.approx(usual["loss"], rel=movement_bound(), abs=movement_bound())
    assert_same_movement(resumed, whole, dict(exact_tiny().model.named_parameters()))


def _full_after(objective: Room, row: dict[str, Any], step: int) -> None:
    if row["step"] == step:
        objective.room = 0


def test_an_optimizer_without_room_keeps_no_half_step(
    tiny: Make, plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stepped = torch.optim.AdamW.step
    calls: list[int] = []

    def step(self: Any, *more: Any) -> Any:
        calls.append(1)
        if len(calls) == 3:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return stepped(self, *more)

    monkeypatch.setattr(torch.optim.AdamW, "step", step)
    with pytest.raises(OutOfMemoryError, match=r"at step 2\. No step is kept"):
        run(tiny, NextToken(), plan, checkpoints=tmp_path)
    assert not any(tmp_path.iterdir())


def test_what_is_kept_is_computed_in_smaller_batches(
    exact_tiny: Make, plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, objective = choose_trainable(exact_tiny().model, "layers:1"), Unlearning(make_method("npo", {}))
    usual = CachePlan(model, 2, objective, plan, 5, 1 << 30)
    expected = usual.fill(None, "fp32")
    cache_plan, store, sizes = CachePlan(model, 2, objective, plan, 5, 1 << 30), CachePlan.store, list[int]()

    def little(self: CachePlan, cache: Any, sequences: Any, names: Any) -> None:
        sizes.append(len(sequences))
        if len(sequences) > 2:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        store(self, cache, sequences, names)

    monkeypatch.setattr(CachePlan, "store", little)
    counts: list[int] = []
    cache = cache_plan.fill(None, "fp32", advance=counts.append)
    assert max(sizes) > 2
    assert sum(counts) == cache_plan.sequences
    names = list(expected._waiting)
    assert names
    assert_same({name: cache[name] for name in names}, {name: expected[name] for name in names})
