"""A tuning before it runs: validated settings, and the space of each method."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from medunlearn.config import TINIES, EvaluateSettings, TuneSettings, UnlearnSettings, check
from medunlearn.config.experiments import refuse_file_of_other_verb
from medunlearn.config.reading import merged
from medunlearn.data.benchmark import Benchmark
from medunlearn.data.records import SIDES
from medunlearn.data.storage import sha256_of_json
from medunlearn.errors import ConfigError, unknown_name
from medunlearn.methods import METHODS, is_edit
from medunlearn.probes.question_selection import half_of
from medunlearn.registry import names
from medunlearn.study.epochs.epoch_settings import collect, epoch_settings
from medunlearn.study.part_check import check_unlearning, outline_with
from medunlearn.study.presets import unlearn_settings, with_retrained
from medunlearn.study.sweep import sweep_plan
from medunlearn.study.sweep.sweep_plan import Sweep
from medunlearn.study.tune.objective import RANKS
from medunlearn.study.tune.space import Space, space_facts, space_of
from medunlearn.study.tune.study import check_installed

Half = Literal["choosing", "reporting"]
HALVES: tuple[Half, ...] = get_args(Half)
_BY_TUNE = ("evaluate_every", "evaluate", "attack", "utility", "keep_epochs", "select", "stop_early", "stop")
"""Settings of an unlearning run that tuning sets itself."""
_SHARED = (
    *("name", "out", "benchmark", "train", "retrain", "unlearn", "evaluate", "seeds", "seed"),
    *("on", "processes", "slurm"),
)


@dataclass(frozen=True)
class Tuning:
    """A validated tuning.

    Attributes:
        base: the sweep of the same models, with their settings.
        spaces: method -> its space.
    """

    settings: TuneSettings
    base: Sweep
    spaces: Mapping[str, Space]
    notes: tuple[str, ...] = ()

    @property
    def methods(self) -> tuple[str, ...]:
        return self.base.methods

    @property
    def seeds(self) -> tuple[int, ...]:
        return self.base.seeds

    @property
    def fold(self) -> str:
        """The fold on which trials are selected: the first one evaluated."""
        return self.evaluating("choosing").folds[0]

    @property
    def share(self) -> float:
        """A method's budget: number of trials, or FLOPs."""
        whole = self.settings.runs or self.settings.flops or 0.0
        return whole // len(self.methods) if self.settings.runs else whole / len(self.methods)

    def evaluating(self, half: Half, weights: str | None = None) -> EvaluateSettings:
        """Evaluation settings for one half; trials are evaluated only on the first fold."""
        values: dict[str, Any] = {"seed": self.seeds[0], **self.settings.evaluate, "split": self.settings.split}
        measures = check(EvaluateSettings, values).metrics or ("default",)
        values |= {"subjects": half, "metrics": list(dict.fromkeys((*measures, *self._ranks)))}
        if half == "choosing":
            values["folds"] = list(check(EvaluateSettings, values).folds[:1])
        return check(EvaluateSettings, values if weights is None else {**values, "weights": weights})

    @property
    def space_texts(self) -> dict[str, dict[str, str]]:
        """Method -> name of a setting -> its range."""
        return {method: {d.name: d.text for d in space} for method, space in self.spaces.items()}

    @property
    def budget(self) -> str:
        """The budget of each method, in words."""
        return f"{self.share:g} {'trials' if self.settings.runs else 'FLOPs'} a method"

    def subject_counts(self, benchmark: Benchmark) -> dict[str, dict[str, int]]:
        """Half -> side -> number of subjects with questions, before any limit."""
        split = benchmark.split(self.settings.split)
        return {
            half: {side: len(half_of(benchmark, split, side, self.evaluating(half))) for side in SIDES}
            for half in HALVES
        }

    @property
    def _ranks(self) -> tuple[str, ...]:
        return (RANKS,) if "ranks" in self.settings.axes or not self.settings.retrain else ()

    def unlearning(
        self, method: str, params: Mapping[str, Any], seed: int, *, trial: bool, retrained: Path | None = None
    ) -> UnlearnSettings:
        """Unlearning settings of a method with given parameters; for a trial with an evaluation of each epoch."""
        section = {key: value for key, value in self.settings.unlearn.items() if key != "methods"}
        values = {"seed": seed, **section, "method": method, "split": self.settings.split}
        values |= {f"{method}.{name}": value for name, value in params.items()}
        tiny = TINIES.get(str(self.settings.train.get("model")))
        settings = unlearn_settings(values, tiny=tiny)
        if trial and not is_edit(method):
            choosing = self.evaluating("choosing", settings.weights).model_dump(mode="json", exclude_defaults=True)
            settings = unlearn_settings({**values, "evaluate_every": 1, "evaluate": choosing}, tiny=tiny)
        return with_retrained(settings, retrained)

    def measuring(self, method: str) -> EvaluateSettings:
        """Evaluation settings of a method's trials, and of target and retrained model for comparison."""
        settings = self.unlearning(method, {}, self.seeds[0], trial=True)
        return epoch_settings(settings, settings.split) or self.evaluating("choosing", settings.weights)

    def measures(self) -> tuple[EvaluateSettings, ...]:
        """Evaluation settings of the trials: usually one, several if methods have different weight types."""
        different = {self.measuring(method).model_dump_json(): self.measuring(method) for method in self.methods}
        return tuple(different.values())

    def study_key(self, method: str, benchmark: Benchmark) -> str:
        """Hash of everything that a method's trials depend on, except the budget."""
        settings, seed = self.settings, self.seeds[0]
        return sha256_of_json(
            [
                benchmark.fingerprint,
                self.base.training(seed).model_dump(mode="json"),
                self.unlearning(method, {}, seed, trial=True).model_dump(mode="json"),
                self.measuring(method).model_dump(mode="json"),
                space_facts(self.spaces[method]),
                [settings.retrain, settings.halving, *settings.axes, settings.utility_floor, settings.rank_level],
            ]
        )


