"""The retrained model of a request stands beside the models that its attacks verify."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from medunlearn.attacks import attack_run
from medunlearn.request.measuring_models import ModelMeter
from medunlearn.results.runs import Run


def test_attacks_get_the_retrained_model(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = list[Any]()

    def attack_each(models: Any, *args: Any, others: Any, **how: Any) -> Any:
        seen.append((models, others))
        return SimpleNamespace(models=[SimpleNamespace(record=None)])

    def attack_folder(run: Run, benchmark: Any, settings: Any, others: Any) -> Any:
        seen.append(([run], others))

    monkeypatch.setattr(attack_run, "attack_each", attack_each)
    monkeypatch.setattr(attack_run, "attack_folder", attack_folder)
    monkeypatch.setattr(attack_run, "attack_is_done", lambda folder: False)
    monkeypatch.setattr("medunlearn.request.measuring_models._without_ranks_only", lambda settings: settings)
    monkeypatch.setattr(ModelMeter, "attacking_settings", SimpleNamespace())
    monkeypatch.setattr(ModelMeter, "attacks", {})
    run, retrained = cast("Run", "after"), cast("Run", "retrained")
    benchmarks = cast("Any", SimpleNamespace(benchmark=None))
    ModelMeter(benchmarks, cast("Any", None), "cpu", True, None, retrained)._attacked(run)
    ModelMeter(benchmarks, cast("Any", None), "cpu", True)._attacked(run)
    assert seen == [(["after"], ["retrained"])] * 2 + [(["after"], [])] * 2
