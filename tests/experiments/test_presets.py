"""Defaults by model, and keys that go to one method alone."""

from pathlib import Path
from typing import Any

import pytest

from medunlearn.config import TINY, TINY_METHODS, TINY_UNLEARN, UnlearnSettings
from medunlearn.errors import ConfigError
from medunlearn.experiments.presets import is_tiny, train_settings, unlearn_settings
from medunlearn.experiments.runs import Run
from medunlearn.methods import make_method


def unlearn(method: str = "npo", *, tiny: bool = False, **values: Any) -> UnlearnSettings:
    return unlearn_settings({"method": method, "split": "random_05", **values}, tiny=tiny)


def test_the_tiny_model_has_settings_of_its_own() -> None:
    tiny, real = train_settings({"model": "tiny"}), train_settings({"model": "org/name"})
    assert {key: getattr(tiny, key) for key in TINY} == dict(TINY)
    assert (real.lr, real.epochs, real.template) == (2e-5, 3, "clinical")


def test_what_is_given_wins_over_the_preset() -> None:
    settings = train_settings({"model": "tiny", "epochs": 1, "template": "chat"})
    assert (settings.epochs, settings.template, settings.lr) == (1, "chat", TINY["lr"])


def test_mistakes_are_told_for_tiny_too() -> None:
    with pytest.raises(ConfigError, match=r"'epoch'. Did you mean 'epochs'"):
        train_settings({"model": "tiny", "epoch": 3})


def test_a_tiny_target_is_unlearned_with_settings_of_its_own() -> None:
    settings = unlearn(tiny=True)
    own = {**TINY_UNLEARN, **TINY_METHODS.get("npo", {})}
    assert {key: getattr(settings, key) for key in own} == own
    assert unlearn(tiny=True, lr=0.5, epochs=1).lr == 0.5
    rmu = unlearn("rmu", tiny=True)
    assert (rmu.lr, rmu.arguments) == (TINY_METHODS["rmu"]["lr"], TINY_METHODS["rmu"]["arguments"])
    assert unlearn("rmu").arguments == {}


def test_arguments_add_to_the_preset() -> None:
    preset = dict(TINY_METHODS["rmu"]["arguments"])
    assert preset["layer"] == 1
    assert unlearn("rmu", tiny=True, **{"rmu.alpha": 4.0}).arguments == {**preset, "alpha": 4.0}
    assert unlearn("rmu", tiny=True, **{"rmu.layer": 2}).arguments == {**preset, "layer": 2}
    assert TINY_METHODS["rmu"]["arguments"] == preset


def test_a_key_of_a_method_is_its_own_setting_or_the_runs() -> None:
    settings = unlearn(lr=1e-4, **{"npo.beta": 0.2, "npo.lr": 3e-4, "npo.epochs": 7})
    assert settings.arguments == {"beta": 0.2}
    assert (settings.lr, settings.epochs) == (3e-4, 7)
    assert make_method("npo", settings.arguments).beta == 0.2


def test_keys_of_other_methods_are_left_to_them() -> None:
    section = {"lr": 1e-4, "npo.beta": 0.2, "simnpo.lr": 5e-4, "rmu.layer": 3}
    assert unlearn("npo", **section).arguments == {"beta": 0.2}
    assert unlearn("npo", **section).lr == 1e-4
    assert unlearn("simnpo", **section).lr == 5e-4
    assert unlearn("simnpo", **section).arguments == {}


def test_a_misspelt_method_in_a_key_is_refused() -> None:
    with pytest.raises(ConfigError) as caught:
        unlearn(**{"pno.beta": 0.2, "rnu.layer": 1, "epoch": 3})
    assert [problem.split("Known")[0] for problem in caught.value.problems] == [
        "There is no method 'pno'. Did you mean 'npo'? ",
        "There is no method 'rnu'. Did you mean 'rmu'? ",
        "There is no setting 'epoch'. Did you mean 'epochs'? ",
    ]


def test_a_misspelt_method_alone_is_refused() -> None:
    with pytest.raises(ConfigError, match="There is no method 'pno'"):
        unlearn(**{"pno.beta": 0.2})


@pytest.mark.parametrize("values", [{"arguments": {"beta": 0.3}}, {"arguments.beta": 0.3}, {"npo.beta": 0.3}])
def test_three_ways_to_give_an_argument(values: dict[str, Any]) -> None:
    assert unlearn(**values).arguments == {"beta": 0.3}


def test_an_argument_may_have_the_name_of_a_setting() -> None:
    settings = unlearn("rmu", **{"arguments.seed": 5, "rmu.seed": 6})
    assert (settings.arguments, settings.seed) == ({"seed": 5}, 6)


@pytest.mark.parametrize("value", [5, "beta", [1]])
def test_arguments_that_are_no_table(value: Any) -> None:
    with pytest.raises(ConfigError, match=r"arguments=.*: must be the method's settings"):
        unlearn(arguments=value)


def test_a_plug_in_has_keys_too() -> None:
    name = "my.package.methods:Mine"
    section = {f"{name}.beta": 0.2, f"{name}.lr": 0.5, "npo.beta": 0.9}
    settings = unlearn(name, **section)
    assert (settings.method, settings.arguments, settings.lr) == (name, {"beta": 0.2}, 0.5)
    assert unlearn("npo", **section).arguments == {"beta": 0.9}


@pytest.mark.parametrize(("key", "value"), [("layer", True), ("layer", 1.5), ("alpha", True), ("alpha", "1")])
def test_a_method_refuses_values_of_another_type(key: str, value: Any) -> None:
    kind = "int" if key == "layer" else "float"
    with pytest.raises(ConfigError, match=f"rmu.{key} must be {kind}, not {value!r}"):
        make_method("rmu", unlearn("rmu", **{f"rmu.{key}": value}).arguments)


def test_a_run_descends_from_tiny_by_its_lineage() -> None:
    assert is_tiny(Run(Path("x"), {"lineage": ["tiny", "runs/target"]}))
    assert not is_tiny(Run(Path("x"), {"lineage": ["org/tiny"]}))
