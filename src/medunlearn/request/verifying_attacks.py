"""Attacks that verify a deletion, from the registry of attacks. No torch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from medunlearn.attacks import attack_class, attack_sets, expand, families, known_attacks
from medunlearn.config import ForgetSettings
from medunlearn.config.forgetting import USUAL
from medunlearn.errors import ConfigError, UnknownNameError
from medunlearn.request.case.evidence import Untested

Verifying = Mapping[str, Any]
"""Name of an attack as it was given -> its class."""


def verifying_attacks(requested: Sequence[str]) -> Verifying:
    """The attacks of a battery, in the order in which they were named; of a set those that can verify a deletion.

    Raises:
        UnknownNameError: no such attack.
        ConfigError: an attack that cannot verify a deletion, or two of one name.
    """
    known = known_attacks()
    able = [name for name, cls in known.items() if cls.family.verifies]
    names, sets = list[str](), attack_sets()
    for name in requested:
        if name == USUAL:
            names += (own for own, cls in known.items() if cls.in_battery)
        elif name in sets:
            names += (own for own in sets[name] if known[own].family.verifies)
        elif ":" not in name and name not in {*known, *families()}:
            raise UnknownNameError("attack for --battery", name, [*able, *sets, USUAL])
        else:
            names += expand([name])
    attacks = {name: attack_class(name) for name in names}
    problems = [
        f"battery: {name} cannot verify a deletion; these can: {', '.join(able)}, and your own module:Class"
        for name, cls in attacks.items()
        if not cls.family.verifies
    ]
    by_name = {cls.name: name for name, cls in attacks.items()}
    problems += [
        f"battery: {by_name[cls.name]} and {name} are both named {cls.name!r}; give one another name"
        for name, cls in attacks.items()
        if by_name[cls.name] != name
    ]
    if problems:
        raise ConfigError(problems)
    return attacks


def with_battery(settings: ForgetSettings) -> ForgetSettings:
    """The settings with the names of all attacks of the battery. Raises like :func:`verifying_attacks`."""
    return settings.model_copy(update={"battery": tuple(verifying_attacks(settings.battery))})


def untested_attacks(attacks: Verifying, missing: Mapping[str, str]) -> Iterator[Untested]:
    """Usual attacks that were left out, and attacks of the battery of which something is missing.

    Args:
        missing: name of an attack -> the reason.
    """
    named = {cls.name: cls for cls in attacks.values()}
    usual = {cls.name: cls for cls in verifying_attacks([USUAL]).values()}
    for name, cls in {**usual, **named}.items():
        reason = missing.get(name) if name in named else "it was left out (--battery)"
        if reason is not None:
            yield Untested(name=name, title=cls.title, reason=reason)


def never_tested() -> list[Untested]:
    """Parts that no battery covers, as the registered attacks declare them."""
    parts = dict.fromkeys(part for cls in known_attacks().values() for part in cls.untested)
    return [Untested(name=name, title=title, reason=reason) for name, title, reason in parts]
