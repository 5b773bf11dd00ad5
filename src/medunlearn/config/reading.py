"""From files and words of the command line to settings, with every mistake at once."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import ValidationError

from medunlearn.config.base import Settings
from medunlearn.errors import ConfigError, InputError, unknown_name

T = TypeVar("T", bound=Settings)


def check(model: type[T], values: Mapping[str, Any]) -> T:
    """Values to settings.

    Raises:
        ConfigError: every mistake, each with its key and the fix.
    """
    read = {key: value for key, value in values.items() if not isinstance(value, _Misread)}
    problems = [
        f"{word!r} is not understood: settings are written key=value"
        for key, word in values.items()
        if key not in read
    ]
    try:
        found = model.model_validate(read)
    except ValidationError as error:
        problems += [_problem(model, one) for one in error.errors()]
    if problems:
        raise ConfigError(problems)
    return found


def _problem(model: type[Settings], error: Any) -> str:
    key = ".".join(str(part) for part in error["loc"])
    if not key:  # about several settings at once
        return str(error["msg"].removeprefix("Value error, "))
    kind, field = error["type"], model.model_fields.get(str(error["loc"][0]))
    if kind == "extra_forbidden":
        return unknown_name("setting", key, model.model_fields)
    if kind == "missing":
        return f"{key} is missing: {field.description if field else 'it must be given'}"
    return f"{key}={error['input']!r}: {error['msg'][0].lower()}{error['msg'][1:]}"


class _Loader(yaml.SafeLoader):
    """Reads 1e-4 as a number; YAML 1.1, for want of a point, reads it as text."""


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"[-+]?\d+(\.\d*)?[eE][-+]?\d+$"), list("-+0123456789")
)


def _load(text: str) -> Any:
    return yaml.load(text, Loader=_Loader)


def read_yaml(path: Path) -> dict[str, Any]:
    """A YAML file that holds keys and values.

    Raises:
        InputError: not there, or not YAML.
    """
    try:
        values = _load(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"There is no file {path}.") from None
    except (OSError, ValueError, RecursionError, yaml.YAMLError) as error:
        raise InputError(f"{path} cannot be read as YAML: {error}") from error
    if not isinstance(values, dict):
        raise InputError(f"{path} must hold keys and values, one `key: value` a line.")
    return values


def parse_overrides(words: Sequence[str]) -> dict[str, Any]:
    """``key=value`` words as a dictionary; values are read as YAML, so ``lr=1e-4``, ``metrics=[rouge_l,em]``.

    Words that are not of this form stay in it; :func:`check` reports them with all other mistakes.
    """
    bad = [word for word in words if "=" not in word.lstrip("=") or word.startswith(("=", "-"))]
    good = (word.partition("=") for word in words if word not in bad)
    # Under a key without a point: such a key is the command's own, and not a section's or a method's.
    misread = {f"misread word {place}": _Misread(word) for place, word in enumerate(bad)}
    return {**{key: _value(value) for key, _, value in good}, **misread}


class _Misread(str):
    """A word that is no setting."""


def _value(text: str) -> Any:
    try:
        return _load(text)
    except (ValueError, RecursionError, yaml.YAMLError):
        return text


def merge(values: Mapping[str, Any], overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Nested settings with overrides by dotted key: ``train.lr`` goes into ``train``.

    The first part of a key names a section, which is made where the values have none; what is left stays
    whole, so that ``unlearn.npo.beta`` becomes the key ``npo.beta`` of ``unlearn``.
    """
    merged = {key: dict(value) if isinstance(value, dict) else value for key, value in values.items()}
    for key, value in overrides.items():
        section, dot, rest = key.partition(".")
        if dot and isinstance(merged.get(section) or {}, dict):
            merged[section] = {**(merged.get(section) or {}), rest: value}
        else:
            merged[key] = value
    return merged


def fields_of(model: type[Settings]) -> Iterator[tuple[str, str, str]]:
    """Name, default and help text of each setting, for ``--help``."""
    for name, field in model.model_fields.items():
        if name == "builder":
            continue
        default = "required" if field.is_required() else repr(field.get_default(call_default_factory=True))
        yield name, default, field.description or ""
