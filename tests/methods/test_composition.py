"""Parts of methods against plain torch: retain terms, moved weights, gradient rules, and state that is kept."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from method_variants import gradients as gradients_of
from rounding import assert_same
from torch import Tensor
from training_runs import Row, copied, equal, stop_at, without_seconds

from medunlearn.errors import ConfigError, InputError, UnknownNameError
from medunlearn.methods import family_of, hyperparameters, keeps_target, make_method, method_class, retain_term_of
from medunlearn.methods.gradient_rules import GRU, RepSelect
from medunlearn.methods.perturbations import SAM
from medunlearn.models.batches import collate
from medunlearn.models.quantization import rounded
from medunlearn.models.reference import Reference
from medunlearn.training.batch_plan import Plan
from medunlearn.training.gradients import Training, gradients
from medunlearn.training.loop import LoopSettings, train_loop
from medunlearn.training.micro_batch import MicroBatch
from medunlearn.training.objectives import Unlearning
from medunlearn.training.optimizers import make_optimizer
from medunlearn.training.processes import ALONE
from medunlearn.training.views import ModelView, Totals

Make = Callable[..., Any]
CPU = torch.device("cpu")


@pytest.fixture
def plan(make_sequences: Make) -> Plan:
    return Plan({"forget": make_sequences(5, "f"), "retain": make_sequences(5, "r")}, 5, 2, 0)


def training_of(model: Any, method: Any, plan: Plan, reference: Reference, size: int = 5) -> Training:
    settings, parts = LoopSettings(lr=1e-2, precision="fp32"), dict(model.named_parameters())
    optimizer = make_optimizer(parts.values(), settings)
    how = MicroBatch(size), optimizer, parts, reference, ALONE, False
    return Training(model, 2, Unlearning(method), plan, settings, *how)


def step_gradient(model: Any, method: Any, plan: Plan, reference: Reference, size: int = 5) -> dict[str, Tensor]:
    """The gradient that the engine leaves in the parameters; the weights are as before."""
    before = copied(model)
    gradients(training_of(model, method, plan, reference, size), plan.step(0), 0)
    assert equal(copied(model), before)
    return {name: tensor.grad for name, tensor in model.named_parameters() if tensor.grad is not None}


def terms_of(model: Any, method: Any, plan: Plan, reference: Reference) -> dict[str, Tensor]:
    views = {
        side: ModelView(model, collate(members, 2, CPU), Totals.of(members), reference)
        for side, members in plan.step(0).items()
    }
    terms: dict[str, Tensor] = method.loss(views["forget"], views["retain"])
    return terms


def side_gradients(model: Any, plan: Plan, reference: Reference) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """GradDiff's gradients of the forget and of the retain term, by torch alone."""
    terms = terms_of(model, make_method("graddiff", {}), plan, reference)
    forget, retain = (gradients_of(model, {name: terms[name]}) for name in ("forget", "retain"))
    return forget, retain


def plus(*sums: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: torch.stack([own[name] for own in sums]).sum(0) for name in sums[0]}


def product(first: Mapping[str, Tensor], second: Mapping[str, Tensor]) -> float:
    return math.fsum(float((first[name] * second[name]).sum()) for name in first)


@pytest.mark.parametrize(
    ("part", "like", "weight"),
    [
        ("nll", ("graddiff", {"alpha": 2.0}), 2.0),
        ("kl", ("kl_min", {"alpha": 2.0}), 2.0),
        ("hidden", ("rmu", {"layer": 1, "variant": "wmdp", "alpha": 2.0}), 2.0),
    ],
)
def test_a_retain_term_is_that_of_the_method_which_has_it(
    part: str, like: tuple[str, dict[str, Any]], weight: float, moved: Any, plan: Plan
) -> None:
    model, _, reference = moved
    own = {f"{part}_weight": weight} | ({"hidden_layer": 1, "hidden_positions": "all"} if part == "hidden" else {})
    terms = terms_of(model, make_method(f"npo+{part}", own), plan, reference)
    npo = terms_of(model, make_method("npo", {}), plan, reference)
    other = terms_of(model, make_method(*like), plan, reference)
    (retained,) = (name for name in terms if name.startswith("retain"))
    assert terms.keys() == {"forget", retained}
    assert terms["forget"].item() == npo["forget"].item()
    assert terms[retained].item() == pytest.approx(other[next(n for n in other if "retain" in n)].item())


