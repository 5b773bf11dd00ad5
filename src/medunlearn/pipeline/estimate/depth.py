"""FLOPs and memory of a deep model from passes through a few of its layers: equal layers cost the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from medunlearn.models.decoder import decoder_layers

PREFIX = 1
"""Frozen layers at the front that a cut model keeps where memory is counted; more of them take no more."""
TOP = 3, 4
"""Equal layers at the top where memory is counted: it is linear in their number, from about three on."""


class Depth:
    """A model's decoder layers, of which equal ones at the top, and frozen ones at the front, may be left out.

    FLOPs are linear in the number of equal layers, exactly. Layers that differ in kind (hybrid attention, experts)
    or in what is trained of them are never left out.
    """

    def __init__(self, model: Any) -> None:
        self.layers = decoder_layers(model)
        self.config = model.config.get_text_config()
        self._all = list(self.layers)
        types = getattr(self.config, "layer_types", None) or [""] * len(self._all)
        kinds = [_kind(layer, types[place]) for place, layer in enumerate(self._all)]
        self.top = _equal(kinds[::-1])
        embedding = model.get_input_embeddings().parameters()
        frozen = not any(tensor.requires_grad for part in (embedding, self._all[0].parameters()) for tensor in part)
        # A layer's type goes by its place, so layers below others are left out only where all types are one.
        apart = frozen and self.top < len(self._all) and len(set(types)) == 1
        self.prefix = _equal(kinds) if apart else 0

    @property
    def whole(self) -> int:
        return len(self._all)

    @contextmanager
    def cut(self, prefix: int, top: int) -> Iterator[None]:
        """Inside, the model has at most so many of its equal layers at the front and at the top."""
        end = self.whole - self.top
        middle = self._all[self.prefix : end]
        self._put([*self._all[: min(prefix, self.prefix)], *middle, *self._all[end:][:top]])
        try:
            yield
        finally:
            self._put(self._all)

    def flops(self, measure: Callable[[], int]) -> int:
        """FLOPs at the whole depth of what ``measure`` counts at the depth that the model has."""
        if self.prefix <= 1 and self.top <= 2:
            return measure()
        with self.cut(1, 1):
            least = measure()
        with self.cut(1, 2):
            total = least + (self.top - 1) * (measure() - least)
        if self.prefix > 1:
            with self.cut(2, 1):
                total += (self.prefix - 1) * (measure() - least)
        return total

    def peak(self, measure: Callable[[], int], *, grows: bool = True) -> int:
        """Peak bytes at the whole depth of what ``measure`` counts at the depth that the model has.

        Args:
            grows: False without gradients, where each layer's tensors take the place of the last one's.
        """
        few, more = TOP
        if self.top <= more or not grows:
            with self.cut(PREFIX, more):
                return measure()
        with self.cut(PREFIX, few):
            low = measure()
        with self.cut(PREFIX, more):
            high = measure()
        return high + (high - low) * (self.top - more) // (more - few)

    def _put(self, layers: list[Any]) -> None:
        modules = self.layers._modules
        modules.clear()
        modules.update({str(place): layer for place, layer in enumerate(layers)})
        self.config.num_hidden_layers = len(layers)


def _kind(layer: Any, attention: str) -> tuple[Any, ...]:
    """Equal for layers that cost the same."""
    tensors = [(name, tuple(tensor.shape), tensor.requires_grad) for name, tensor in layer.named_parameters()]
    return attention, repr(layer), *tensors


def _equal(kinds: list[Any]) -> int:
    """How many of the first are of one kind."""
    return next((place for place, kind in enumerate(kinds) if kind != kinds[0]), len(kinds))
