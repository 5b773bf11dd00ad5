"""Methods that learn alternative answers: their terms in plain torch, and steps cut into passes."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from method_variants import gradients
from rounding import assert_same
from torch import Tensor
from training_runs import Row, copied, equal, stop_at, without_seconds

from medunlearn.methods import ALTERNATIVES, make_method
from medunlearn.methods.protocol import default_trainable
from medunlearn.models.batches import collate
from medunlearn.models.layouts import make_batch
from medunlearn.models.reference import Reference
from medunlearn.models.sequences import TokenSequence
from medunlearn.training.batch_plan import Plan, micro_batches
from medunlearn.training.loop import LoopSettings, train_loop
from medunlearn.training.objectives import Unlearning
from medunlearn.training.precompute import CachePlan
from medunlearn.training.trainable import choose_trainable
from medunlearn.training.views import ModelView, Totals

CPU = torch.device("cpu")
ARGUMENTS: dict[str, dict[str, float]] = {
    "altpo": {"alternatives": 2, "beta": 0.3, "alpha": 1.3},
    "counterfactual": {"alternatives": 2, "gamma": 0.7, "alpha": 1.3, "whole_values": True, "hold": 0.4},
    "dpo": {"alternatives": 2, "beta": 0.4, "gamma": 0.7, "alpha": 1.3},
    "idk_dpo": {"alternatives": 2, "beta": 0.4, "gamma": 0.7, "alpha": 1.3},
    "idk_nll": {"alternatives": 2, "gamma": 0.7, "alpha": 1.3},
    "jensun": {"alternatives": 2, "gamma": 0.7, "alpha": 1.3},
    "redirect": {"alternatives": 2, "layer": 1, "coefficient": 1.5, "alpha": 1.3, "trains": "through"},
}
CAP = -5.0


def partners(forget: list[TokenSequence], make: Callable[..., Any]) -> dict[str, list[TokenSequence]]:
    """Two alternatives of each, behind its own prompt."""
    others = make(2 * len(forget), "a")

    def behind(prompt: TokenSequence, other: TokenSequence, turn: int) -> TokenSequence:
        ids = (*prompt.prompt, *other.ids[other.scored_from :])
        return TokenSequence(f"{prompt.key}~{turn}", ids, 0, prompt.scored_from)

    return {
        sequence.key: [behind(sequence, others[2 * place + turn], turn) for turn in (0, 1)]
        for place, sequence in enumerate(forget)
    }


@pytest.fixture
def plan(make_sequences: Callable[..., Any]) -> Plan:
    forget = [replace(s, caps=(CAP,) * s.scored, floors=floors(s)) for s in make_sequences(7, "f")]
    sides = {"forget": forget, "retain": make_sequences(5, "r")}
    return Plan(sides, 3, 3, 0, partners={"alternatives": partners(forget, make_sequences)})


def floors(sequence: TokenSequence) -> tuple[float, ...]:
    """Every other token has a floor, where its cap is."""
    return tuple(CAP if place % 2 else -math.inf for place in range(sequence.scored))


def log_probs(model: Any, sequence: TokenSequence) -> Tensor:
    logits = model(input_ids=torch.tensor([sequence.ids]), use_cache=False).logits[0, :-1].log_softmax(1)
    answer = torch.tensor(sequence.ids[sequence.scored_from :])
    picked: Tensor = logits[sequence.scored_from - 1 :].gather(1, answer[:, None])[:, 0]
    return picked


def plain_altpo(model: Any, before: Any, step: Mapping[str, Any]) -> dict[str, Tensor]:
    return preferred(model, before, step, beta=0.3)


def plain_dpo(model: Any, before: Any, step: Mapping[str, Any]) -> dict[str, Tensor]:
    return preferred(model, before, step, beta=0.4, gamma=0.7)


def preferred(
    model: Any, before: Any, step: Mapping[str, Any], *, beta: float, gamma: float = 1.0
) -> dict[str, Tensor]:
    each = []
    for true, other in zip(step["forget"], step["alternatives"], strict=True):
        ratios = [torch.exp(log_probs(model, s).sum() - log_probs(before, s).sum()) for s in (other, true)]
        each.append(-2 / beta * torch.log(torch.sigmoid(beta * torch.log(ratios[0] / ratios[1]))))
    return {"forget": gamma * torch.stack(each).mean(), "retain": 1.3 * likelihood(model, step["retain"])}


def likelihood(model: Any, sequences: list[TokenSequence]) -> Tensor:
    return -torch.cat([log_probs(model, s) for s in sequences]).mean()


def plain_idk_nll(model: Any, before: Any, step: Mapping[str, Any]) -> dict[str, Tensor]:
    return {
        "alternatives": 0.7 * likelihood(model, step["alternatives"]),
        "retain": 1.3 * likelihood(model, step["retain"]),
    }


def plain_jensun(model: Any, before: Any, step: Mapping[str, Any]) -> dict[str, Tensor]:
    """Both divergences from whole distributions: to a one-hot vector, and to the model before."""
    to_refusals, to_before = [], []
    for s in step["alternatives"]:
        now = answer_log_probs(model, s)
        goal = torch.nn.functional.one_hot(torch.tensor(s.ids[s.scored_from :]), now.shape[1]).to(now.dtype)
        to_refusals.append(jensen_shannon(now.exp(), goal))
    for s in step["retain"]:
        to_before.append(jensen_shannon(answer_log_probs(model, s).exp(), answer_log_probs(before, s).exp()))
    return {"alternatives": 0.7 * torch.cat(to_refusals).mean(), "retain_js": 1.3 * torch.cat(to_before).mean()}


def plain_redirect(model: Any, before: Any, step: Mapping[str, Any]) -> dict[str, Tensor]:
    forgotten = []
    for own, other in zip(step["forget"], step["alternatives"], strict=True):
        away = states(before, other).mean(0) - states(before, own).mean(0)
        forgotten.append(states(model, own) - (states(before, own) + 1.5 * away))
    drift = torch.cat([states(model, s) - states(before, s) for s in step["retain"]])
    return {"forget": (torch.cat(forgotten) ** 2).mean(), "retain": 1.3 * (drift**2).mean()}


def states(model: Any, s: TokenSequence) -> Tensor:
    """Output of layer 1 at the positions that predict the answer, [tokens, width]."""
    hidden: Tensor = model(
        input_ids=torch.tensor([s.ids]), use_cache=False, output_hidden_states=True
    ).hidden_states[2]
    return hidden[0, s.scored_from - 1 : -1]


def answer_log_probs(model: Any, s: TokenSequence) -> Tensor:
    logits = model(input_ids=torch.tensor([s.ids]), use_cache=False).logits[0, s.scored_from - 1 : -1]
    return logits.log_softmax(1)  # type: ignore[no-any-return]


def jensen_shannon(p: Tensor, q: Tensor) -> Tensor:
    middle = ((p + q) / 2).log()
    # What has no probability adds nothing.
    parts = [0.5 * (each * (each.clamp_min(1e-300).log() - middle)).sum(1) for each in (p, q)]
    return parts[0] + parts[1]


def plain_counterfactual(model: Any, before: Any, step: Mapping[str, Any]) -> dict[str, Tensor]:
    true = torch.cat([log_probs(model, s) for s in step["forget"]])
    has_floor = torch.tensor([floor == CAP for s in step["forget"] for floor in floors(s)])
    divergences = []
    for s in step["retain"]:
        now, then = (
            each(input_ids=torch.tensor([s.ids]), use_cache=False).logits[0, s.scored_from - 1 : -1]
            for each in (model, before)
        )
        kl = torch.nn.functional.kl_div(now.log_softmax(1), then.softmax(1), reduction="none")
        divergences.append(kl.sum(1))
    return {
        "alternatives": -torch.cat([log_probs(model, s) for s in step["alternatives"]]).mean(),
        "forget": 0.7 * torch.where(true > CAP, true - CAP, 0.4 * (CAP - true) * has_floor).mean(),
        "retain_kl": 1.3 * torch.cat(divergences).mean(),
    }


PLAIN: Mapping[str, Callable[..., dict[str, Tensor]]] = {
    "altpo": plain_altpo,
    "counterfactual": plain_counterfactual,
    "dpo": plain_dpo,
    "idk_dpo": plain_dpo,
    "idk_nll": plain_idk_nll,
    "jensun": plain_jensun,
    "redirect": plain_redirect,
}


def test_every_method_has_a_plain_counterpart() -> None:
    assert PLAIN.keys() == ALTERNATIVES.keys()


@pytest.mark.parametrize("name", ALTERNATIVES)
@pytest.mark.parametrize("packed", [False, True])
def test_terms_and_gradients(name: str, packed: bool, moved: Any, plan: Plan) -> None:
    model, before, reference = moved
    step = plan.step(0)
    # Some tokens stand above their cap and some below.
    above = torch.cat([log_probs(model, s) for s in step["forget"]]) > CAP
    assert above.any()
    assert not above.all()
    views = {}
    for side, members in step.items():
        batch = make_batch(model, members, 2, CPU) if packed else collate(members, 2, CPU)
        views[side] = ModelView(model, batch, Totals.of(members), reference)
    ours = Unlearning(make_method(name, ARGUMENTS[name])).terms(views)
    ours_gradients = gradients(model, ours)
    theirs = PLAIN[name](model, before, step)
    assert_same(ours, theirs)
    assert_same(ours_gradients, gradients(model, theirs))


@pytest.mark.parametrize("name", ALTERNATIVES)
def test_however_a_step_is_cut_its_terms_are_the_same(name: str, moved: Any, plan: Plan) -> None:
    model, _, reference = moved
    step, objective = plan.step(1), Unlearning(make_method(name, ARGUMENTS[name]))
    totals = {side: Totals.of(members) for side, members in step.items()}
    results = []
    for size, tokens in ((3, None), (1, None), (2, None), (3, 30)):
        terms: dict[str, float] = {}
        for micro in micro_batches(step, size, tokens=tokens, partners=plan.partners):
            assert [s.key for s in micro["forget"]] == [s.key.partition("~")[0] for s in micro["alternatives"]]
            views = {s: ModelView(model, collate(c, 2, CPU), totals[s], reference) for s, c in micro.items()}
            for term, value in objective.terms(views).items():
                terms[term] = terms.get(term, 0.0) + float(value.detach())
        results.append(terms)
    for terms in results[1:]:
        assert terms == pytest.approx(results[0], rel=1e-9)


def test_alternatives_take_turns_from_epoch_to_epoch(plan: Plan) -> None:
    turns: dict[str, list[str]] = {}
    for number in range(plan.steps):
        step = plan.step(number)
        for own, other in zip(step["forget"], step["alternatives"], strict=True):
            turns.setdefault(own.key, []).append(other.key)
    assert turns == {key: [f"{key}~0", f"{key}~1", f"{key}~0"] for key in turns}
    assert len(turns) == 7
    sequences, draws = plan.draws("alternatives")
    assert {s.key for s in sequences} == {key for keys in turns.values() for key in keys}
    assert draws == 21


@pytest.mark.parametrize("name", ALTERNATIVES)
@pytest.mark.parametrize("budget", [0, 1 << 30])
def test_a_run_that_is_cut_off_goes_on_as_if_it_had_not(
    name: str, budget: int, exact_tiny: Callable[[], Any], plan: Plan, tmp_path: Path
) -> None:
    plan = replace(plan, batch_size=4, epochs=2)

    def run(folder: Path | None, stop: int | None = None) -> tuple[list[Row], dict[str, Tensor]]:
        method = make_method(name, ARGUMENTS[name])
        model, objective = choose_trainable(exact_tiny().model, default_trainable(method)), Unlearning(method)
        cache_plan = CachePlan(model, 2, objective, plan, 2, budget)
        reference = Reference(model, cache_plan.fill(None, "fp32"), complete=cache_plan.complete)
        settings = LoopSettings(lr=1e-2, precision="fp32", micro_batch_size=2)
        history = train_loop(
            model, 2, objective, plan, settings, reference=reference, checkpoints=folder, on_step=stop_at(stop)
        )
        return without_seconds(history), copied(model)

    history, weights = run(None)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "c", stop=3)
    resumed_history, resumed_weights = run(tmp_path / "c")
    assert resumed_history == history
    assert equal(resumed_weights, weights)
