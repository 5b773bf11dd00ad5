"""Ranges of settings: ``Annotated[float, Field(gt=0, le=1)]``, as text and as validation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import chain
from typing import Annotated, Any, get_args, get_origin

_ORDER = {"gt": "above", "ge": "at least", "lt": "below", "le": "at most"}


def bounds_of(annotation: Any, metadata: Iterable[Any] = ()) -> dict[str, float]:
    """Bounds ``gt``, ``ge``, ``lt``, ``le`` in a type hint or its metadata; for a union, those of its members.

    Contents of tuples and mappings are ignored.
    """
    bounds: dict[str, float] = {}
    # pydantic's Field holds its bounds in a list of its own.
    for item in chain.from_iterable(getattr(own, "metadata", None) or [own] for own in metadata):
        bounds |= {name: getattr(item, name) for name in _ORDER if getattr(item, name, None) is not None}
    if get_origin(annotation) is Annotated:
        inner, *more = get_args(annotation)
        return bounds_of(inner, more) | bounds
    if get_origin(annotation) not in (tuple, list, dict, Mapping):
        for member in get_args(annotation):
            bounds = bounds_of(member) | bounds
    return bounds


def range_text(bounds: Mapping[str, float]) -> str:
    """``0 to 1``, ``above 0 and at most 100``; empty if there are no bounds."""
    if set(bounds) == {"ge", "le"}:
        return f"{bounds['ge']:.15g} to {bounds['le']:.15g}"
    return " and ".join(f"{words} {bounds[name]:.15g}" for name, words in _ORDER.items() if name in bounds)


def is_inside(value: float, bounds: Mapping[str, float]) -> bool:
    """True if a number is within the bounds; NaN never is."""
    holds = {
        "gt": lambda bound: value > bound,
        "ge": lambda bound: value >= bound,
        "lt": lambda bound: value < bound,
        "le": lambda bound: value <= bound,
    }
    return value == value and all(holds[name](bound) for name, bound in bounds.items())
