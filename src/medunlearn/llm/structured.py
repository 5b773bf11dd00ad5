"""Structured output: the schema is described in words, and answers are parsed strictly and checked, never guessed.

Servers differ: some enforce the schema, some refuse the field, some ignore it and answer with prose around the
JSON. So every answer is processed in the same way: located, parsed, checked; after an unusable one, the model is
asked again with the reason.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NoReturn

import jsonschema
import referencing
from jsonschema.exceptions import SchemaError, ValidationError, best_match

from medunlearn.errors import InputError
from medunlearn.llm.requests import Message, Request

QUOTED = 2000  # characters of an unusable answer that the model is shown again
LONGEST = 1_000_000  # characters of an answer in which JSON is looked for
STARTS = 64  # places where a value may start
_THOUGHTS = re.compile(r"^\s*<(think|thinking)>.*?</\1>", re.DOTALL)
_FENCE = re.compile(r"```[ \t]*(?:json|JSON)?[ \t]*\r?\n(.*?)```", re.DOTALL)
_OPENING = re.compile(r"\{(\s*[\"}])?|\[")
_WORDS = {
    "type": "must be of type {}",
    "enum": "must be one of {}",
    "const": "must be {}",
    "minItems": "must have at least {} items",
    "maxItems": "must have at most {} items",
    "minLength": "must have at least {} characters",
    "maxLength": "must have at most {} characters",
    "minimum": "must be at least {}",
    "maximum": "must be at most {}",
    "required": "must have the keys {}",
    "pattern": "must match {}",
}


class UnusableError(Exception):
    """An answer that cannot be used; the message says why, without repeating the answer."""


def opening_messages(request: Request) -> tuple[Message, ...]:
    """Messages of a chat, with the schema in words too, since some servers ignore the schema field."""
    if isinstance(request.prompt, str):
        return ()
    if request.schema is None:
        return request.prompt
    schema = json.dumps(request.schema, ensure_ascii=False, separators=(",", ":"))
    words = f"\n\nAnswer with one JSON value and nothing around it. It must match this JSON schema:\n{schema}"
    *before, last = request.prompt
    return (*before, Message(last.role, last.content + words))


def with_correction(messages: tuple[Message, ...], answer: str, reason: str) -> tuple[Message, ...]:
    """The conversation extended by an unusable answer and the reason; a completion is repeated unchanged."""
    if not messages:
        return ()
    ask = f"This answer cannot be used: {reason}. Give the whole answer again, corrected, in the form asked for."
    return (*messages, Message("assistant", answer[:QUOTED] or "(nothing)"), Message("user", ask))


def accept(request: Request, text: str, finish_reason: str) -> Any:
    """The value of an answer: parsed if there is a schema, else None; checked either way (UnusableError)."""
    value = None
    if request.schema is not None:
        try:
            value = read(text, request.schema)
        except UnusableError as error:
            if finish_reason == "length":
                cut = f"it was cut off at {request.max_tokens} tokens, so be shorter ({error})"
                raise UnusableError(cut) from None
            raise
    elif not isinstance(request.prompt, str) and not text.strip():
        raise UnusableError("it is empty")
    reason = request.check(text if request.schema is None else value) if request.check else None
    if reason:
        raise UnusableError(reason)
    return value


def read(text: str, schema: Mapping[str, Any]) -> Any:
    """The only JSON value in an answer, ignoring reasoning before it, a code fence and surrounding prose.

    Raises:
        UnusableError: no value, several, a malformed one, a duplicate key, or a value that violates the schema.
    """
    if len(text) > LONGEST:
        raise UnusableError(f"the answer has more than {LONGEST} characters")
    value = _find(_THOUGHTS.sub("", text, count=1).strip())
    problem = best_match(_validator(json.dumps(schema, sort_keys=True)).iter_errors(value))
    if problem is not None:
        raise UnusableError(_reason(problem))
    return value


def check_schema(schema: Mapping[str, Any]) -> None:
    """Raise an InputError if it is not a valid JSON schema."""
    _validator(json.dumps(schema, sort_keys=True))


def _find(text: str) -> Any:
    """The whole text, one fenced block, or the only object (or else list) in running text."""
    if not text:
        raise UnusableError("the answer is empty")
    fenced = _FENCE.findall(text)
    for candidate in (text, *(fenced if len(fenced) == 1 else ())):
        parsed = _value_at(candidate.strip(), 0)
        if parsed is not None and parsed[1] == len(candidate.strip()):
            return parsed[0]
    values = _values_in_prose(text)
    objects = [value for value in values if isinstance(value, dict)] or values
    if len(objects) > 1:
        raise UnusableError(f"the answer holds {len(objects)} JSON values instead of one")
    if not objects:
        raise UnusableError("the answer holds no JSON value")
    return objects[0]


def _values_in_prose(text: str) -> list[Any]:
    values, place, starts = [], 0, 0
    while match := _OPENING.search(text, place):
        starts += 1
        if starts > STARTS:
            raise UnusableError("no single JSON value can be made out in the answer")
        parsed = _value_at(text, match.start())
        if parsed is not None:
            values.append(parsed[0])
            place = parsed[1]
        elif match.group(1):
            # An object that begins and never ends may hold whole ones; they are pieces, not the answer.
            raise UnusableError("the JSON breaks off or is malformed")
        else:
            place = match.start() + 1
    return values


def _value_at(text: str, start: int) -> tuple[Any, int] | None:
    """The object or list that starts at an offset, and its end; None if there is none.

    Duplicate keys, invalid numbers and broken characters raise an UnusableError.
    """
    try:
        value, end = _DECODER.raw_decode(text, start)
        json.dumps(value, ensure_ascii=False).encode()
    except (RecursionError, UnicodeEncodeError):
        raise UnusableError("the JSON is nested too deep or has broken characters") from None
    except ValueError:
        return None
    return (value, end) if isinstance(value, dict | list) else None


def _no_key_twice(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    keys = [key for key, _ in pairs]
    if len(set(keys)) < len(keys):
        raise UnusableError("a key is given twice in one object")
    return dict(pairs)


def _no_constant(word: str) -> NoReturn:
    raise UnusableError(f"{word} is no JSON number")


def _finite(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise UnusableError("a number is too large")
    return number


_DECODER = json.JSONDecoder(object_pairs_hook=_no_key_twice, parse_constant=_no_constant, parse_float=_finite)


@lru_cache(maxsize=256)
def _validator(canonical: str) -> jsonschema.protocols.Validator:
    schema = json.loads(canonical)
    kind = jsonschema.Draft202012Validator
    try:
        kind.check_schema(schema)
    except SchemaError as error:
        raise InputError(f"A request's JSON schema is not one: {error.message}.") from None
    # An empty registry: a $ref to the network is an error instead of a download.
    return kind(schema, registry=referencing.Registry())


def _reason(problem: ValidationError) -> str:
    rule = str(problem.validator)
    template = _WORDS.get(rule)
    if template:
        return f"{problem.json_path} {template.format(json.dumps(problem.validator_value, ensure_ascii=False))}"
    if rule == "additionalProperties":
        return f"{problem.json_path} has a key that the schema does not know"
    return f"{problem.json_path} breaks the schema's rule {rule!r}"
