"""Resolve names to objects: explicit dictionaries, dotted paths, and entry points of other packages.

A table maps a public name to ``"module:attribute"``. It is text, so listing it imports nothing heavy. A name that
is not in the table may be

- a dotted path, ``my_package.my_module:MyMethod``, for a plug-in outside the tree, or
- an entry point that an installed package declares in the group ``medunlearn.<table>``, or under an earlier name of
  that group.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from importlib import import_module
from importlib.machinery import PathFinder
from importlib.metadata import EntryPoint, entry_points
from itertools import chain
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from medunlearn.errors import (
    ConfigError,
    InputError,
    MedunlearnError,
    UnknownNameError,
    first_line,
    unknown_name,
)
from medunlearn.ranges import bounds_of, is_inside, range_text

EARLIER: Mapping[str, tuple[str, ...]] = {"measures": ("metrics",)}
"""Group -> its earlier names, under which installed packages may still declare plug-ins."""


def names(group: str, table: Mapping[str, str], *, earlier: bool = True) -> dict[str, str]:
    """Every name of a group with its target: the table's own, then those of installed plug-ins.

    A plug-in cannot replace a name of the table; of two plug-ins with one name, :func:`resolve` takes neither.

    Args:
        earlier: plug-ins that are declared under an earlier name of the group too.
    """
    installed = _plugins(group) if earlier else _installed(group, entry_points)
    return {**{name: targets[0] for name, targets in installed.items()}, **table}


def clashes(group: str, table: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    """Names that an installed plug-in declares though they are taken: by the table, or by another plug-in."""
    return {name: targets for name, targets in _plugins(group).items() if name in table or len(targets) > 1}


def _plugins(group: str) -> Mapping[str, tuple[str, ...]]:
    """Plug-ins of a group and of its earlier names: name -> targets."""
    targets: dict[str, tuple[str, ...]] = {}
    for own in (group, *EARLIER.get(group, ())):
        for name, paths in _installed(own, entry_points).items():
            targets[name] = tuple(dict.fromkeys((*targets.get(name, ()), *paths)))
    return targets


@cache
def _installed(group: str, ask: Callable[..., Iterable[EntryPoint]]) -> Mapping[str, tuple[str, ...]]:
    """Plug-ins of installed packages: name -> targets; cached, since the metadata of all packages are read."""
    targets: dict[str, tuple[str, ...]] = {}
    for point in ask(group=f"medunlearn.{group}"):
        targets[point.name] = tuple(dict.fromkeys((*targets.get(point.name, ()), point.value)))
    return targets


def resolve(group: str, name: str, table: Mapping[str, str]) -> Any:
    """The object behind a name: a key of the table, an entry point's name, or a path ``module:attribute``.

    Args:
        group: the plural noun of the table, e.g. ``"methods"``; used in messages and for entry points.

    Raises:
        UnknownNameError: unknown name; the message names the nearest valid one.
        InputError: a dotted path that cannot be imported, or a name that two installed packages declare.
    """
    kind = group.removesuffix("s")
    targets = dict(table) if name in table else names(group, table)
    target = targets.get(name, name if all(name.partition(":")[::2]) else None)
    if target is None:
        raise UnknownNameError(kind, name, targets)
    if name not in table and len(several := clashes(group, {}).get(name, ())) > 1:
        raise InputError(
            f"{kind} {name!r} is declared by {len(several)} installed packages: {', '.join(several)}. Uninstall "
            "all but one of them, or name the one that you mean by its path."
        )
    here = os.getcwd()
    # A plug-in's module may lie in the working folder, as with ``python -m``; what is installed comes first.
    if name not in targets and here not in sys.path and "" not in sys.path:
        sys.path.append(here)
    try:
        return load(target)
    except InputError as error:
        raise InputError(f"{kind} {error}" if name == target else f"{kind} {name!r}: {error}") from error


PLUGINS = "MEDUNLEARN_PLUGINS"
"""Environment variable: paths of plug-ins, with commas, that files may name; processes started later inherit it."""


def named_plugins() -> list[str]:
    """The paths in ``MEDUNLEARN_PLUGINS``."""
    return [path.strip() for path in os.environ.get(PLUGINS, "").split(",") if path.strip()]


def remember_plugin(path: str) -> None:
    """Add a path that the user named to ``MEDUNLEARN_PLUGINS``."""
    paths = named_plugins()
    if path not in paths:
        os.environ[PLUGINS] = ",".join([*paths, path])


def refuse_unnamed(kind: str, name: str) -> None:
    """Refuse a path that a stored file names and the user does not: importing it runs whatever lies there.

    A run or a case may come from anybody, and a module beside it with it. Modules of installed packages, and those
    that are loaded already, are taken.

    Raises:
        InputError: names the variable that permits the path.
    """
    root = name.partition(":")[0].split(".")[0]
    if ":" not in name or name in named_plugins() or root in sys.modules:
        return
    here = Path.cwd()
    installed = [folder for folder in sys.path if folder and Path(folder).resolve() != here]
    if PathFinder.find_spec(root, installed) is None:
        raise InputError(
            f"{kind} {name!r} is named by a stored file alone, and its module is no installed package: it is not "
            f"imported. To permit it: {PLUGINS}={name} before the command."
        )


def load(target: str) -> Any:
    """The object behind ``module:attribute``.

    Raises:
        InputError: it cannot be imported. A plug-in may raise anything while it is imported.
    """
    module, _, attribute = target.partition(":")
    try:
        return getattr(import_module(module), attribute)
    except MedunlearnError as error:
        raise InputError(f"{target} cannot be used: {error}") from error
    except Exception as error:
        if module.split(".")[0] == "medunlearn" and not isinstance(error, ImportError | AttributeError):
            raise
        raise InputError(
            f"{target!r} cannot be imported: {type(error).__name__}: {first_line(error)}. Is its package "
            "installed, and is the path module:attribute?"
        ) from error


def made(what: str, name: str, cls: type, arguments: Mapping[str, Any]) -> Any:
    """Create an object of a plug-in's class, a dataclass with settings as fields, after validating these.

    Args:
        what: the singular noun of its table, e.g. ``"method"``; used in messages.

    Raises:
        ConfigError: unknown settings, values of the wrong type or outside the range that the field's annotation
            declares (``Annotated[float, Field(gt=0)]``), all at once.
    """
    if not is_dataclass(cls):
        raise ConfigError([f"{what.capitalize()} {name!r} must be a dataclass, so that its settings have names."])
    types, hints = {field.name: type(field.default) for field in fields(cls)}, hints_of(cls)
    problems = [unknown_name(f"{name} setting", key, types) for key in arguments if key not in types]
    checked: dict[str, Any] = {}
    for key, value in arguments.items():
        if key not in types:
            continue
        hint = hints.get(key, types[key])
        kinds, choices = _allowed_values(hint)
        if float in kinds and isinstance(value, int) and not isinstance(value, bool):
            value = float(value)
        # True is an int to Python, but not to a user.
        of_kind = isinstance(value, kinds) and not (isinstance(value, bool) and bool not in kinds)
        if not of_kind and value not in choices:
            names = [*map(str, choices), *(kind.__name__ for kind in kinds if kind is not type(None))]
            problems.append(f"{name}.{key} must be {' or '.join(names)}, not {value!r}")
        elif isinstance(value, int | float) and not isinstance(value, bool):
            problems += _outside(f"{name}.{key}", value, bounds_of(hint))
        checked[key] = value
    if problems:
        raise ConfigError(problems)
    return cls(**checked)


def _outside(key: str, value: float, bounds: Mapping[str, float]) -> list[str]:
    """The problem of a number that is not finite or not within its bounds; "" otherwise."""
    if not math.isfinite(value):
        return [f"{key} must be a finite number, not {value}"]
    return [] if is_inside(value, bounds) else [f"{key} must be {range_text(bounds)}, not {value:.15g}"]


def hints_of(cls: type) -> dict[str, Any]:
    """Type hints of a class; empty if its module uses names imported only for type checkers."""
    try:
        return get_type_hints(cls, include_extras=True)
    except NameError:
        return {}


def choices_of(cls: type) -> dict[str, tuple[Any, ...]]:
    """Settings of a class with a fixed set of values -> these values."""
    return {key: choices for key, hint in hints_of(cls).items() if (choices := _allowed_values(hint)[1])}


def ranges_of(cls: type) -> dict[str, str]:
    """Settings of a class with a range -> the range in words."""
    return {key: text for key, hint in hints_of(cls).items() if (text := range_text(bounds_of(hint)))}


def _allowed_values(hint: Any) -> tuple[tuple[type, ...], tuple[Any, ...]]:
    """Types and literal values that a type hint allows."""
    if get_origin(hint) is Annotated:
        return _allowed_values(get_args(hint)[0])
    if get_origin(hint) is Literal:
        return (), get_args(hint)
    if get_origin(hint) in (Union, UnionType):
        parts = [_allowed_values(part) for part in get_args(hint)]
        return tuple(chain(*(kinds for kinds, _ in parts))), tuple(chain(*(values for _, values in parts)))
    kind = get_origin(hint) or hint
    return ((kind,) if isinstance(kind, type) else (object,)), ()
