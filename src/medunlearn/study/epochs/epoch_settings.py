"""Settings of a run's epoch evaluations, validated before anything runs; attacks and tasks are loaded only if
used.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from medunlearn.config import AttackSettings, EpochFields, EvaluateSettings, TrainSettings, UtilitySettings, check
from medunlearn.data.benchmark import Benchmark
from medunlearn.errors import ConfigError, InputError

if TYPE_CHECKING:
    from medunlearn.results.runs import Run

T = TypeVar("T")
_EPOCH_FIELDS = {
    "evaluate": {},
    "attack": {},
    "utility": {},
    "keep_epochs": False,
    "select": "last",
    "stop_early": 0,
    "validation": None,
    "watch": {},
    "stop": "none",
}
"""Settings that need ``evaluate_every``, with the value that leaves each out."""


def collect(problems: list[str], section: str, make: Callable[[], T]) -> T | None:
    """The result of ``make``; or None, with its problems appended to the list, prefixed with the section's name."""
    try:
        return make()
    except InputError as error:
        mistakes = error.problems if isinstance(error, ConfigError) else [str(error)]
        problems += [f"{section}: {problem}" for problem in mistakes]
    return None


def epoch_settings(settings: EpochFields, split: str | None) -> EvaluateSettings | None:
    """Settings of the epoch evaluations on a split; None without any.

    Args:
        split: the run's own; None if ``evaluate`` names one, or if it is the excluded split.

    Raises:
        ConfigError: lists every mistake, including settings without effect.
    """
    if problems := _without_effect(settings):
        raise ConfigError(problems)
    on_a_split = settings.evaluate or settings.attack or settings.utility
    if not settings.evaluate_every or (has_measures(settings) and not on_a_split):
        return None
    section, weights = settings.evaluate, settings.weights
    if split is not None and section.get("split", split) != split:
        problems.append(
            f"evaluate.split={section['split']!r}: the epochs are evaluated on the run's own, {split!r}."
        )
    if section.get("weights", weights) != weights:
        problems.append(f"evaluate.weights={section['weights']!r}: the model in training has {weights} weights.")
    default = split or getattr(settings, "without", None)
    defaults = {"seed": getattr(settings, "seed", 0), "weights": weights, **({"split": default} if default else {})}
    defaults["other_texts"] = getattr(settings, "other_texts", False)
    checked = collect(problems, "evaluate", lambda: _checked_evaluation({**defaults, **section}))
    try:
        epoch_sections(settings, section.get("split", default))
    except ConfigError as error:
        problems += error.problems
    if problems:
        raise ConfigError(problems)
    return checked


def _checked_evaluation(values: Mapping[str, Any]) -> EvaluateSettings:
    from medunlearn.probes.score import check_names

    checked = check(EvaluateSettings, values)
    check_names(checked.metrics)
    return checked


def _without_effect(settings: EpochFields) -> list[str]:
    names = [name for name, nothing in _EPOCH_FIELDS.items() if getattr(settings, name, nothing) != nothing]
    if not settings.evaluate_every:
        return [f"{name} is about evaluated epochs: give --evaluate-every 1 too." for name in names]
    if isinstance(settings, TrainSettings) and settings.validation is None:
        return [
            f"{name} goes by the validation loss: give --validation too (part=validation, or holdout)."
            for name in ("select", "stop_early")
            if name in names
        ]
    return []


def has_measures(settings: EpochFields) -> bool:
    """True if a run has measurements after its epochs besides evaluations on a split."""
    if isinstance(settings, TrainSettings):
        return settings.validation is not None or bool(settings.watch)
    return getattr(settings, "stop", "none") != "none"


def evaluations(settings: EpochFields) -> int:
    """Number of evaluations in a run of all its epochs, including the target's."""
    return 1 + -(-settings.epochs // settings.evaluate_every) if settings.evaluate_every else 0


def check_epochs(settings: EpochFields, benchmark: Benchmark, target: Run | None) -> None:
    """:func:`epoch_settings`, after checking that benchmark and machine provide what they need.

    Raises:
        InputError: an unknown split or task; no non-member documents for membership attacks; a target trained
            without documents; lm-evaluation-harness is not installed.
    """
    evaluation = epoch_settings(settings, getattr(settings, "split", None))
    if evaluation is None:
        return
    benchmark.split(evaluation.split)
    attack, utility = epoch_sections(settings, evaluation.split)
    check_watched(benchmark, attack, utility)
    if attack is not None and target is not None:
        from medunlearn.attacks.attack_run import AttackBattery

        for job in AttackBattery(benchmark, attack).jobs.values():
            job.check_run(target)


def attack_section(values: Mapping[str, Any], defaults: Mapping[str, Any]) -> AttackSettings | None:
    """Settings of the attacks, with the run's own split, seed and weights as defaults; None for an empty section.

    Raises:
        ConfigError: every mistake.
        UnknownNameError: no such attack.
    """
    if not values:
        return None
    from medunlearn.attacks.attack_settings import attack_settings

    return attack_settings({**defaults, **values})


def utility_section(values: Mapping[str, Any], defaults: Mapping[str, Any]) -> UtilitySettings | None:
    """Settings of the tasks; None if the section is empty. Raises ConfigError: every mistake."""
    return check(UtilitySettings, {**defaults, **values}) if values else None


def epoch_sections(
    settings: EpochFields, split: str | None
) -> tuple[AttackSettings | None, UtilitySettings | None]:
    """Settings of the attacks and tasks after each epoch, which are evaluated on ``split``.

    Raises:
        ConfigError: every mistake in both sections.
    """
    defaults = {"seed": getattr(settings, "seed", 0), "weights": settings.weights}
    problems = [
        f"{name}.weights={section['weights']!r}: the model in training has {settings.weights} weights."
        for name, section in (("attack", settings.attack), ("utility", settings.utility))
        if section.get("weights", settings.weights) != settings.weights
    ]
    if split is not None and settings.attack.get("split", split) != split:
        problems.append(f"attack.split={settings.attack['split']!r}: epochs are attacked on {split!r}.")
    on = defaults | ({"split": split} if split else {})
    attack = collect(problems, "attack", lambda: attack_section(settings.attack, on))
    utility = collect(problems, "utility", lambda: utility_section(settings.utility, defaults))
    if attack is not None and settings.sharding != "none":
        from medunlearn.attacks import families_of

        if others := sorted(family.name for family in families_of(attack.attacks) if not family.sharded):
            problems.append(
                f"attack.attacks: {', '.join(others)} changes a model in memory, and this one is divided among "
                "processes. Attack the finished run (`medunlearn attack`), or leave it out."
            )
    if problems:
        raise ConfigError(problems)
    return attack, utility


def check_watched(benchmark: Benchmark, attack: AttackSettings | None, utility: UtilitySettings | None) -> None:
    """Check that the benchmark has what the attacks need, and that the tasks exist.

    Raises:
        InputError: a benchmark without non-members; an unknown task; lm-evaluation-harness is not installed.
    """
    if attack is not None:
        from medunlearn.attacks.attack_run import AttackBattery

        AttackBattery(benchmark, attack).check()
    if utility is not None:
        from medunlearn.probes.utility.harness import task_manager

        task_manager(utility)