def test_jensen_shannon_at_every_position(moved: Any, plan: Plan) -> None:
    model, before, reference = moved
    terms = terms_of(model, make_method("ga+js", {"js_positions": "all"}), plan, reference)
    each = []
    for s in plan.step(0)["retain"]:
        ids = torch.tensor([s.ids])
        p, q = (one(input_ids=ids, use_cache=False).logits[0].softmax(1) for one in (model, before))
        middle = ((p + q) / 2).log()
        each.append(0.5 * (p * (p.log() - middle) + q * (q.log() - middle)).sum(1))
    assert terms["retain_js"].item() == pytest.approx(torch.cat(each).mean().item())


def test_a_composed_method_says_what_it_is() -> None:
    made = make_method("npo+kl+sam", {"beta": 0.5, "kl_weight": 2, "sam_rho": 0.1})
    assert made.title == "NPO + KL + SAM"
    assert hyperparameters(made) | {"beta": 0.5, "kl_weight": 2.0, "sam_rho": 0.1} == hyperparameters(made)
    assert family_of("npo+kl+sam") == "preference"
    assert (retain_term_of("npo+kl"), retain_term_of("npo+sam")) == ("divergence", "loss")
    assert keeps_target("idk_nll+js")
    assert not keeps_target("jensun+nll")
    assert method_class("gru") is method_class("graddiff+gru")
    assert make_method("idk_nll+js", {"answers": "strangers"}).answers == "strangers"
    with pytest.raises(ConfigError, match=r"sam_rho must be above 0"):
        make_method("npo+sam", {"sam_rho": 0})


@pytest.mark.parametrize("name", ["npo+kl+js", "chip+kl", "ngdiff+gru", "npo+gru+repselect"])
def test_parts_that_do_not_fit_are_refused(name: str) -> None:
    with pytest.raises(InputError):
        method_class(name)


def test_an_unknown_part_is_answered_with_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match="'sam'"):
        method_class("npo+samm")


def test_sam_is_the_gradient_uphill(moved: Any, plan: Plan) -> None:
    model, _, reference = moved
    ours = step_gradient(model, make_method("graddiff+sam", {"sam_rho": 0.3}), plan, reference)
    forget, retain = side_gradients(model, plan, reference)
    length, elsewhere = math.sqrt(product(forget, forget)), copy.deepcopy(model)
    with torch.no_grad():
        for name, tensor in elsewhere.named_parameters():
            tensor.add_(0.3 / length * forget[name])
    assert_same(ours, plus(side_gradients(elsewhere, plan, reference)[0], retain))


def test_relearn_is_the_gradient_after_a_step_of_learning(moved: Any, plan: Plan) -> None:
    model, _, reference = moved
    ours = step_gradient(model, make_method("graddiff+relearn", {"relearn_rate": 0.2}), plan, reference)
    forget, retain = side_gradients(model, plan, reference)
    elsewhere = copy.deepcopy(model)
    with torch.no_grad():
        for name, tensor in elsewhere.named_parameters():
            tensor.add_(0.2 * forget[name])  # GradDiff's forget term is minus the likelihood
    assert_same(ours, plus(side_gradients(elsewhere, plan, reference)[0], retain))


def test_int4_is_the_gradient_at_rounded_weights(moved: Any, plan: Plan) -> None:
    model, _, reference = moved
    ours = step_gradient(model, make_method("graddiff+int4", {}), plan, reference)
    elsewhere = copy.deepcopy(model)
    with torch.no_grad():
        for name, tensor in elsewhere.named_parameters():
            if tensor.dim() == 2 and "embed" not in name and "lm_head" not in name:
                tensor.copy_(rounded(tensor, "int4"))
    assert_same(ours, plus(*side_gradients(elsewhere, plan, reference)))


