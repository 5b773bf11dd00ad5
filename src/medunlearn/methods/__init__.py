"""Unlearning methods: one file a method, and the dictionary that names them."""

from __future__ import annotations

from typing import Any

from medunlearn.errors import InputError, UnknownNameError
from medunlearn.registry import made, names, resolve

LOSSES: dict[str, str] = {
    "ga": "medunlearn.methods.ga:GradientAscent",
    "graddiff": "medunlearn.methods.graddiff:GradDiff",
    "kl_min": "medunlearn.methods.kl_min:KLMin",
    "ngdiff": "medunlearn.methods.ngdiff:NGDiff",
    "npo": "medunlearn.methods.npo:NPO",
    "rmu": "medunlearn.methods.rmu:RMU",
    "simnpo": "medunlearn.methods.simnpo:SimNPO",
}
"""Methods that train."""
EDITS: dict[str, str] = {
    "chip": "medunlearn.methods.chip:CHIP",
    "manu": "medunlearn.methods.manu:MANU",
}
"""Methods that change weights without training."""
METHODS: dict[str, str] = {**LOSSES, **EDITS}


def method_class(name: str) -> type:
    """The class behind a name, a dotted path or a plug-in.

    Raises:
        UnknownNameError: says the nearest right name.
    """
    found: type = resolve("methods", name, METHODS)
    return found


def is_edit(name: str) -> bool:
    """Whether a method changes weights without training; False for one that there is not."""
    try:
        return getattr(method_class(name), "kind", None) == "edit"
    except InputError:
        return False


def make_method(name: str, arguments: dict[str, Any]) -> Any:
    """A method with its hyperparameters.

    Args:
        arguments: hyperparameter -> value; what is left out keeps the paper's default.

    Raises:
        UnknownNameError: no such method.
        ConfigError: unknown hyperparameters or values of the wrong type, all at once.
    """
    return made("method", name, method_class(name), arguments)


__all__ = ["EDITS", "LOSSES", "METHODS", "UnknownNameError", "is_edit", "make_method", "method_class", "names"]
