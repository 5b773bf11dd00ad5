"""Attacks: what an adversary can still learn from a model. Listing them loads no torch.

An attack is a dataclass with a ``kind`` (:mod:`medunlearn.attacks.attack_protocol`); its fields are its settings.
The name of a kind stands for all attacks of it but published variants. An attack of your own: a module with the
class, named in :data:`ATTACKS`, or given as ``module:Class``, or declared as an entry point in the group
``medunlearn.attacks``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from medunlearn.attacks.attack_protocol import Attack
from medunlearn.errors import InputError, UnknownNameError
from medunlearn.registry import made, names, resolve

ATTACKS: dict[str, str] = {
    "loss": "medunlearn.attacks.membership.likelihood_attacks:Loss",
    "zlib": "medunlearn.attacks.membership.likelihood_attacks:ZlibRatio",
    "min_k": "medunlearn.attacks.membership.likelihood_attacks:MinK",
    "min_k.muse": "medunlearn.attacks.membership.likelihood_attacks:MuseMinK",
    "min_k_pp": "medunlearn.attacks.membership.likelihood_attacks:MinKPlusPlus",
    "reference": "medunlearn.attacks.membership.likelihood_attacks:ReferenceRatio",
    "gradient_norm": "medunlearn.attacks.membership.likelihood_attacks:GradientNorm",
    "cumulative": "medunlearn.attacks.reconstruction.contexts:Cumulative",
    "relearning": "medunlearn.attacks.recovery.recovery_attacks:Relearning",
    "quantization": "medunlearn.attacks.recovery.recovery_attacks:Quantization",
    "sampling": "medunlearn.attacks.recovery.recovery_attacks:RepeatedSampling",
}

KINDS: dict[str, str] = {
    "membership": "whether a document was in the training set",
    "reconstruction": "whether naming whose a text is brings back what was forgotten",
    "relearning": "whether a few steps of training on others bring back what was forgotten",
    "quantization": "whether rounded weights bring back what was forgotten",
    "sampling": "whether many samples say what one answer does not",
}
"""Kind -> the question that attacks of this kind answer."""


def attack_class(name: str) -> type[Attack]:
    """The class behind a name, a dotted path or a plug-in.

    Raises:
        UnknownNameError: names the closest attack or kind.
        InputError: the name leads to something that is not an attack.
    """
    if ":" not in name and name not in ATTACKS and name not in names("attacks", ATTACKS):
        raise UnknownNameError("attack", name, [*names("attacks", ATTACKS), *KINDS])
    cls: type[Attack] = resolve("attacks", name, ATTACKS)
    if getattr(cls, "kind", None) not in KINDS:
        raise InputError(f"attack {name!r} must have a class attribute kind, one of: {', '.join(KINDS)}.")
    return cls


def make_attack(name: str, arguments: Mapping[str, Any]) -> Any:
    """Create an attack with its settings."""
    return made("attack", name, attack_class(name), arguments)


def kinds_of(requested: Sequence[str]) -> frozenset[str]:
    """Kinds of the requested attacks; raises like :func:`expand`."""
    return frozenset(attack_class(name).kind for name in expand(requested))


def expand(requested: Sequence[str]) -> tuple[str, ...]:
    """Names of the requested attacks without duplicates; a kind stands for all its attacks except published
    variants.

    Raises:
        UnknownNameError: neither an attack nor a kind.
    """
    expanded: list[str] = []
    for name in requested:
        if name in KINDS:
            classes = {own: attack_class(own) for own in names("attacks", ATTACKS)}
            expanded += [
                own for own, cls in classes.items() if cls.kind == name and not getattr(cls, "variant", "")
            ]
        else:
            attack_class(name)
            expanded.append(name)
    return tuple(dict.fromkeys(expanded))
