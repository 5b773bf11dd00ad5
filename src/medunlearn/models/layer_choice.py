"""Choice of decoder layers by number, as methods that edit weights take it. No torch."""

from __future__ import annotations

from collections.abc import Iterator

from medunlearn.errors import InputError


def chosen_layers(layers: str, depth: int) -> list[int]:
    """Layer numbers from ``all``, ``last:6``, ``22-27``, ``3,5`` or ``0,22-27``; 0 is the first.

    Raises:
        InputError: another notation, or the model has no such layer.
    """
    if layers.strip() == "all":
        return list(range(depth))
    try:
        numbers = set(_numbers(layers, depth))
    except ValueError:
        raise InputError(f"layers={layers!r}: write all, last:6, 22-27 or 3,5.") from None
    if not numbers or min(numbers) < 0 or max(numbers) >= depth:
        raise InputError(
            f"layers={layers!r}: the model has {depth} layers, 0 to {depth - 1}. Set layers to some of them, e.g. "
            f"last:{max(1, depth // 2)}."
        )
    return sorted(numbers)


def _numbers(layers: str, depth: int) -> Iterator[int]:
    if layers.startswith("last:"):
        yield from range(max(-1, depth - int(layers.removeprefix("last:"))), depth)
        return
    for part in layers.split(","):
        first, dash, last = part.partition("-")
        # One too high is enough to be refused: nobody counts to a billion.
        yield from range(min(int(first), depth), min(int(last) if dash else int(first), depth) + 1)
