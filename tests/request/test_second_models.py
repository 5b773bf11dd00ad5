"""The retrained model of a request and the model before stand beside the models that its attacks verify."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from medunlearn.attacks import attack_run
from medunlearn.errors import ConfigError
from medunlearn.request.measuring_models import ModelMeter
from medunlearn.request.verifying_attacks import never_tested, verifying_attacks
from medunlearn.results.runs import Run


def test_attacks_get_both_models(monkeypatch: pytest.MonkeyPatch) -> None:
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
    run, retrained, before = (cast("Run", name) for name in ("after", "retrained", "before"))
    benchmarks = cast("Any", SimpleNamespace(benchmark=None))
    ModelMeter(benchmarks, cast("Any", None), "cpu", True, None, retrained)._attacked(run)
    ModelMeter(benchmarks, cast("Any", None), "cpu", True, None, retrained, before)._attacked(run)
    ModelMeter(benchmarks, cast("Any", None), "cpu", True)._attacked(run)
    others = (["retrained"], ["before", "retrained"], [])
    assert seen == [(["after"], names) for names in others for _ in range(2)]


def test_what_no_attack_on_the_model_alone_shows_cannot_verify() -> None:
    """The older checkpoint gives all away beside an exact deletion, too; it stands among the untested parts."""
    names = verifying_attacks(["battery"])
    assert {"patching", "logit_lens"} <= {*names}
    assert not {"checkpoint_difference", "hidden_distance"} & {*names}
    with pytest.raises(ConfigError, match="checkpoint_difference"):
        verifying_attacks(["checkpoint_difference"])
    assert "checkpoint_difference" in {part.name for part in never_tested()}
