"""Parse files and command-line words into settings, reporting all mistakes at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError
from pydantic.fields import FieldInfo

from medunlearn.config.settings import Settings
from medunlearn.errors import ConfigError, InputError, unknown_name
from medunlearn.input_files import parse_yaml, yaml_content

T = TypeVar("T", bound=Settings)
QUICK = "quick"
"""Scale that the setting of the same name selects."""


def check(model: type[T], values: Mapping[str, Any]) -> T:
    """Validate values into settings.

    Raises:
        ConfigError: lists every mistake with its key and the fix.
    """
    broken = {key: problem for key, value in values.items() for problem in _broken_text(model, key, value)}
    problems = list(broken.values())
    try:
        checked = model.model_validate(dict(values))
    except ValidationError as error:
        others = [other for other in error.errors() if not (other["loc"] and other["loc"][0] in broken)]
        raise ConfigError([*problems, *(_problem(model, other) for other in others)]) from None
    if problems:
        raise ConfigError(problems)
    return checked


def _broken_text(model: type[Settings], key: str, value: Any) -> list[str]:
    """Problems of a text that its type allows: it is empty, or has characters that no file can contain."""
    field = model.model_fields.get(key)
    if not isinstance(value, str) or field is None:
        return []
    if not value.strip() and field.get_default() != "":
        return [f"{key} is empty: {field.description or 'leave it out, or give a value'}"]
    if "\0" in value or value.encode("utf-8", "ignore") != value.encode("utf-8", "surrogatepass"):
        return [f"{_shown(key, field, value)}: there is a zero byte or half a character in it"]
    return []


def _problem(model: type[Settings], error: Any) -> str:
    key = ".".join(str(part) for part in error["loc"])
    if not key:  # about several settings at once
        return str(error["msg"].removeprefix("Value error, "))
    kind, field = error["type"], model.model_fields.get(str(error["loc"][0]))
    if kind == "extra_forbidden":
        return unknown_name("setting", key, model.model_fields)
    if kind == "missing":
        return f"{key} is missing: {field.description if field else 'it must be given'}"
    if kind.startswith("date_"):
        return f"{key}={error['input']!r}: must be a date, year, month and day: 2026-01-31"
    text = error["msg"].removeprefix("Value error, ")
    return f"{_shown(key, field, error['input'])}: {text[0].lower()}{text[1:]}"


def _shown(key: str, field: FieldInfo | None, value: Any) -> str:
    """A setting and its wrong value, which is left out where a key may have been given (``repr=False``)."""
    text = repr(value)
    return f"{key}={text if len(text) <= 200 else text[:200] + '...'}" if field is None or field.repr else key


def read_yaml(path: Path) -> dict[str, Any]:
    """Read a YAML file of keys and values.

    Raises:
        InputError: missing, not YAML, or with a key that is not text.
    """
    values = yaml_content(path)
    if not isinstance(values, dict):
        raise InputError(f"{path} must contain keys and values, one `key: value` per line.")
    if strange := [key for key in _keys(values) if not isinstance(key, str)]:
        raise InputError(f"{path}: the key {strange[0]!r} is not text. Quote it if it is a name.")
    return values


def _keys(values: Any) -> Iterator[Any]:
    """Every key, including nested ones."""
    if isinstance(values, dict):
        yield from values
        values = list(values.values())
    if isinstance(values, list):
        for value in values:
            yield from _keys(value)


def as_value(text: str) -> Any:
    """Parse a value as YAML; text that is not YAML stays text, and so does an empty value: ``--without
    "$UNSET"``.
    """
    if not text.strip():
        return text
    try:
        return parse_yaml(text)
    except ValueError:
        return text


def merge(values: Mapping[str, Any], overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Nested settings with overrides by dotted key: ``train.lr`` goes into ``train``.

    The first part of a key names a section, which is created if missing; the rest of the key is not split, so that
    ``unlearn.npo.beta`` becomes the key ``npo.beta`` of ``unlearn``.
    """
    merged = {key: dict(value) if isinstance(value, dict) else value for key, value in values.items()}
    for key, value in overrides.items():
        section, dot, rest = key.partition(".")
        if dot and isinstance(merged.get(section) or {}, dict):
            merged[section] = {**(merged.get(section) or {}), rest: value}
        else:
            merged[key] = value
    return merged


