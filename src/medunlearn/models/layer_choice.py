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


def _mlp(place: int, layer: nn.Module) -> Mlp:
    for owner in (getattr(layer, "mlp", None), layer):
        for makes, reads in _NAMES:
            modules: list[Any] = [getattr(owner, name, None) for name in (*makes, reads)]
            if all(isinstance(module, nn.Linear | Conv1D) for module in modules):
                names = [f"layer {place} {name}" for name in (*makes, reads)]
                *rows, columns = [Matrix(name, module) for name, module in zip(names, modules, strict=True)]
                _refuse_quantized(f"layer {place}", [*rows, columns])
                return Mlp(place, tuple(rows), columns)
    raise InputError(
        f"Layer {place} is a {type(layer).__name__} without a plain MLP (a mixture of experts has several): "
        "neurons of it cannot be edited. Choose other layers, or a method that trains."
    )


def _refuse_quantized(where: str, matrices: Sequence[Matrix]) -> None:
    if not all(matrix.rows.is_floating_point() for matrix in matrices):
        raise InputError(
            f"The weights of {where} are quantized; an edit needs them in fp32 or bf16: load the unquantized model."
        )
