"""A cache of numbers that repeat in every epoch changes no number, only passes and memory."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from method_variants import VARIANTS, make_variant
from rounding import assert_same_movement, movement_bound
from torch import Tensor
from training_runs import copied, equal, stop_at

from medunlearn.models.reference import Reference
from medunlearn.models.sequences import tokens_once
from medunlearn.training.batch_plan import Plan
from medunlearn.training.loop import LoopSettings, train_loop
from medunlearn.training.objectives import Unlearning
from medunlearn.training.precompute import CachePlan
from medunlearn.training.trainable import choose_trainable

Make = Callable[..., Any]
PLENTY = 1 << 30
SETTINGS = LoopSettings(lr=1e-2, precision="fp32", micro_batch_size=2)


@pytest.fixture
def plan(make_sequences: Make, with_notes: Make) -> Plan:
    """Two epochs over the forget set; the retain set comes more than once too."""
    sides = {"forget": make_sequences(6, "f"), "retain": with_notes(make_sequences(4, "r"))}
    return Plan(sides, 3, 2, 0)


def objective_of(name: str) -> Unlearning:
    return Unlearning(make_variant(name))


def run(
    model: Any, name: str, plan: Plan, budget: int, folder: Path | None = None, **more: Any
) -> tuple[dict[str, Tensor], list[Any], Reference, CachePlan]:
    cache_plan = CachePlan(model, 2, objective_of(name), plan, SETTINGS.micro_batch_size, budget)
    cache = cache_plan.fill(folder and folder / "cache", "fp32")
    reference = Reference(model, cache, complete=cache_plan.complete)
    history = train_loop(
        model, 2, objective_of(name), plan, SETTINGS, reference=reference, checkpoints=folder, **more
    )
    return copied(model), history, reference, cache_plan


def reads_reference(name: str) -> bool:
    """A loss without reference has nothing to cache if the first layer is trained."""
    return name.startswith(("kl_min", "npo", "rmu", "adaptive_rmu", "undial")) or name == "pdu.target"


@pytest.mark.parametrize("name", [name for name in VARIANTS if not reads_reference(name)])
@pytest.mark.parametrize("trainable", ["all", "layers:0-1", "lora:4"])
def test_without_reference_or_frozen_layers_nothing_is_cached(
    tiny: Make, plan: Plan, name: str, trainable: str
) -> None:
    model = choose_trainable(tiny().model, trainable)
    assert not CachePlan(model, 2, objective_of(name), plan, 2, PLENTY).sides


@pytest.mark.parametrize(
    ("name", "trainable"),
    [
        *((name, "layers:1") for name in VARIANTS),
        # RMU trains no layer behind its own, which is an error under "all" and LoRA.
        *((name, "layers:0-1") for name in VARIANTS if reads_reference(name)),
        *((name, "all") for name in VARIANTS if name.startswith(("kl_min", "npo"))),
        *((name, "lora:4") for name in ("kl_min", "npo")),
    ],
)
def test_a_run_with_a_cache_is_one_without(
    exact_tiny: Make, plan: Plan, tmp_path: Path, name: str, trainable: str
) -> None:
    plan = Plan({side: sequences[:4] for side, sequences in plan.sides.items()}, 4, 2, 0)
    before = torch.get_rng_state()
    ours, history, _, cache_plan = run(
        choose_trainable(exact_tiny().model, trainable), name, plan, PLENTY, tmp_path
    )
    theirs, expected, _, nothing = run(choose_trainable(exact_tiny().model, trainable), name, plan, 0)
    assert torch.equal(torch.get_rng_state(), before)
    assert not nothing.sides
    assert cache_plan.sides
    for row, other in zip(history, expected, strict=True):
        assert row["loss"] == pytest.approx(other["loss"], rel=movement_bound(), abs=movement_bound())
    start = choose_trainable(exact_tiny().model, trainable).named_parameters()
    assert_same_movement(ours, theirs, dict(start))


@pytest.mark.parametrize(
    ("name", "trainable", "forget", "retain"),
    [
        ("npo", "all", {"log_probs"}, set()),
        ("kl_min", "all", set(), {"final"}),
        ("kl_min.openunlearning", "all", set(), {"final@all"}),
        ("rmu", "layers:1", {"trunk"}, {"trunk", "hidden:1@answer"}),
        ("rmu", "layers:0", set(), {"hidden:1@answer"}),
        ("rmu.wmdp", "layers:0", set(), {"hidden:1@all"}),
        ("ga", "layers:2", {"trunk"}, set()),
        ("kl_min", "lora:2", set(), {"final"}),
    ],
)
def test_cached_quantities(
    tiny: Make, plan: Plan, name: str, trainable: str, forget: set[str], retain: set[str]
) -> None:
    model = choose_trainable(tiny().model, trainable)
    cache_plan = CachePlan(model, 2, objective_of(name), plan, 2, PLENTY)
    names = {side: set(side_cache.names) for side, side_cache in cache_plan.sides.items()}
    assert names == {side: what for side, what in (("forget", forget), ("retain", retain)) if what}
    assert cache_plan.complete
    # The estimate is what it takes, to the byte.
    assert cache_plan.fill(None, "fp32").bytes == cache_plan.bytes


def test_passes_keep_to_their_tokens(tiny: Make, plan: Plan) -> None:
    model = choose_trainable(tiny().model, "layers:1")
    longest = max(len(sequence.ids) for sequence in plan.sides["retain"])
    cache_plan = CachePlan(model, 2, objective_of("rmu"), plan, 100, PLENTY, tokens=2 * longest)
    pieces = cache_plan.pieces("retain")
    assert 1 < len(pieces) < len(plan.sides["retain"])
    assert all(tokens_once(piece) <= 2 * longest for piece in pieces)
    assert sorted(s.key for piece in pieces for s in piece) == sorted(s.key for s in plan.sides["retain"])


def test_once_through_the_retain_set_only_what_saves_a_copy(tiny: Make, make_sequences: Make) -> None:
    plan = Plan({"forget": make_sequences(4, "f"), "retain": make_sequences(30, "r")}, 2, 3, 0)
    whole, one_layer = (choose_trainable(tiny().model, trainable) for trainable in ("all", "layers:1"))
    cache_plan = CachePlan(whole, 2, objective_of("kl_min"), plan, 2, PLENTY)
    assert cache_plan.complete
    assert cache_plan.sequences == len(cache_plan.sides["retain"].sequences) == 12
    seen_keys = {s.key for number in range(plan.steps) for s in plan.step(number)["retain"]}
    assert {s.key for s in cache_plan.sides["retain"].sequences} == seen_keys
    cache_plan = CachePlan(one_layer, 2, objective_of("kl_min"), plan, 2, PLENTY)
    assert not cache_plan.complete
    assert {side: set(side_cache.names) for side, side_cache in cache_plan.sides.items()} == {"forget": {"trunk"}}


def test_then_the_reference_is_never_run_and_holds_nothing(tiny: Make, plan: Plan, monkeypatch: Any) -> None:
    monkeypatch.setattr(Reference, "active", lambda self: pytest.fail("a pass of the reference"))
    for name in ("npo", "rmu"):
        model = choose_trainable(tiny().model, "layers:0-1" if name == "rmu" else "all")
        _, _, reference, _ = run(model, name, plan, PLENTY)
        # Of all that is trained only the head (here the embedding) is copied.
        assert reference.held_bytes() == (name == "npo") * 4 * model.lm_head.weight.numel()
        assert reference.kind == "kept numbers"


def test_a_budget_is_respected_and_the_cheapest_comes_first(tiny: Make, plan: Plan) -> None:
    model = choose_trainable(tiny().model, "layers:1")
    whole = CachePlan(model, 2, objective_of("rmu"), plan, 2, PLENTY)
    less = CachePlan(model, 2, objective_of("rmu"), plan, 2, whole.bytes - 1)
    assert less.bytes < whole.bytes
    assert less.complete
    assert "hidden:1@answer" in less.sides["retain"].names


@pytest.mark.parametrize(("name", "trainable"), [("npo", "all"), ("kl_min", "layers:1"), ("rmu", "layers:1")])
def test_resumed_is_uninterrupted(tiny: Make, plan: Plan, tmp_path: Path, name: str, trainable: str) -> None:
    weights, _, _, _ = run(choose_trainable(tiny().model, trainable), name, plan, PLENTY, tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        run(choose_trainable(tiny().model, trainable), name, plan, PLENTY, tmp_path / "cut", on_step=stop_at(3))
    files = sorted((tmp_path / "cut/cache").iterdir())
    times = [file.stat().st_mtime_ns for file in files]
    resumed, _, _, _ = run(choose_trainable(tiny().model, trainable), name, plan, PLENTY, tmp_path / "cut")
    assert [file.stat().st_mtime_ns for file in sorted((tmp_path / "cut/cache").iterdir())] == times
    assert equal(resumed, weights)


def test_a_method_that_changes_its_mind_is_told(tiny: Make, plan: Plan) -> None:
    class Fickle:
        calls = 0

        def loss(self, forget: Any, retain: Any) -> dict[str, Tensor]:
            self.calls += 1
            if self.calls > 1:
                return {"forget": forget.nll() - forget.reference.hidden(1).sum()}
            return {"forget": forget.nll() - forget.reference.nll()}

    model, method = tiny().model, Unlearning(Fickle())
    cache_plan = CachePlan(model, 2, method, plan, 2, PLENTY)
    reference = Reference(model, cache_plan.fill(None, "fp32"), complete=cache_plan.complete)
    with pytest.raises(RuntimeError, match="--keep-gb 0"):
        train_loop(model, 2, method, plan, SETTINGS, reference=reference)