def merged(values: Path | str | dict[str, Any], overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Settings or their YAML file, at the selected scale, with overrides (:func:`merge`)."""
    content = values if isinstance(values, dict) else read_yaml(Path(values))
    return merge(scaled(content, _scale(content, overrides)), overrides)


def _scale(content: Mapping[str, Any], overrides: Mapping[str, Any]) -> str | None:
    """The selected scale; ``quick`` selects the scale of that name.

    Raises:
        ConfigError: the file has no scale ``quick``, or another scale is selected too.
    """
    scale: str | None = overrides.get("scale", content.get("scale"))
    if not overrides.get(QUICK, content.get(QUICK)):
        return scale
    scales = content.get("scales")
    if not isinstance(scales, Mapping) or QUICK not in scales:
        raise ConfigError(["quick: this file has no small version. Leave quick out, or add scales: {quick: {...}}"])
    if scale not in (None, QUICK):
        raise ConfigError([f"quick is the scale quick, and scale={scale} is another: give one of them"])
    return QUICK


def scaled(values: Mapping[str, Any], scale: str | None) -> dict[str, Any]:
    """The values at one of their ``scales``; its results go to a separate folder, ``OUT-SCALE``.

    Raises:
        ConfigError: no such scale.
    """
    if scale is None:
        return dict(values)
    scales = values.get("scales")
    sizes = scales.get(scale) if isinstance(scales, Mapping) else None
    if not isinstance(sizes, Mapping):
        names = list(scales) if isinstance(scales, Mapping) else []
        raise ConfigError([unknown_name("scale of this file", str(scale), names)])
    folder = {"out": f"{values['out']}-{scale}"} if "out" in values else {}
    return merge(values, {**folder, **sizes, "scale": scale})


def flat(values: Mapping[str, Any], *owners: str) -> dict[str, Any]:
    """``npo={"beta": 0.2}`` as ``npo.beta``, where ``npo`` is one of the owners."""
    settings: dict[str, Any] = {}
    for key, value in values.items():
        if key in owners and key != "arguments" and isinstance(value, Mapping):
            settings |= {f"{key}.{name}": inner for name, inner in value.items()}
        else:
            settings[key] = value
    return settings


def without_prefix(prefix: str, values: dict[str, Any]) -> dict[str, Any]:
    """Move the keys that begin with ``prefix`` out of ``values``, without the prefix."""
    return {key.removeprefix(prefix): values.pop(key) for key in list(values) if key.startswith(prefix)}


def with_server(values: Mapping[str, Any]) -> dict[str, Any]:
    """Server settings in ``llm``, from an address, a dictionary, ``llm.KEY``, or all of them.

    ``prompts.KEY`` goes into ``prompts``.
    """
    rest = dict(values)
    if prompts := without_prefix("prompts.", rest):
        rest["prompts"] = {**(rest.get("prompts") or {}), **prompts}
    nested, llm = without_prefix("llm.", rest), rest.pop("llm", None)
    server = {**({"base_url": llm} if isinstance(llm, str) else llm or {}), **nested}
    if "price" in server:
        server["prices"] = {server.get("model", ""): _price(server.pop("price"))}
    return {**rest, **({"llm": server} if server else {})}


def _price(value: Any) -> tuple[float, float]:
    """Price per million prompt tokens and per million answer tokens.

    Raises:
        ConfigError: not two numbers.
    """
    try:
        prompt, answer = (float(part) for part in (value.split(",") if isinstance(value, str) else value))
    except (TypeError, ValueError):
        raise ConfigError(
            [f"llm.price={value!r} is not PROMPT,ANSWER, the prices per million tokens, such as 0.1,0.4"]
        ) from None
    return prompt, answer


def check_at_least(flags: Mapping[str, tuple[int | None, int]]) -> None:
    """Refuse values below a least one: flag -> (value, least); None is the default.

    Raises:
        ConfigError: every flag that is too low.
    """
    given = {flag: (value, least) for flag, (value, least) in flags.items() if value is not None}
    if low := [f"{flag} must be at least {least}" for flag, (value, least) in given.items() if value < least]:
        raise ConfigError(low)
