"""The sections ``attack`` and ``utility`` of an experiment or a run: read, and checked before anything runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from medunlearn.attacks.run import attack_settings, attackable
from medunlearn.config import AttackSettings, EpochFields, UtilitySettings, check
from medunlearn.data.benchmark import Benchmark
from medunlearn.errors import ConfigError, InputError
from medunlearn.pipeline.utility.harness import task_manager


def attack_section(values: Mapping[str, Any], own: Mapping[str, Any]) -> AttackSettings | None:
    """Settings of the attacks; None where the section is empty.

    Args:
        own: what the run says where the section does not: split, seed, weights.

    Raises:
        ConfigError: every mistake.
        UnknownNameError: an attack that there is not.
    """
    return attack_settings({**own, **values}) if values else None


def utility_section(values: Mapping[str, Any], own: Mapping[str, Any]) -> UtilitySettings | None:
    """Settings of the tasks; None where the section is empty.

    Raises:
        ConfigError: every mistake.
    """
    return check(UtilitySettings, {**own, **values}) if values else None


def epoch_sections(
    settings: EpochFields, split: str | None
) -> tuple[AttackSettings | None, UtilitySettings | None]:
    """What a run's settings ask of its epochs besides the evaluation.

    Args:
        split: the one that the epochs are evaluated on.

    Raises:
        ConfigError: every mistake in both sections.
    """
    own = {"seed": getattr(settings, "seed", 0), "weights": settings.weights}
    problems = [
        f"{name}.weights={section['weights']!r}: the model in training has {settings.weights} weights."
        for name, section in (("attack", settings.attack), ("utility", settings.utility))
        if section.get("weights", settings.weights) != settings.weights
    ]
    if split is not None and settings.attack.get("split", split) != split:
        problems.append(f"attack.split={settings.attack['split']!r}: epochs are attacked on {split!r}.")
    attack, utility = None, None
    try:
        attack = attack_section(settings.attack, own | ({"split": split} if split else {}))
    except ConfigError as error:
        problems += [f"attack: {problem}" for problem in error.problems]
    except InputError as error:
        problems.append(f"attack: {error}")
    try:
        utility = utility_section(settings.utility, own)
    except ConfigError as error:
        problems += [f"utility: {problem}" for problem in error.problems]
    if problems:
        raise ConfigError(problems)
    return attack, utility


def check_watched(benchmark: Benchmark, attack: AttackSettings | None, utility: UtilitySettings | None) -> None:
    """Whether there will be somebody to tell members from, and whether the tasks exist.

    Raises:
        InputError: a benchmark without non-members; a task that there is not, or lm-evaluation-harness is not
            installed.
    """
    if attack is not None:
        attackable(benchmark, attack)
    if utility is not None:
        task_manager(utility)
