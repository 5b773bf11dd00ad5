"""Presets (named settings of a paper or a model size), and the settings of `train` and `unlearn`.

A preset is a set of defaults: every key given with ``preset=NAME`` overrides it. A run records the resolved keys,
so it can be understood and repeated without the preset. A paper's presets are in its folder's ``presets.yaml``,
those of the tiny models in ours.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from medunlearn.config import TINIES, TrainSettings, UnlearnSettings, check
from medunlearn.config.reading import without_prefix
from medunlearn.errors import ConfigError, InputError, UnknownNameError, unknown_name
from medunlearn.methods import METHODS, base_of, is_edit, is_known, make_method
from medunlearn.methods.editing import EditMethod
from medunlearn.methods.protocol import AlternativesMethod, LossMethod
from medunlearn.paper import installed_papers
from medunlearn.registry import names
from medunlearn.results.record import FILE, RunRecord

if TYPE_CHECKING:
    from medunlearn.results.runs import Run

Values = Mapping[str, Any]

EDIT_SETTINGS = frozenset(
    {
        *("method", "split", "arguments", "seed"),
        *("train_on", "template", "context", "long_notes", "max_length"),
        *("micro_batch_size", "weights"),
    }
)
"""Settings of `unlearn` that a method which edits weights uses; all others are about training."""
TRAINING_SETTINGS = frozenset(UnlearnSettings.model_fields) - EDIT_SETTINGS


RETRAINED = "retrained"
"""Value of a method's setting ``reference``: the retrained model of the experiment."""


@dataclass(frozen=True)
class Preset:
    """Defaults for a model of some size.

    Attributes:
        about: one sentence: purpose and source.
        methods: method -> its own settings of `unlearn`; ``arguments`` are the method's hyperparameters.
        processes: number of devices for which the batch is split; another number changes no result.
    """

    about: str
    train: Values = field(default_factory=dict)
    unlearn: Values = field(default_factory=dict)
    methods: Mapping[str, Values] = field(default_factory=dict)
    processes: int = 1

    def for_method(self, method: str) -> dict[str, Any]:
        """Settings of `unlearn` for one method; one with parts has its own, or those of the method alone."""
        return {**self.unlearn, **self.methods.get(method, self.methods.get(base_of(method), {}))}


@cache
def presets() -> Mapping[str, Preset]:
    """All presets by name: the papers', then those of the tiny models."""
    yaml_text = (files("medunlearn") / "study" / "presets.yaml").read_text(encoding="utf-8")
    tiny = {name: Preset(**values) for name, values in yaml.safe_load(yaml_text).items()}
    papers = {}
    for file in filter(None, (paper.file("presets.yaml") for paper in installed_papers())):
        for name, values in yaml.safe_load(file.read_text(encoding="utf-8")).items():
            if not name.startswith("."):
                papers[name] = Preset(**{key: _resolve(key, value, tiny) for key, value in values.items()})
    return {**papers, **tiny}


def _resolve(section: str, values: Any, tiny: Mapping[str, Preset]) -> Any:
    """A section, based on that section of a tiny preset if it has ``like: tiny``."""
    if not isinstance(values, Mapping) or "like" not in values:
        return values
    section_values = {key: value for key, value in values.items() if key != "like"}
    return {**getattr(tiny[values["like"]], section), **section_values}


def preset(name: str) -> Preset:
    """A preset by its name. Raises UnknownNameError: no such preset; names the closest one."""
    if name not in presets():
        raise UnknownNameError("preset", name, presets())
    return presets()[name]


def train_settings(values: Mapping[str, Any]) -> TrainSettings:
    """Settings of `train`; ``preset`` names defaults, which other keys override.

    Raises:
        ConfigError: every mistake.
    """
    settings = with_sections(values)
    problems: list[str] = []
    preset = _preset_of(settings, tiny=TINIES.get(str(values.get("model"))), problems=problems)
    try:
        usual = {**_adopted_rendering(values.get("model")), **(preset.train if preset else {})}
        if isinstance(settings.get("watch", {}), Mapping) and "watch" in usual:
            settings["watch"] = {**usual["watch"], **settings.get("watch", {})}
        checked = check(TrainSettings, {**usual, **settings})
    except ConfigError as error:
        problems += error.problems
    if problems:
        raise ConfigError(problems)
    # epochs=0 trains nothing at all.
    no_pretraining = checked.epochs == 0 and "pretrain_epochs" not in settings
    return checked.model_copy(update={"pretrain_epochs": 0}) if no_pretraining else checked


def _adopted_rendering(model: Any) -> dict[str, Any]:
    """Template and context of an adopted run that a training run starts from, which are kept."""
    if not isinstance(model, str | Path) or not (Path(model) / FILE).exists():
        return {}
    record = RunRecord.read(Path(model))
    return {name: record.rendering[name] for name in ("template", "context")} if record.verb == "adopt" else {}


def _preset_of(settings: dict[str, Any], *, tiny: str | None, problems: list[str]) -> Preset | None:
    """Remove and return the preset named in the values; tiny models have a default preset."""
    name = settings.pop("preset", None) or tiny
    if name is None:
        return None
    try:
        return preset(str(name))
    except UnknownNameError as error:
        problems.append(str(error))
        return None