def test_noise_is_another_one_each_step_and_the_same_again(moved: Any, plan: Plan) -> None:
    model, _, reference = moved
    noisy = [step_gradient(model, make_method("graddiff+noise", {}), plan, reference) for _ in range(2)]
    assert equal(*noisy)
    assert not equal(noisy[0], step_gradient(model, make_method("graddiff", {}), plan, reference))


def test_gru_takes_off_what_raises_the_retain_loss(moved: Any, plan: Plan) -> None:
    model, _, reference = moved
    forget, retain = side_gradients(model, plan, reference)
    method = make_method("graddiff+gru", {"gru_gamma": 0.5})
    against = {name: -gradient for name, gradient in forget.items()}
    for first, kept in ((retain, None), (against, 0.0)):
        rule = GRU(gamma=0.5)
        # The running mean begins with half of the first gradient.
        mean = {name: 0.5 * gradient for name, gradient in first.items()}
        share = min(0.0, product(forget, mean)) / product(mean, mean)
        expected = {name: gradient - share * mean[name] for name, gradient in forget.items()}
        ours = rule.combine(_Step(forget, first))
        assert_same(ours, expected, terms=100_000)
        if kept is not None:
            assert math.sqrt(product(ours, ours)) < 1e-9
        second = {name: 0.5 * value + 0.5 * retain[name] for name, value in mean.items()}
        rule.combine(_Step(forget, retain))
        assert_same(dict(rule.state_dict()), second)
    assert_same(step_gradient(model, method, plan, reference), GRU(gamma=0.5).combine(_Step(forget, retain)))


@dataclass
class _Step:
    forget: Mapping[str, Tensor]
    retain: Mapping[str, Tensor]
    number: int = 0

    @property
    def parts(self) -> Mapping[str, Tensor]:
        return {}

    def dot(self, first: Mapping[str, Tensor], second: Mapping[str, Tensor]) -> float:
        return product(first, second)


def test_repselect_scales_the_first_components_down(moved: Any, plan: Plan) -> None:
    source = torch.Generator().manual_seed(0)
    left, right = (torch.linalg.qr(torch.randn(n, 8, generator=source, dtype=torch.float64))[0] for n in (12, 8))
    sizes = torch.tensor([8.0, 4.0, 2.0, 1.0, 0.5, 0.25, 0.2, 0.1], dtype=torch.float64)
    collapsed = RepSelect(share=0.375).collapse((left * sizes) @ right.T)
    # Three of eight: down to the third, squared: 2 (2/8), 2 (2/4), 2.
    scaled = torch.tensor([0.5, 1.0, 2.0, *sizes[3:].tolist()], dtype=torch.float64)
    assert torch.allclose(collapsed, (left * scaled) @ right.T)
    zero = torch.zeros(3, 3)
    assert torch.equal(RepSelect().collapse(zero), zero)
    model, _, reference = moved
    forget, _ = side_gradients(model, plan, reference)
    ours = step_gradient(model, make_method("repselect", {}), plan, reference)
    for name, gradient in forget.items():
        assert torch.allclose(ours[name], RepSelect().collapse(gradient) if gradient.dim() == 2 else gradient)


@pytest.mark.parametrize("name", ["npo+kl+sam", "graddiff+relearn", "gru", "repselect", "pdu", "idk_nll+js+int4"])
def test_however_a_step_is_cut_its_gradient_is_the_same(
    name: str, moved: Any, plan: Plan, make_sequences: Make
) -> None:
    model, _, reference = moved
    if name.startswith("idk"):
        pairs = zip(plan.sides["forget"], make_sequences(5, "a"), strict=True)
        plan.partners = {"alternatives": {own.key: [other] for own, other in pairs}}
    whole, *cut = (step_gradient(model, make_method(name, {}), plan, reference, size) for size in (5, 2, 1))
    for own in cut:
        assert_same(own, whole)


