"""Unlearning methods: one file a method, and the dictionary that names them."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any

from medunlearn.errors import ConfigError, UnknownNameError, unknown_name
from medunlearn.lookup import names, resolve

METHODS: dict[str, str] = {
    "ga": "medunlearn.methods.ga:GradientAscent",
    "graddiff": "medunlearn.methods.graddiff:GradDiff",
    "kl_min": "medunlearn.methods.kl_min:KLMin",
    "ngdiff": "medunlearn.methods.ngdiff:NGDiff",
    "npo": "medunlearn.methods.npo:NPO",
    "rmu": "medunlearn.methods.rmu:RMU",
    "simnpo": "medunlearn.methods.simnpo:SimNPO",
}


def method_class(name: str) -> type:
    """The class behind a name, a dotted path or a plug-in.

    Raises:
        UnknownNameError: says the nearest right name.
    """
    found: type = resolve("methods", name, METHODS)
    return found


def make_method(name: str, arguments: dict[str, Any]) -> Any:
    """A method with its hyperparameters.

    Args:
        arguments: hyperparameter -> value; what is left out keeps the paper's default.

    Raises:
        UnknownNameError: no such method.
        ConfigError: unknown hyperparameters or values of the wrong type, all at once.
    """
    cls = method_class(name)
    if not is_dataclass(cls):
        raise ConfigError([f"Method {name!r} must be a dataclass, so that its hyperparameters have names."])
    types = {field.name: type(field.default) for field in fields(cls)}
    problems = [unknown_name(f"{name} setting", key, types) for key in arguments if key not in types]
    checked: dict[str, Any] = {}
    for key, value in arguments.items():
        kind = types.get(key)
        if kind is float and isinstance(value, int) and not isinstance(value, bool):
            value = float(value)
        # True is an int to Python, but not to a user.
        if kind is not None and (not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool)):
            problems.append(f"{name}.{key} must be {kind.__name__}, not {value!r}")
        checked[key] = value
    if problems:
        raise ConfigError(problems)
    return cls(**checked)


__all__ = ["METHODS", "UnknownNameError", "make_method", "method_class", "names"]
