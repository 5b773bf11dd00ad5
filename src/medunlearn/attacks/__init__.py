"""Attacks: what an adversary can still learn from a model. Listing them loads no torch.

An attack is a dataclass that declares all of itself (:mod:`medunlearn.attacks.attack_protocol`); its fields are its
settings. The name of its family stands for all attacks of the family but published variants. An attack of your
own: a module with the class, named in :data:`ATTACKS`, or given as ``module:Class``, or declared as an entry point
in the group ``medunlearn.attacks``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from medunlearn.attacks.attack_protocol import Attack, AttackFamily, check_attack
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
    "conditional_ratio": "medunlearn.attacks.membership.likelihood_attacks:ReCaLL",
    "cumulative": "medunlearn.attacks.reconstruction.reconstruction_attack:Cumulative",
    "relearning": "medunlearn.attacks.recovery.relearning_attack:Relearning",
    "relearning_lora": "medunlearn.attacks.recovery.relearning_lora_attack:RelearningLora",
    "quantization": "medunlearn.attacks.recovery.quantization_attack:Quantization",
    "sampling": "medunlearn.attacks.recovery.sampling_attack:RepeatedSampling",
    "prompt_transforms": "medunlearn.attacks.recovery.prompt_transforms_attack:PromptTransforms",
    "image_changes": "medunlearn.attacks.recovery.image_changes_attack:ImageChanges",
    "extraction_strength": "medunlearn.attacks.recovery.extraction_strength_attack:ExtractionStrength",
    "verbatim": "medunlearn.attacks.recovery.verbatim_attack:Verbatim",
    "collateral": "medunlearn.attacks.recovery.collateral_attack:Collateral",
    "logit_lens": "medunlearn.attacks.whitebox.logit_lens_attack:LogitLens",
    "patching": "medunlearn.attacks.whitebox.patching_attack:Patching",
    "linear_probe": "medunlearn.attacks.whitebox.probe_attack:LinearProbe",
    "hidden_distance": "medunlearn.attacks.whitebox.distance_attack:HiddenDistance",
    "forgotten_patients": "medunlearn.attacks.whitebox.forgotten_patients_attack:ForgottenPatients",
    "checkpoint_difference": "medunlearn.attacks.whitebox.checkpoint_attack:CheckpointDifference",
}
DEFAULT: tuple[str, ...] = ("membership",)
"""Attacks of a command that names none."""


def attack_class(name: str) -> type[Attack]:
    """The class behind a name, a dotted path or a plug-in.

    Raises:
        UnknownNameError: names the closest attack or family.
        InputError: the name leads to something that is not an attack, or that cannot be imported.
    """
    known = names("attacks", ATTACKS)
    if ":" not in name and name not in known:
        raise UnknownNameError("attack", name, {*known, *families(), *attack_sets()})
    cls: type[Attack] = resolve("attacks", name, ATTACKS)
    check_attack(name, cls)
    owner = ATTACKS.get(cls.name)
    if name not in ATTACKS and owner is not None:
        raise InputError(
            f"attack {name!r} is named {cls.name!r}, as medunlearn's own ({owner}): give it another name."
        )
    return cls


def known_attacks() -> dict[str, type[Attack]]:
    """Registered attacks by name, without those that cannot be used (:func:`broken_attacks`)."""
    return {name: cls for name, cls in _registered().items() if not isinstance(cls, InputError)}


def broken_attacks() -> dict[str, str]:
    """Registered plug-ins that cannot be used -> the reason."""
    broken = {name: str(error) for name, error in _registered().items() if isinstance(error, InputError)}
    hidden = {
        f"{name} ({target})": f"an installed package declares it under a name of medunlearn's own "
        f"({ATTACKS[name]}), which is used. It can be given as module:Class under another name."
        for name, target in names("attacks", {}).items()
        if name in ATTACKS and target != ATTACKS[name]
    }
    return broken | hidden


def _registered() -> dict[str, type[Attack] | InputError]:
    classes: dict[str, type[Attack] | InputError] = {}
    # Ours first: a plug-in is listed after them.
    for name in dict.fromkeys((*ATTACKS, *names("attacks", ATTACKS))):
        try:
            classes[name] = attack_class(name)
        except InputError as error:
            classes[name] = error
    return classes


def make_attack(name: str, arguments: Mapping[str, Any]) -> Any:
    """Create an attack with its settings; a list, as files and flags have it, is a tuple."""
    values = {key: tuple(value) if isinstance(value, list) else value for key, value in arguments.items()}
    return made("attack", name, attack_class(name), values)


def attack_sets() -> dict[str, tuple[str, ...]]:
    """Name of a set -> its attacks, as the registered attacks declare it (:attr:`Attack.sets`)."""
    sets: dict[str, list[str]] = {}
    for name, cls in known_attacks().items():
        for own in cls.sets:
            sets.setdefault(own, []).append(name)
    return {name: tuple(members) for name, members in sets.items()}


def set_arguments(requested: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Name of an attack -> its settings in the requested sets; of several sets the last one's."""
    arguments: dict[str, dict[str, Any]] = {}
    for own in requested:
        for name in attack_sets().get(own, ()):
            arguments[name] = {**arguments.get(name, {}), **attack_class(name).sets[own]}
    return arguments


def families(given: Iterable[str] = ()) -> dict[str, AttackFamily]:
    """Families by name: those of the registered attacks in their order, then those of the given ones."""
    return _by_name([*known_attacks().values(), *map(attack_class, given)])


def _by_name(classes: Iterable[type[Attack]]) -> dict[str, AttackFamily]:
    by_name: dict[str, AttackFamily] = {}
    for cls in classes:
        by_name.setdefault(cls.family.name, cls.family)
    return by_name


def families_of(requested: Sequence[str]) -> tuple[AttackFamily, ...]:
    """Families of the requested attacks, in the order of the registry; raises like :func:`expand`."""
    own = _by_name(map(attack_class, expand(requested)))
    order = [*families(), *own]
    return tuple(sorted(own.values(), key=lambda family: order.index(family.name)))


def expand(requested: Sequence[str]) -> tuple[str, ...]:
    """Names of the requested attacks without duplicates; a family stands for all its attacks except published
    variants, a set for those that declare it.

    Raises:
        UnknownNameError: neither an attack nor a family nor a set.
    """
    expanded: list[str] = []
    known = known_attacks()
    for name in requested:
        members = [own for own, cls in known.items() if cls.family.name == name and not cls.variant]
        members += [own for own, cls in known.items() if name in cls.sets]
        if not members:
            attack_class(name)
        expanded += members or [name]
    return tuple(dict.fromkeys(expanded))