def unlearn_settings(values: Mapping[str, Any], *, tiny: bool | str | None, shared: bool = True) -> UnlearnSettings:
    """Settings of `unlearn`; keys ``METHOD.KEY`` apply only to that method, ``preset`` names defaults.

    ``npo.beta`` is NPO's own hyperparameter, ``npo.lr`` a setting of the run for NPO; keys of other methods are
    ignored, so that one section can serve several methods. ``arguments.beta`` equals ``npo.beta``. Training
    settings are ignored for a method that edits the weights.

    Args:
        tiny: preset of the run's tiny model (:func:`is_tiny`); True means ``tiny``.
        shared: False if the values are only for this method, so that unused ones are mistakes.

    Raises:
        ConfigError: lists every mistake, including keys of unknown methods.
    """
    method = str(values.get("method", ""))
    values = with_sections(values)
    # Keys of methods that do not exist: most likely a misspelt name.
    methods = names("methods", METHODS)
    dotted = [key for key in values if "." in key and not key.startswith((f"{method}.", "arguments."))]
    owners = {key.partition(".")[0] for key in dotted if ":" not in key}
    # The method's name may be a path, module:attribute.
    hint = f" Settings of {method} begin with its whole name: --{method}.KEY." if ":" in method else ""
    unknown = sorted(owner for owner in owners if not is_known(owner))
    problems = [unknown_name("method", owner, methods) + hint for owner in unknown]
    general = {key: value for key, value in values.items() if "." not in key}
    method_values = _below(values, method)
    base_preset = _preset_of(general, tiny="tiny" if tiny is True else tiny or None, problems=problems)
    defaults = base_preset.for_method(method) if base_preset else {}
    section = general.pop("arguments", None) or {}
    if not isinstance(section, Mapping):
        problems.append(f"arguments={section!r}: must be the method's settings, e.g. arguments={{beta: 0.1}}")
        section = {}
    arguments = {
        **defaults.pop("arguments", {}),
        **section,
        **_below(values, "arguments"),
        **{key: value for key, value in method_values.items() if key not in UnlearnSettings.model_fields},
    }
    settings = {key: value for key, value in method_values.items() if key in UnlearnSettings.model_fields}
    if is_edit(method):
        problems += _useless_for_edit(method, general, settings, shared=shared)
        defaults, general, settings = (
            {key: value for key, value in values.items() if key in EDIT_SETTINGS}
            for values in (defaults, general, settings)
        )
        defaults["epochs"] = 0
    try:
        checked = check(UnlearnSettings, {**defaults, **general, **settings, "arguments": arguments})
    except ConfigError as error:
        problems += error.problems
    if problems:
        raise ConfigError([*problems, *_wrong_arguments(method, arguments)])
    return checked


def _useless_for_edit(method: str, general: Values, method_values: Values, *, shared: bool) -> list[str]:
    """Problems: run settings (unless shared) and method settings that have no effect on an edit."""
    keys = [f"{method}.{key}" for key in method_values if key in TRAINING_SETTINGS]
    keys += [] if shared else [key for key in general if key in TRAINING_SETTINGS]
    why = f"{method} edits the weights once, without training, so that there are no steps, epochs or learning rate"
    return [f"{key}: {why}. Leave it out." for key in keys]


SECTIONS = ("evaluate", "attack", "utility", "watch")


def with_sections(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values with keys ``evaluate.KEY`` moved into ``evaluate``, and so for every section of a run's
    settings.
    """
    folded = dict(values)
    for name in SECTIONS:
        if below := without_prefix(f"{name}.", folded):
            folded[name] = {**(folded.get(name) or {}), **below}
    return folded


def _wrong_arguments(method: str, arguments: Mapping[str, Any]) -> list[str]:
    """Errors of the method's constructor, to be reported with the other problems."""
    try:
        make_method(method, dict(arguments))
    except ConfigError as error:
        return error.problems
    except InputError as error:
        return [str(error)] if method else []
    return []


def unlearning_method(settings: UnlearnSettings) -> LossMethod | AlternativesMethod | EditMethod:
    """The method named in the settings: one that trains, or one that edits the weights.

    Raises:
        ConfigError: it is neither.
    """
    method = make_method(settings.method, settings.arguments, settings.seed)
    if not isinstance(method, LossMethod | AlternativesMethod | EditMethod):
        raise ConfigError(
            [
                f"Method {settings.method!r} has no loss(forget, retain) -> terms and no edit(model, forget, "
                "retain); see medunlearn.methods.protocol and medunlearn.methods.editing."
            ]
        )
    return method


def _below(values: Mapping[str, Any], owner: str) -> dict[str, Any]:
    """The keys ``OWNER.KEY``, without the owner; a plug-in's name may contain dots."""
    return {key.removeprefix(f"{owner}."): value for key, value in values.items() if key.startswith(f"{owner}.")}


def tiny_preset(model: Run | str | Path) -> str | None:
    """:func:`is_tiny` of a run or its folder; None for a model that is not a run."""
    if not isinstance(model, str | Path):
        return is_tiny(model)
    return _tiny_ancestor(RunRecord.read(Path(model))) if (Path(model) / FILE).exists() else None


def is_tiny(run: Run) -> str | None:
    """The preset of the tiny model that a run's model descends from; None if it does not."""
    return _tiny_ancestor(run.info)


def _tiny_ancestor(record: RunRecord) -> str | None:
    return next((TINIES[name] for name in record.lineage if name in TINIES), None)


def with_retrained(settings: UnlearnSettings, retrained: Path | None) -> UnlearnSettings:
    """The settings with ``retrained`` replaced by the folder of the retrained run."""
    if retrained is None or settings.arguments.get("reference") != RETRAINED:
        return settings
    return settings.model_copy(update={"arguments": {**settings.arguments, "reference": str(retrained)}})
