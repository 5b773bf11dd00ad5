"""Settings with the defaults that fit the model: the paper's for real ones, ours for the tiny one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from medunlearn.config import TINY, TINY_LR, TINY_METHODS, TINY_UNLEARN, TrainSettings, UnlearnSettings, check
from medunlearn.experiments.runs import Run


def train_settings(values: Mapping[str, Any]) -> TrainSettings:
    """Settings of `train`.

    Raises:
        ConfigError: every mistake.
    """
    preset = TINY if values.get("model") == "tiny" else {}
    return check(TrainSettings, {**preset, **values})


def unlearn_settings(values: Mapping[str, Any], *, tiny: bool) -> UnlearnSettings:
    """Settings of `unlearn`; keys of the form ``METHOD.KEY`` go to that method alone.

    ``npo.beta`` is NPO's own hyperparameter, ``npo.lr`` a setting of the run for NPO; keys of other methods are
    ignored, so that one section can serve several methods.

    Raises:
        ConfigError: every mistake.
    """
    method = str(values.get("method", ""))
    general = {key: value for key, value in values.items() if "." not in key or key.startswith("arguments.")}
    own = {key.partition(".")[2]: value for key, value in values.items() if key.partition(".")[0] == method}
    own = {key: value for key, value in own.items() if key}
    preset: dict[str, Any] = {**TINY_UNLEARN, "lr": TINY_LR, **TINY_METHODS.get(method, {})} if tiny else {}
    arguments = {
        **preset.pop("arguments", {}),
        **general.pop("arguments", {}),
        **{key: value for key, value in own.items() if key not in UnlearnSettings.model_fields},
    }
    settings = {key: value for key, value in own.items() if key in UnlearnSettings.model_fields}
    return check(UnlearnSettings, {**preset, **general, **settings, "arguments": arguments})


def is_tiny(run: Run) -> bool:
    """Whether a run's model descends from the tiny one."""
    return "tiny" in run.info["lineage"]
