"""Attacks: what an adversary can still learn from a model. The dictionary names them; listing them loads no torch.

An attack is a dataclass with a ``kind`` (:mod:`medunlearn.attacks.protocol`); its fields are its settings. The name
of a kind asks for all attacks of it. One of your own: a module with the class, named here, or given as
``module:Class``, or declared as an entry point in the group ``medunlearn.attacks``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from medunlearn.attacks.protocol import Attack
from medunlearn.errors import InputError, UnknownNameError
from medunlearn.registry import made, names, resolve

ATTACKS: dict[str, str] = {
    "loss": "medunlearn.attacks.membership.loss:Loss",
    "zlib": "medunlearn.attacks.membership.zlib_ratio:ZlibRatio",
    "min_k": "medunlearn.attacks.membership.min_k:MinK",
    "min_k_pp": "medunlearn.attacks.membership.min_k_pp:MinKPlusPlus",
    "reference": "medunlearn.attacks.membership.reference:Reference",
    "gradient_norm": "medunlearn.attacks.membership.gradient_norm:GradientNorm",
    "cumulative": "medunlearn.attacks.reconstruction.cumulative:Cumulative",
}

KINDS: dict[str, str] = {
    "membership": "whether a document was in the training set",
    "reconstruction": "whether naming whose a text is brings back what was forgotten",
}
"""Kind -> the question that attacks of this kind answer."""


def attack_class(name: str) -> type[Attack]:
    """The class behind a name, a dotted path or a plug-in.

    Raises:
        UnknownNameError: says the nearest right name; kinds count as names.
        InputError: the name leads to something that is no attack.
    """
    if ":" not in name and name not in ATTACKS and name not in names("attacks", ATTACKS):
        raise UnknownNameError("attack", name, [*names("attacks", ATTACKS), *KINDS])
    found = resolve("attacks", name, ATTACKS)
    if getattr(found, "kind", None) not in KINDS:
        raise InputError(f"attack {name!r} must have a class attribute kind, one of: {', '.join(KINDS)}.")
    cls: type[Attack] = found
    return cls


def make_attack(name: str, arguments: Mapping[str, Any]) -> Any:
    """An attack with its settings.

    Raises:
        UnknownNameError: no such attack.
        ConfigError: unknown settings, or values of the wrong type, all at once.
        InputError: a value out of its range.
    """
    return made("attack", name, attack_class(name), arguments)


def kinds_of(asked: Sequence[str]) -> frozenset[str]:
    """The kinds of the attacks asked for, by names or kinds.

    Raises:
        UnknownNameError: neither an attack nor a kind.
    """
    return frozenset(attack_class(name).kind for name in expand(asked))


def expand(asked: Sequence[str]) -> tuple[str, ...]:
    """Names of attacks, each once; a kind stands for all attacks of that kind.

    Raises:
        UnknownNameError: neither an attack nor a kind.
    """
    found: list[str] = []
    for name in asked:
        if name in KINDS:
            found += [one for one in names("attacks", ATTACKS) if attack_class(one).kind == name]
        else:
            attack_class(name)
            found.append(name)
    return tuple(dict.fromkeys(found))
