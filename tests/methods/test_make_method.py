"""Methods by name: hyperparameters are checked, all mistakes at once; what a method trains by default."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import FrozenInstanceError, dataclass, fields
from typing import Annotated, Any

import pytest
from pydantic import Field

from medunlearn.attacks import ATTACKS, attack_class
from medunlearn.errors import ConfigError, UnknownNameError
from medunlearn.methods import ALTERNATIVES, METHODS, hyperparameters, is_edit, make_method, method_class
from medunlearn.methods.editing import EditMethod
from medunlearn.methods.protocol import AlternativesMethod, LossMethod, default_trainable
from medunlearn.registry import choices_of, made, ranges_of
from medunlearn.training.trainable import choose_trainable, trained


@pytest.mark.parametrize("name", METHODS)
def test_each_can_be_made_and_trains_or_edits(name: str) -> None:
    method = make_method(name, {})
    interface = EditMethod if is_edit(name) else AlternativesMethod if name in ALTERNATIVES else LossMethod
    assert isinstance(method, interface)
    assert "Source:" in (type(method).__doc__ or "")


def test_defaults_stand_and_arguments_replace_them() -> None:
    assert make_method("npo", {}) == make_method("npo", {"beta": 0.1, "alpha": 1.0})
    assert make_method("npo", {"beta": 0.5}).beta == 0.5
    whole = make_method("npo", {"alpha": 2})
    assert whole.alpha == 2.0
    assert isinstance(whole.alpha, float)


def test_a_method_cannot_be_changed() -> None:
    with pytest.raises(FrozenInstanceError):
        make_method("npo", {}).beta = 3


def test_all_mistakes_come_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        make_method("rmu", {"layr": 3, "layer": 2.5, "alpha": "much", "seed": 1})
    assert len(caught.value.problems) == 3
    assert "'layer'" in caught.value.problems[0]
    assert "rmu.layer must be int, not 2.5" in caught.value.problems
    assert "rmu.alpha must be float, not 'much'" in caught.value.problems


@pytest.mark.parametrize("value", [True, None, "0.1"])
def test_a_number_is_a_number(value: Any) -> None:
    with pytest.raises(ConfigError, match=re.escape("npo.beta must be float")):
        make_method("npo", {"beta": value})


NAN, INFINITE = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("method", "key", "outside", "inside"),
    [
        ("npo", "beta", (-1, 0, NAN, INFINITE), (1e-6, 5)),
        ("npo", "alpha", (-0.1, INFINITE), (0, 3)),
        ("simnpo", "beta", (0, -4.5), (0.1,)),
        ("simnpo", "delta", (-1,), (0, 1)),
        ("simnpo", "gamma", (-0.125,), (0, 1)),
        ("graddiff", "gamma", (-1, NAN), (0, 2)),
        ("graddiff", "alpha", (-1,), (0,)),
        ("kl_min", "alpha", (-1,), (0,)),
        ("ngdiff", "every", (0, -3), (1,)),
        ("ngdiff", "trust", (0.5, 0), (1, 10)),
        ("rmu", "layer", (-1,), (0, 40)),
        ("rmu", "coefficient", (-2, NAN), (0, None)),
        ("rmu", "alpha", (-1,), (0, None)),
        ("manu", "alpha", (0, 100), (0.1, 99)),
        ("manu", "epsilon", (0, -1), (1e-9,)),
        ("manu", "threshold", (-1,), (0,)),
        ("chip", "top", (0, 101), (100, 1)),
        ("chip", "energy", (0, 1.1), (1, 0.5)),
        ("chip", "vision", (-0.1, 1.5), (0, 1)),
    ],
)
def test_a_setting_stays_in_its_range(
    method: str, key: str, outside: tuple[float, ...], inside: tuple[float | None, ...]
) -> None:
    for value in outside:
        with pytest.raises(ConfigError, match=rf"^{method}\.{key} must be .*, not "):
            make_method(method, {key: value})
    for allowed in inside:
        make_method(method, {key: allowed})
    assert ranges_of(method_class(method))[key]


def test_every_number_of_ours_has_a_range() -> None:
    """A new method or attack declares one, or says here that any number will do."""
    classes: dict[str, Any] = {name: method_class(name) for name in METHODS}
    classes |= {name: attack_class(name) for name in ATTACKS}
    numbers = {
        (name, field.name)
        for name, cls in classes.items()
        for field in fields(cls)
        if type(field.default) in (int, float)
    }
    assert numbers - {(name, key) for name, cls in classes.items() for key in ranges_of(cls)} == {
        ("rmu", "seed"),
        ("adaptive_rmu", "seed"),
    }


@dataclass(frozen=True)
class Bounded:
    weight: Annotated[float, Field(gt=0, le=1)] = 1.0
    free: float = 0.0


def test_a_plug_in_declares_ranges_as_we_do() -> None:
    assert made("method", "bounded", Bounded, {"weight": 1, "free": -5}).free == -5.0
    with pytest.raises(ConfigError) as caught:
        made("method", "bounded", Bounded, {"weight": 2, "free": NAN})
    assert caught.value.problems == [
        "bounded.weight must be above 0 and at most 1, not 2",
        "bounded.free must be a finite number, not nan",
    ]


def test_an_unknown_name_is_answered_with_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match="Did you mean 'graddiff'"):
        method_class("grad_diff")


@dataclass(frozen=True)
class Outside:
    weight: float = 1.0

    def loss(self, forget: Any, retain: Any) -> Any:
        return {"forget": self.weight * forget.nll()}


class NoDataclass:
    pass


def test_a_method_from_outside_by_dotted_path(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys
    import types

    module = types.ModuleType("elsewhere")
    module.Outside, module.NoDataclass = Outside, NoDataclass  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "elsewhere", module)
    assert make_method("elsewhere:Outside", {"weight": 2}).weight == 2.0
    with pytest.raises(ConfigError, match="must be a dataclass"):
        make_method("elsewhere:NoDataclass", {})


def test_a_setting_of_several_values_takes_these_alone() -> None:
    with pytest.raises(ConfigError, match=re.escape("rmu.variant must be openunlearning or wmdp, not 'tofu'")):
        make_method("rmu", {"variant": "tofu"})
    assert choices_of(method_class("simnpo")) == {"variant": ("paper", "openunlearning")}


@pytest.mark.parametrize(
    ("arguments", "coefficient", "alpha"),
    [
        ({}, 2.0, 1.0),
        ({"variant": "wmdp"}, 6.5, 1200.0),
        ({"variant": "wmdp", "alpha": 3}, 6.5, 3.0),
        ({"coefficient": 0, "alpha": None}, 0.0, 1.0),
    ],
)
def test_rmu_takes_the_coefficients_of_its_variant(
    arguments: dict[str, Any], coefficient: float, alpha: float
) -> None:
    facts = hyperparameters(make_method("rmu", arguments))
    assert (facts["coefficient"], facts["alpha"]) == (coefficient, alpha)


def test_a_direction_follows_the_run() -> None:
    assert make_method("rmu", {}, seed=3).seed == 3
    assert make_method("rmu", {"seed": 5}, seed=3).seed == 5
    assert make_method("npo", {}, seed=3) == make_method("npo", {})


def test_what_is_trained_by_default(tiny: Callable[[], Any]) -> None:
    others = METHODS.keys() - {"rmu", "adaptive_rmu", "redirect"}
    assert {default_trainable(make_method(name, {})) for name in others} == {"all"}
    model = tiny().model
    choose_trainable(model, default_trainable(make_method("rmu", {"layer": 1, "variant": "wmdp"})))
    assert list(trained(model)) == [f"model.layers.{layer}.mlp.down_proj.weight" for layer in (0, 1)]
    # OpenUnlearning's optimizer has all parameters; those above the layer get no gradient there.
    choose_trainable(model, default_trainable(make_method("rmu", {"layer": 1})))
    names = set(dict(model.named_parameters()))
    assert set(trained(model)) == {name for name in names if "layers.2" not in name and name != "model.norm.weight"}