def plan_from(tuning: Path | str | dict[str, Any], jobs: int | None, overrides: Mapping[str, Any]) -> Tuning:
    """:func:`plan` for a file or settings with overrides; an override ``seed`` replaces all ``seeds``."""
    if jobs is not None and jobs < 1:
        raise ConfigError(["--jobs must be at least 1"])
    values = merged(tuning, overrides)
    return plan({key: value for key, value in values.items() if key != "seeds" or "seed" not in overrides})


def plan(values: Mapping[str, Any]) -> Tuning:
    """Validate a tuning before anything runs.

    Raises:
        ConfigError: every mistake in every section, at once.
        InputError: Optuna is not installed.
    """
    check_installed()
    refuse_file_of_other_verb("tune", values)
    fields = TuneSettings.model_fields
    problems = [unknown_name("setting", key, fields) for key in values if key not in fields]
    values = {key: value for key, value in values.items() if key in fields}
    settings = collect(problems, "tune", lambda: check(TuneSettings, values))
    content = values.get("unlearn")
    section: dict[str, Any] = dict(content) if isinstance(content, Mapping) else {}
    for key in [key for key in section if key.rpartition(".")[2] in (*_BY_TUNE, "search")]:
        section.pop(key)
        problems.append(f"unlearn.{key}: tuning sets it; leave it out")
    evaluation = values.get("evaluate")
    if isinstance(evaluation, Mapping) and "subjects" in evaluation:
        problems.append("evaluate.subjects: tuning asks each half in turn; leave it out")
    shared = {key: values[key] for key in _SHARED if key in values} | {"unlearn": section}
    if "split" in values:
        shared["splits"] = [values["split"]]
    try:
        base = sweep_plan.plan(shared)
    except ConfigError as error:
        told = [problem.replace("splits", "split") for problem in error.problems]
        raise ConfigError(list(dict.fromkeys([*problems, *told]))) from None
    if settings is None or problems:
        raise ConfigError(list(dict.fromkeys(problems)))
    checked = Tuning(settings.model_copy(update={"unlearn": section}), base, {})
    spaces = _spaces(problems, checked)
    problems += _budget_problems(checked)
    if base.opened is not None:
        problems += _half_problems(checked, base.opened)
    if problems:
        raise ConfigError(list(dict.fromkeys(problems)))
    return Tuning(checked.settings, base, spaces, _notes(checked))


def _spaces(problems: list[str], tuning: Tuning) -> dict[str, Space]:
    """Each method's space, with both ends validated like the run's settings."""
    settings, spaces, seed = tuning.settings, dict[str, Space](), tuning.seeds[0]
    method_names = names("methods", METHODS)
    for key in settings.space:
        owner = next((m for m in tuning.methods if key.startswith(f"{m}.")), None)
        if owner is None and ("." in key or ":" in key):
            name = key.rpartition(".")[0]
            there = (
                "is not among unlearn.methods"
                if name in method_names
                else unknown_name("method", name, method_names)
            )
            problems.append(f"space.{key}: {name} {there}" if name in method_names else f"space.{key}: {there}")
    outline = outline_with([], tuning.base.training(seed))
    serves = set[str]()
    for method in tuning.methods:
        untuned = tuning.unlearning(method, {}, seed, trial=False)
        space = collect(problems, "space", lambda: space_of(untuned, settings.space))  # noqa: B023
        if space is None:
            continue
        spaces[method] = space
        serves |= {dimension.name for dimension in space}
        for dimension in space:
            for end in dimension.ends:
                params = {dimension.name: end}
                plans = collect(
                    problems,
                    "space",
                    lambda: tuning.unlearning(method, params, seed, trial=True),  # noqa: B023
                )
                if plans is not None:
                    collect(problems, "space", lambda: check_unlearning(plans, outline))  # noqa: B023
    for key, content in settings.space.items():
        whole = len(spaces) == len(tuning.methods)
        if whole and "." not in key and ":" not in key and content is not None and key not in serves:
            problems.append(f"space.{key}: no method of this tuning has this setting")
    return spaces


def _budget_problems(tuning: Tuning) -> Iterator[str]:
    runs, count = tuning.settings.runs, len(tuning.methods)
    if runs is not None and runs < count:
        yield (
            f"runs={runs}: fewer than the {count} methods, each of which has its untuned run; give {count} or more"
        )


def _half_problems(tuning: Tuning, benchmark: Benchmark) -> Iterator[str]:
    """Drawn questions, and sides with fewer than two subjects, which cannot be split into halves."""
    if benchmark.undecided:
        yield f"benchmark: {benchmark.undecided}: whatever is tuned on it is chosen by chance"
    split = benchmark.split(tuning.settings.split)
    for side in SIDES:
        if not half_of(benchmark, split, side, tuning.evaluating("reporting")):
            yield (
                f"split: fewer than two subjects of the {side} set have questions, so that none is left to report "
                "on. Take a larger split."
            )


def _notes(tuning: Tuning) -> tuple[str, ...]:
    settings, notes = tuning.settings, list[str]()
    runs, count = settings.runs, len(tuning.methods)
    if runs is not None and runs % count:
        notes.append(
            f"{runs % count} of {runs} runs are left over: each of the {count} methods has {runs // count}."
        )
    if not settings.retrain and settings.rank_level is None:
        notes.append(
            "Without a retrained model the level of unseen subjects is that of exchangeable alternatives. A model "
            "that knows which values are usual ranks more facts first; where that is known, give it: rank_level."
        )
    return tuple(notes)
