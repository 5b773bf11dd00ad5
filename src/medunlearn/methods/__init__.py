"""Unlearning methods: one file per method, and the registry of their names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from medunlearn.errors import InputError, UnknownNameError
from medunlearn.methods.composition import composed, parts_of, retain_part_of
from medunlearn.methods.families import OTHER, declaration
from medunlearn.registry import made, names, resolve

LOSSES: dict[str, str] = {
    "adaptive_rmu": "medunlearn.methods.rmu:AdaptiveRMU",
    "ceu": "medunlearn.methods.ceu:CEU",
    "ga": "medunlearn.methods.ga:GradientAscent",
    "graddiff": "medunlearn.methods.graddiff:GradDiff",
    "kl_min": "medunlearn.methods.kl_min:KLMin",
    "memorize": "medunlearn.methods.memorize:Memorize",
    "ngdiff": "medunlearn.methods.ngdiff:NGDiff",
    "npo": "medunlearn.methods.npo:NPO",
    "pdu": "medunlearn.methods.pdu:PDU",
    "rmu": "medunlearn.methods.rmu:RMU",
    "satimp": "medunlearn.methods.wga:SatImp",
    "simnpo": "medunlearn.methods.simnpo:SimNPO",
    "undial": "medunlearn.methods.undial:UNDIAL",
    "wga": "medunlearn.methods.wga:WGA",
}
"""Methods that train on the forget and the retain set."""
ALTERNATIVES: dict[str, str] = {
    "altpo": "medunlearn.methods.dpo:AltPO",
    "counterfactual": "medunlearn.methods.counterfactual:Counterfactual",
    "dpo": "medunlearn.methods.dpo:DPO",
    "idk_dpo": "medunlearn.methods.dpo:IdkDPO",
    "idk_nll": "medunlearn.methods.idk_nll:IdkNLL",
    "jensun": "medunlearn.methods.jensun:JensUn",
    "redirect": "medunlearn.methods.redirect:Redirect",
}
"""Methods that train on alternative answers besides."""
EDITS: dict[str, str] = {
    "chip": "medunlearn.methods.chip:CHIP",
    "manu": "medunlearn.methods.manu:MANU",
    "merge": "medunlearn.methods.merge:Merge",
}
"""Methods that change weights without training."""
COMPOSITIONS: dict[str, str] = {
    "gru": "graddiff+gru",
    "npo_sam": "npo+sam",
    "repselect": "ga+repselect",
}
"""Published methods that are another one with parts (:mod:`medunlearn.methods.composition`)."""
METHODS: dict[str, str] = {**LOSSES, **ALTERNATIVES, **EDITS, **COMPOSITIONS}


def method_class(name: str) -> type:
    """The class behind a name, a dotted path, a plug-in, or one of these with parts (``npo+kl``).

    Raises:
        UnknownNameError: names the nearest valid name.
        InputError: parts that do not fit the method.
    """
    name = COMPOSITIONS.get(name, name)
    cls: type = resolve("methods", base_of(name), METHODS)
    return composed(name, cls) if parts_of(name) else cls


def base_of(name: str) -> str:
    """The name of the method that parts are added to; the name itself without parts."""
    return COMPOSITIONS.get(name, name).partition("+")[0]


def is_known(name: str) -> bool:
    """True for a registered method, alone or with parts."""
    return base_of(name) in names("methods", METHODS)


def is_edit(name: str) -> bool:
    """True if a method edits weights without training; False for an unknown name."""
    try:
        return getattr(method_class(name), "kind", None) == "edit"
    except InputError:
        return False


def family_of(name: str) -> str:
    """The family that a method declares (:mod:`medunlearn.methods.families`), without importing it."""
    return declaration(_target(name), "family", OTHER)


def retain_term_of(name: str) -> str:
    """The term for the retain set that a method declares, without importing it; "" if it declares none."""
    part = retain_part_of(COMPOSITIONS.get(name, name))
    return declaration(_target(name), "retain_term", "") if part is None else part


def keeps_target(name: str) -> bool:
    """True if a method's retain term keeps what the target does, so that no answer of the retain set is learned."""
    return retain_term_of(name) in ("divergence", "hidden states")


def _target(name: str) -> str:
    name = base_of(name)
    return names("methods", METHODS).get(name, name)


def make_method(name: str, arguments: Mapping[str, Any], seed: int | None = None) -> Any:
    """Create a method with its hyperparameters.

    Args:
        arguments: hyperparameter -> value; others keep the paper's default.
        seed: the run's seed; used by a method with a field ``seed`` that the arguments do not set.

    Raises:
        UnknownNameError: no such method.
        ConfigError: unknown hyperparameters or values of the wrong type, all at once.
    """
    cls = method_class(name)
    seeded = {} if seed is None or "seed" not in getattr(cls, "__dataclass_fields__", ()) else {"seed": seed}
    return made("method", name, cls, {**seeded, **arguments})


def hyperparameters(method: Any) -> dict[str, Any]:
    """A method's hyperparameters with their values, including derived ones."""
    return {field.name: getattr(method, field.name) for field in fields(method)}


__all__ = [
    "ALTERNATIVES",
    "COMPOSITIONS",
    "EDITS",
    "LOSSES",
    "METHODS",
    "UnknownNameError",
    "base_of",
    "family_of",
    "hyperparameters",
    "is_edit",
    "is_known",
    "keeps_target",
    "make_method",
    "method_class",
    "names",
    "retain_term_of",
]
