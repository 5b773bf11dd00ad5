"""Command-line flags of a settings class: name, arity, help text, default."""

from __future__ import annotations

import inspect
import re
import types
from collections import abc
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import Field, create_model
from pydantic.fields import FieldInfo

from medunlearn.config.prompt_files import PromptFile
from medunlearn.config.settings import Settings
from medunlearn.ranges import bounds_of, range_text

_LISTS = {tuple, list, abc.Sequence}
_TEXTS = {str, Path, PromptFile, type(None)}


@dataclass(frozen=True)
class Flag:
    """A setting as a flag.

    Attributes:
        kind: ``switch`` takes no value, ``text`` is taken literally, ``yaml`` is read as YAML.
        many: may be given several times.
        section: holds nested settings, ``--evaluate.limit 20``.
        repeated: each occurrence adds one text; commas are part of the text.
        group: title of its panel in the help text.
    """

    key: str
    kind: Literal["switch", "text", "yaml"]
    many: bool
    section: bool
    group: str
    metavar: str
    default: str
    help: str
    repeated: bool = False

    @property
    def name(self) -> str:
        return f"--{self.key.replace('_', '-')}"


def flags_of(model: type[Settings], group: str | None = None) -> dict[str, Flag]:
    """The flags of a settings class by key; each base class forms a group in the help text."""
    return {
        key: _flag(key, field, group or _group(model, key))
        for key, field in model.model_fields.items()
        if key != "builder"
    }


def _group(model: type[Settings], key: str) -> str:
    owner = next(base for base in reversed(model.__mro__) if key in getattr(base, "__annotations__", {}))
    return (owner.__doc__ or owner.__name__).strip().split("\n")[0].rstrip(".")


def _flag(key: str, field: FieldInfo, group: str) -> Flag:
    ordered = tuple(dict.fromkeys(_members(field.annotation)))  # a set has another order in each process
    members = set(ordered)
    origins = {get_origin(member) or member for member in members}
    extra = field.json_schema_extra if isinstance(field.json_schema_extra, dict) else {}
    switch = extra.get("flag") == "switch" or (bool in origins and origins <= {bool, dict, type(None)})
    many, repeated = bool(origins & _LISTS), extra.get("flag") == "repeated"
    plain = repeated or origins <= _TEXTS or _only_words(members)
    default = "required" if field.is_required() else field.get_default(call_default_factory=True)
    return Flag(
        key=key,
        kind="switch" if switch else "text" if plain else "yaml",
        many=many,
        section=bool(origins & {dict, abc.Mapping}),
        group=group,
        metavar="" if switch else _metavar(ordered),
        default=default if isinstance(default, str) else _default_text(default),
        help=_with_range(field.description or "", bounds_of(field.annotation, field.metadata)),
        repeated=repeated,
    )


def _with_range(text: str, bounds: Mapping[str, float]) -> str:
    """The help text with its range; "not negative" is not mentioned for counts."""
    return text if not text or bounds in ({}, {"ge": 0}, {"ge": 1}) else f"{text} ({range_text(bounds)})"


def _members(annotation: Any) -> Iterator[Any]:
    """The types of a union, without their annotations."""
    origin = get_origin(annotation)
    if origin is Annotated:
        yield from _members(get_args(annotation)[0])
    elif origin in (Union, types.UnionType):
        for member in get_args(annotation):
            yield from _members(member)
    else:
        yield annotation


def _only_words(members: set[Any]) -> bool:
    literals = [m for m in members if get_origin(m) is Literal]
    words = all(isinstance(value, str) for m in literals for value in get_args(m))
    return bool(literals) and words and members - set(literals) <= _TEXTS


_METAVARS = {PromptFile: "FILE", Path: "PATH", int: "N", float: "X", str: "TEXT", dict: "{KEY: VALUE}"}
"""Of a union's types, the first one here names the value."""


def _metavar(members: Sequence[Any]) -> str:
    choices = [str(value) for m in members if get_origin(m) is Literal for value in get_args(m)]
    if choices:
        return "|".join([*choices, *(["FILE"] if PromptFile in members else [])])
    if items := [get_args(member)[0] for member in members if get_origin(member) in _LISTS]:
        return f"{_metavar(tuple(dict.fromkeys(_members(items[0]))))},..."
    origins = {get_origin(member) or member for member in members}
    return next((text for kind, text in _METAVARS.items() if kind in origins), "VALUE")


def _default_text(default: Any) -> str:
    if default is None or default is False or default in ((), {}, ""):
        return ""
    if isinstance(default, tuple | list):
        return ",".join(map(str, default))
    return str(default).lower() if isinstance(default, bool) else str(default)


class _Names(dict[str, Any]):
    """Mapping that resolves names imported only for type checkers to ``str``."""

    def __missing__(self, name: str) -> Any:
        return {"Path": Path, "Sequence": Sequence, "Mapping": Mapping, "Any": Any}.get(name, str)


def options_model(function: Callable[..., Any], skip: Sequence[str] = ()) -> type[Settings]:
    """A settings class from a function's parameters, with help texts from ``Args`` in its docstring."""
    texts = _argument_texts(function.__doc__ or "")
    fields: dict[str, Any] = {}
    for name, parameter in inspect.signature(function).parameters.items():
        if name in skip or parameter.kind is parameter.VAR_KEYWORD:
            continue
        builtin = {"str": str, "int": int, "float": float, "bool": bool, "tuple": tuple, "dict": dict}
        kind = parameter.annotation
        if isinstance(kind, str):
            kind = eval(kind, {"__builtins__": {}}, _Names({**function.__globals__, **builtin}))
        default = ... if parameter.default is parameter.empty else parameter.default
        fields[name] = (kind, Field(default, description=texts.get(name, "")))
    return create_model(function.__name__, __base__=Settings, __doc__="Options", **fields)


def positionals(function: Callable[..., Any]) -> list[inspect.Parameter]:
    """The function's parameters that are positional on the command line."""
    return [p for p in inspect.signature(function).parameters.values() if p.kind is p.POSITIONAL_OR_KEYWORD]


def _argument_texts(doc: str) -> dict[str, str]:
    """``Args`` of a docstring: parameter -> text."""
    section = inspect.cleandoc(doc).partition("Args:\n")[2].partition("\n\n")[0]
    texts = re.findall(r"^    (\w+): (.*?)(?=^    \w+: |\Z)", section, re.MULTILINE | re.DOTALL)
    return {name: " ".join(text.split()).rstrip(".") for name, text in texts}
