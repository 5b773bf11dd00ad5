"""Learning rate and epochs where neither a user nor a preset gave them."""

from __future__ import annotations

import pytest

from medunlearn.data.benchmark import Benchmark
from medunlearn.study.presets import unlearn_settings
from medunlearn.study.sized_defaults import fit_to_model, forget_items, rate_of_size


def test_a_large_model_and_few_patients_get_sixty_steps_at_a_rate_of_their_size(hospital: Benchmark) -> None:
    bare = unlearn_settings({"method": "npo", "split": "random_10"}, tiny=None)
    fitted = fit_to_model(bare, 135_000_000, hospital)
    assert fitted.lr == rate_of_size(135_000_000) == pytest.approx(1.37e-4, rel=0.01)
    steps = -(-forget_items(hospital, bare) // bare.batch_size)
    assert steps * (fitted.epochs - 1) < 60 <= steps * fitted.epochs
    assert fit_to_model(bare, None, hospital).lr == bare.lr


def test_what_is_given_stays(hospital: Benchmark) -> None:
    own = unlearn_settings({"method": "npo", "split": "random_10", "lr": 3e-5, "npo.epochs": 2}, tiny=None)
    tiny = unlearn_settings({"method": "npo", "split": "random_10"}, tiny=True)
    edit = unlearn_settings({"method": "manu", "split": "random_10"}, tiny=None)
    for settings in (own, tiny, edit):
        assert fit_to_model(settings, 135_000_000, hospital) == settings
