"""Settings of `attack`, checked against the attacks that they name. No torch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from medunlearn.attacks import DEFAULT, attack_class, expand, families_of, make_attack, set_arguments
from medunlearn.config import AttackSettings, check
from medunlearn.errors import ConfigError, InputError

Arguments = Mapping[str, Mapping[str, Any]]


def attack_settings(values: Mapping[str, Any]) -> AttackSettings:
    """Settings of `attack`; keys of the form ``ATTACK.KEY`` are that attack's own (``min_k.k``).

    Raises:
        ConfigError: every mistake.
        UnknownNameError: no such attack.
    """
    general = {"attacks": DEFAULT, **{key: value for key, value in values.items() if "." not in key}}
    arguments = dict(check(AttackSettings, general).arguments)
    for key, value in values.items():
        # From the right: a plug-in's own name may be a dotted path.
        owner, dot, name = key.rpartition(".")
        if dot:
            arguments[owner] = {**arguments.get(owner, {}), name: value}
    requested = check(AttackSettings, general).attacks
    names = expand(requested)
    arguments = _by_given_name(names, arguments)
    shared = check(AttackSettings, general)
    for name, own in set_arguments(requested).items():
        # A probe set stands for what a set of attacks says of probes, too.
        replaced = () if shared.probes is None else getattr(attack_class(name), "probe_settings", ())
        kept = {key: value for key, value in own.items() if key not in replaced}
        arguments[name] = {**kept, **arguments.get(name, {})}
    unused = [*_share("limit", "subjects", shared.limit, names, arguments)]
    unused += _share("samples_per_prompt", "samples", shared.samples_per_prompt, names, arguments)
    settings = check(AttackSettings, {**general, "arguments": arguments})
    problems = [
        *_probes(shared, names, arguments),
        *unused,
        *_twice(names),
        *_of_others(names, arguments),
        *_reference(settings, names),
        *_wrong(names, arguments),
    ]
    if problems:
        raise ConfigError(problems)
    return settings


def _share(
    flag: str, own: str, value: int | None, names: Sequence[str], arguments: dict[str, dict[str, Any]]
) -> Iterator[str]:
    """Give a flag's value to every attack that has a setting for it and was given none; problems if none has."""
    takers = [name for name in names if own in getattr(attack_class(name), "__dataclass_fields__", {})]
    for name in takers if value is not None else ():
        arguments[name] = {own: value, **arguments.get(name, {})}
    if value is not None and not takers:
        yield f"{flag}: none of {', '.join(names)} has a number of {own}. Leave it out"


def _probes(shared: AttackSettings, names: Sequence[str], arguments: Arguments) -> Iterator[str]:
    """A probe set that no attack takes, and settings for which it stands."""
    if shared.probes is None:
        return
    replaced = {name: getattr(attack_class(name), "probe_settings", ()) for name in names}
    if not any(replaced.values()):
        yield f"probes: none of {', '.join(names)} asks a benchmark's questions. Leave --probes out"
    for name, keys in replaced.items():
        for key in set(keys) & set(arguments.get(name, {})):
            flag = "--limit" if shared.limit is not None and key == "subjects" else f"{name}.{key}"
            yield f"{flag}: the probe set {shared.probes} says it. Leave it out"


def _by_given_name(names: Sequence[str], arguments: Arguments) -> dict[str, dict[str, Any]]:
    """Settings by the attack as it was given: those of a ``module:Class`` may also stand under its own name."""
    given = {attack_class(name).name: name for name in names}
    merged: dict[str, dict[str, Any]] = {}
    for owner, own in arguments.items():
        name = owner if owner in names else given.get(owner, owner)
        merged[name] = {**merged.get(name, {}), **own}
    return merged


def _of_others(names: Sequence[str], arguments: Arguments) -> Iterator[str]:
    for owner, own in arguments.items():
        if owner not in names:
            yield from (f"{owner}.{key}: {owner} is not among the attacks ({', '.join(names)})" for key in own)


def _twice(names: Sequence[str]) -> Iterator[str]:
    """Attacks that would be stored under one name, and families of which only one can be run."""
    for family in families_of(names):
        own = [name for name in names if attack_class(name).family.name == family.name]
        if not family.several and len(own) > 1:
            yield f"attacks={','.join(own)}: one {family.name} attack at a time; attack once for each"
    given: dict[str, str] = {}
    for name in names:
        cls = attack_class(name)
        if cls.name in given and cls.family.several:
            yield f"attacks={given[cls.name]},{name}: both are named {cls.name!r}; give one another name"
        given[cls.name] = name


def _reference(settings: AttackSettings, names: Sequence[str]) -> Iterator[str]:
    needy = [name for name in names if "reference" in getattr(attack_class(name), "needs", ())]
    if settings.reference is None:
        yield from (
            f"attack {name} needs --reference MODEL: a folder, a run or a hub id"
            for name in needy
            if name in settings.attacks
        )
    elif not needy:
        yield "--reference goes with the attack reference, which is not among the attacks"


def _wrong(names: Sequence[str], arguments: Arguments) -> Iterator[str]:
    for name in names:
        try:
            make_attack(name, arguments.get(name, {}))
        except ConfigError as error:
            yield from error.problems
        except InputError as error:
            yield str(error)
