"""Settings with the defaults that fit the model: the paper's for real ones, ours for the tiny one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from medunlearn.config import TINIES, TrainSettings, UnlearnSettings, check
from medunlearn.errors import ConfigError, InputError, UnknownNameError, unknown_name
from medunlearn.methods import METHODS, is_edit, make_method
from medunlearn.pipeline.editing.settings import idle_settings, without_idle
from medunlearn.pipeline.named_presets import Preset, preset
from medunlearn.registry import names
from medunlearn.results.runs import Run


def train_settings(values: Mapping[str, Any]) -> TrainSettings:
    """Settings of `train`; ``preset`` names defaults, and what else is given wins over them.

    Raises:
        ConfigError: every mistake.
    """
    given = with_sections(values)
    problems: list[str] = []
    chosen = _preset_of(given, tiny=TINIES.get(str(values.get("model"))), problems=problems)
    try:
        usual = dict(chosen.train) if chosen else {}
        if isinstance(given.get("watch", {}), Mapping) and "watch" in usual:
            given["watch"] = {**usual["watch"], **given.get("watch", {})}
        checked = check(TrainSettings, {**usual, **given})
    except ConfigError as error:
        problems += error.problems
    if problems:
        raise ConfigError(problems)
    return checked


def _preset_of(given: dict[str, Any], *, tiny: str | None, problems: list[str]) -> Preset | None:
    """The preset that values name, which is taken out of them; tiny models have their own if none is named."""
    name = given.pop("preset", None) or tiny
    if name is None:
        return None
    try:
        return preset(str(name))
    except UnknownNameError as error:
        problems.append(str(error))
        return None


def unlearn_settings(values: Mapping[str, Any], *, tiny: bool | str | None, shared: bool = True) -> UnlearnSettings:
    """Settings of `unlearn`; keys of the form ``METHOD.KEY`` go to that method alone, ``preset`` names defaults.

    ``npo.beta`` is NPO's own hyperparameter, ``npo.lr`` a setting of the run for NPO; keys of other methods are
    ignored, so that one section can serve several methods. ``arguments.beta`` is the same as ``npo.beta``. What is
    about training is ignored by a method that edits the weights.

    Args:
        tiny: the preset of the tiny model behind the run (:func:`is_tiny`), ``tiny`` where it is True.
        shared: False where the values are for this method alone: what it has no use for is then a mistake.

    Raises:
        ConfigError: every mistake, a key of a method that does not exist among them.
    """
    method = str(values.get("method", ""))
    values = with_sections(values)
    problems = list(_strangers(values, method))
    general = {key: value for key, value in values.items() if "." not in key}
    own = _below(values, method)
    named = _preset_of(general, tiny="tiny" if tiny is True else tiny or None, problems=problems)
    defaults = named.for_method(method) if named else {}
    given = general.pop("arguments", None) or {}
    if not isinstance(given, Mapping):
        problems.append(f"arguments={given!r}: must be the method's settings, e.g. arguments={{beta: 0.1}}")
        given = {}
    arguments = {
        **defaults.pop("arguments", {}),
        **given,
        **_below(values, "arguments"),
        **{key: value for key, value in own.items() if key not in UnlearnSettings.model_fields},
    }
    settings = {key: value for key, value in own.items() if key in UnlearnSettings.model_fields}
    if is_edit(method):
        problems += idle_settings(method, general, settings, shared=shared)
        defaults, general, settings = (without_idle(one) for one in (defaults, general, settings))
        defaults["epochs"] = 0
    try:
        checked = check(UnlearnSettings, {**defaults, **general, **settings, "arguments": arguments})
    except ConfigError as error:
        problems += error.problems
    if problems:
        raise ConfigError([*problems, *_wrong_arguments(method, arguments)])
    return checked


SECTIONS = ("evaluate", "attack", "utility", "watch")


def with_sections(values: Mapping[str, Any]) -> dict[str, Any]:
    """The same, with the keys ``evaluate.KEY`` in ``evaluate``, and so for every section of a run's settings."""
    found = dict(values)
    for name in SECTIONS:
        if below := _below(found, name):
            found = {key: value for key, value in found.items() if not key.startswith(f"{name}.")}
            found[name] = {**(found.get(name) or {}), **below}
    return found


def _wrong_arguments(method: str, arguments: Mapping[str, Any]) -> list[str]:
    """What the method itself will refuse, so that it stands in the same list as the rest."""
    try:
        make_method(method, dict(arguments))
    except ConfigError as error:
        return error.problems
    except InputError as error:
        return [str(error)] if method else []
    return []


def _below(values: Mapping[str, Any], owner: str) -> dict[str, Any]:
    """The keys ``OWNER.KEY``, without the owner; a plug-in's name may hold points itself."""
    return {key.removeprefix(f"{owner}."): value for key, value in values.items() if key.startswith(f"{owner}.")}


def _strangers(values: Mapping[str, Any], method: str) -> Iterator[str]:
    """Keys of methods that do not exist: most likely a misspelt name."""
    known = names("methods", METHODS)
    theirs = [key for key in values if "." in key and not key.startswith((f"{method}.", "arguments."))]
    for owner in sorted({key.partition(".")[0] for key in theirs if ":" not in key} - set(known)):
        yield unknown_name("method", owner, known)


def is_tiny(run: Run) -> str | None:
    """The preset of the tiny model that a run's model descends from; None if it is of another."""
    return next((TINIES[name] for name in run.info["lineage"] if name in TINIES), None)
