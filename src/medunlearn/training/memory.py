"""Gradient checkpointing of the decoder layers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from torch.utils.checkpoint import checkpoint

from medunlearn.errors import ConfigError
from medunlearn.models.decoder import decoder_layers


@contextmanager
def recomputing(model: Any, asked: bool) -> Iterator[None]:
    """Inside, each decoder layer keeps its input alone and runs once more in the backward pass.

    It is the non-reentrant form, set at the layers themselves: transformers' own switch also asks for a gradient at
    the input, which would carry the backward pass down to the frozen layers below the first trained one; the
    reentrant form without that would silently give a LoRA adapter no gradient.

    Raises:
        ConfigError: the model's layers cannot be run again.
    """
    if not asked:
        yield
        return
    layers: list[Any] = list(decoder_layers(model))
    if not all(hasattr(layer, "gradient_checkpointing") for layer in layers):
        raise ConfigError(
            [
                f"gradient_checkpointing=true: the layers of a {type(model).__name__} cannot be run again. Set it "
                "to false."
            ]
        )
    for layer in layers:
        layer._gradient_checkpointing_func = partial(checkpoint, use_reentrant=False)
        layer.gradient_checkpointing = True
    try:
        yield
    finally:
        for layer in layers:
            layer.gradient_checkpointing = False
