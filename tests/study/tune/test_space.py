"""Search spaces: the rule for every method, what a user says instead, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from medunlearn.config import UnlearnSettings
from medunlearn.errors import ConfigError
from medunlearn.methods import METHODS, make_method
from medunlearn.study.presets import unlearn_settings
from medunlearn.study.tune.space import Dimension, default_space, default_values, space_of


def settings(method: str = "npo", **values: Any) -> UnlearnSettings:
    return unlearn_settings({"method": method, "split": "any", "lr": 1e-3, "epochs": 3, **values}, tiny=None)


def test_the_rule_of_the_default_space() -> None:
    space = default_space(settings())
    assert space == {
        "lr": Dimension("lr", 1e-4, 1e-2),
        "epochs": Dimension("epochs", 1, 6, whole=True),
        "beta": Dimension("beta", 0.01, 1.0),
        "alpha": Dimension("alpha", 0.1, 10.0),
    }
    # Around the values of this run, not of the class.
    assert default_space(settings(**{"npo.beta": 0.5}))["beta"] == Dimension("beta", 0.05, 5.0)


@pytest.mark.parametrize("method", METHODS)
def test_both_ends_of_every_default_range_are_valid_settings(method: str) -> None:
    values = {"method": method, "split": "any"}
    untuned = unlearn_settings(values, tiny=None)
    for dimension in default_space(untuned).values():
        assert dimension.holds(default_values(untuned)[dimension.name])
        for end in dimension.ends:
            made = unlearn_settings({**values, f"{method}.{dimension.name}": end}, tiny=None)
            make_method(method, made.arguments)


def test_ranges_stay_within_the_annotated_ones() -> None:
    chip = default_space(settings("chip"))
    assert {"lr", "epochs", "selection", "merger"}.isdisjoint(chip)  # an edit has no steps; no texts, no switches
    # But for the layers, by which an edit does nothing or too much.
    assert chip["layers"] == Dimension("layers", choices=("last:6", "all", "last:1"))
    assert default_space(settings("chip", **{"chip.layers": "all"}))["layers"].choices == ("all", "last:1")
    assert default_space(settings("manu"))["alpha"] == Dimension("alpha", 0.2, 20.0)
    assert chip["top"] == Dimension("top", 1.0, 100.0)
    assert chip["energy"] == Dimension("energy", 0.095, 1.0)
    assert default_space(settings("ngdiff"))["trust"].low == 1.0
    assert "every" not in default_space(settings("ngdiff"))
    assert "epsilon" not in default_space(settings("manu"))


def test_what_a_user_says_wins() -> None:
    section = {
        "lr": [1e-5, 1e-3],
        "npo.lr": {"low": 0.0, "high": 1e-3},
        "npo.alpha": None,
        "epochs": {"choices": [1, 5]},
        "npo.batch_size": [4, 32],
        "simnpo.beta": [1, 2],
        "gamma": [0.5, 2.0],  # of other methods
    }
    space = {dimension.name: dimension for dimension in space_of(settings(), section)}
    assert space == {
        "lr": Dimension("lr", 0.0, 1e-3, log=False),
        "epochs": Dimension("epochs", choices=(1, 5)),
        "beta": Dimension("beta", 0.01, 1.0),
        "batch_size": Dimension("batch_size", 4, 32, whole=True),
    }
    assert space["batch_size"].ends == (4, 32)


@pytest.mark.parametrize(
    ("section", "part"),
    [
        ({"npo.bta": [0, 1]}, "'beta'"),
        ({"npo.beta": 0.3}, "give [low, high]"),
        ({"npo.beta": [1, 0.1]}, "low must be below high"),
        ({"npo.beta": [0.1, float("nan")]}, "low must be below high"),
        ({"npo.beta": {"low": 0, "high": 1, "log": True}}, "in log space low is above 0"),
        ({"npo.beta": {"lo": 0, "high": 1}}, "'low'"),
        ({"npo.beta": ["a", "b"]}, "give [low, high]"),
        ({"npo.beta": {"choices": [0.1]}}, "two or more different"),
        ({"npo.beta": {"choices": [0.1, 0.1]}}, "two or more different"),
        ({"npo.batch_size": [1.5, 3]}, "whole number"),
        ({"epochs": [0, 3]}, "at least one epoch"),
        ({"epochs": {"choices": [0, 3]}}, "at least one epoch"),
        ({"lr": None, "epochs": None, "npo.alpha": None, "npo.beta": None}, "nothing is searched for npo"),
    ],
)
def test_a_range_that_is_none_is_refused(section: dict[str, Any], part: str) -> None:
    with pytest.raises(ConfigError) as error:
        space_of(settings(), section)
    assert part in str(error.value)


def test_an_end_of_a_range_is_seen() -> None:
    log = Dimension("lr", 1e-4, 1e-2)
    assert [log.edge(value) for value in (1.01e-4, 1e-3, 9.9e-3)] == ["lowest", "", "highest"]
    whole = Dimension("epochs", 1, 4, whole=True)
    assert [whole.edge(value) for value in (1, 2, 3, 4)] == ["lowest", "", "", "highest"]
    assert Dimension("variant", choices=("a", "b")).edge("a") == ""
