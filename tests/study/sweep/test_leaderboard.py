"""The leaderboard's file: every method that trains by itself is on it, and its settings hold."""

from __future__ import annotations

from pathlib import Path

import yaml

from medunlearn.methods import COMPOSITIONS, LOSSES, METHODS, base_of, is_edit
from medunlearn.study.presets import unlearn_settings, unlearning_method

FILE = Path(__file__).parents[3] / "examples" / "leaderboard.yaml"
NOT_METHODS = {"memorize", "dpo"}
"""One that unlearns nothing, and one whose answers are a user's."""


def test_every_method_that_trains_is_on_the_leaderboard_at_its_defaults() -> None:
    names = yaml.safe_load(FILE.read_text())["unlearn"]["methods"]
    trained = {name for name in METHODS if not is_edit(name)} - NOT_METHODS
    assert trained == set(names) & set(METHODS)
    assert all(base_of(name) in METHODS for name in names)
    for name in names:
        settings = unlearn_settings({"method": name, "split": "random_10"}, tiny=True)
        assert settings.lr >= 6e-4
        unlearning_method(settings)
    # One with parts has the preset of its method.
    assert unlearn_settings({"method": "npo+kl", "split": "random_10"}, tiny=True).lr == 6e-4
    assert LOSSES.keys() | COMPOSITIONS.keys() <= METHODS.keys()