@pytest.mark.parametrize("name", ["pdu", "gru", "npo_sam"])
def test_a_run_that_is_cut_off_keeps_the_methods_state(
    name: str, exact_tiny: Make, plan: Plan, tmp_path: Path
) -> None:
    plan = Plan(plan.sides, 2, 2, 0)

    def run(folder: Path | None, stop: int | None = None) -> tuple[list[Row], dict[str, Tensor]]:
        model = exact_tiny().model
        settings = LoopSettings(lr=1e-2, precision="fp32")
        how: dict[str, Any] = {"reference": Reference(model), "checkpoints": folder, "on_step": stop_at(stop)}
        history = train_loop(model, 2, Unlearning(make_method(name, {})), plan, settings, **how)
        return without_seconds(history), copied(model)

    history, weights = run(None)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "c", stop=3)
    resumed_history, resumed_weights = run(tmp_path / "c")
    assert resumed_history == history
    assert equal(resumed_weights, weights)


@pytest.mark.parametrize("variant", ["target", "openunlearning"])
def test_the_dual_variable_follows_the_budget(variant: str, exact_tiny: Make, plan: Plan) -> None:
    model = exact_tiny().model
    method = make_method("pdu", {"variant": variant, "budget": 0.1, "alpha": 0.5, "rate": 0.7})
    settings = LoopSettings(lr=1e-2, precision="fp32", schedule="constant")
    history = train_loop(model, 2, Unlearning(method), plan, settings, reference=Reference(model))
    dual = 0.5
    for row in history:
        excess = row["loss/measured_excess"]
        loss = excess if variant == "openunlearning" else row["loss/retain"] / dual
        assert row["loss/retain"] == pytest.approx(dual * loss)
        assert row["loss"] == pytest.approx(row["loss/forget"] + row["loss/retain"])
        dual = max(0.0, dual + 0.7 * (excess - 0.1))
    assert float(method.state_dict()["dual"]) == pytest.approx(dual)
    assert (history[0]["loss/measured_excess"] == 0) == (variant == "target")


OUTSIDE = '''
from dataclasses import dataclass

from medunlearn.methods.perturbations import SAM


@dataclass(frozen=True)
class Spared:
    """Gradient ascent at sharp places that leaves each tensor's retain gradient alone. Source: a test."""

    needs_whole = False
    weight: float = 1.0
    rho: float = 0.1

    @property
    def perturbation(self):
        return SAM(rho=self.rho)

    @property
    def gradient_rule(self):
        return self

    def loss(self, forget, retain):
        return {"forget": -self.weight * forget.nll(), "retain": retain.nll()}

    def combine(self, step):
        return {name: own - step.retain[name] for name, own in step.forget.items()}
'''


def test_a_method_from_outside_uses_the_hooks_in_thirty_lines(
    moved: Any, plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "spared_ascent.py").write_text(OUTSIDE)
    monkeypatch.syspath_prepend(tmp_path)
    assert len(OUTSIDE.strip().splitlines()) <= 30
    model, _, reference = moved
    ours = step_gradient(model, make_method("spared_ascent:Spared", {}), plan, reference)
    with_part = make_method("spared_ascent:Spared+kl", {"weight": 2.0, "kl_weight": 3.0})
    assert terms_of(model, with_part, plan, reference).keys() == {"forget", "retain_kl"}
    forget, retain = side_gradients(model, plan, reference)
    elsewhere = copy.deepcopy(model)
    with torch.no_grad():
        for name, tensor in elsewhere.named_parameters():
            tensor.add_(0.1 / math.sqrt(product(forget, forget)) * forget[name])
    away = side_gradients(elsewhere, plan, reference)[0]
    assert_same(ours, {name: gradient - retain[name] for name, gradient in away.items()})
    assert SAM().rho == 0.01
