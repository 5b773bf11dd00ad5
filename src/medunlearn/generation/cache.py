"""Preallocated key-value cache.

transformers' growing cache copies all keys and values for every generated token. Here memory for the answer is
allocated at the first pass, and tokens are written into it (benchmarks_perf/generation.py times both).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from transformers import DynamicCache
from transformers.cache_utils import DynamicLayer


def preallocated_cache(model: Any, room: int) -> DynamicCache:
    """An empty cache that preallocates ``room`` tokens beyond the first pass; it grows, more slowly, past that.

    Only full-attention layers are preallocated. Sliding windows and other kinds of layers stay unchanged.
    """
    cache = RowCache(config=model.config)
    cache.layers = [PreallocatedLayer(room) if type(layer) is DynamicLayer else layer for layer in cache.layers]
    return cache


class RowCache(DynamicCache):  # type: ignore[misc]  # transformers' classes are untyped
    """A cache whose rows can be selected whatever its layers hold; hybrids hold states of convolutions as well."""

    def batch_select_indices(self, indices: torch.Tensor) -> None:
        """Select rows by index, in this order; an index may repeat."""
        for layer in self.layers:
            if hasattr(layer, "recurrent_states"):
                layer.reorder_cache(indices)
            else:
                layer.batch_select_indices(indices)


class PreallocatedLayer(DynamicLayer):  # type: ignore[misc]  # transformers' classes are untyped
    """Keys and values of one layer, [rows, heads, tokens, width], as views of larger preallocated tensors."""

    keys: Tensor
    values: Tensor

    def __init__(self, room: int) -> None:
        super().__init__()
        self.room = room
        self._storage: tuple[Tensor, Tensor] | None = None

    def update(self, key_states: Tensor, value_states: Tensor, *args: Any, **named: Any) -> tuple[Tensor, Tensor]:
        """Append new tokens; returns all keys and all values."""
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        start = self.get_seq_length()
        stop = start + key_states.shape[-2]
        if self._storage is None or self._storage[0].shape[-2] < stop:
            self._storage = self._with_room(key_states, stop), self._with_room(value_states, stop)
            if start:
                self._storage[0][..., :start, :], self._storage[1][..., :start, :] = self.keys, self.values
        for storage, new in zip(self._storage, (key_states, value_states), strict=True):
            storage[..., start:stop, :] = new
        self.keys, self.values = (storage[..., :stop, :] for storage in self._storage)
        return self.keys, self.values

    def _with_room(self, states: Tensor, stop: int) -> Tensor:
        rows, heads, _, width = states.shape
        return torch.empty(rows, heads, stop + self.room, width, dtype=states.dtype, device=states.device)

    def batch_select_indices(self, indices: Tensor) -> None:
        """Select rows by index, in this order; an index may repeat."""
        if self._storage is not None:
            stop = self.keys.shape[-2]
            self._storage = self._storage[0][indices], self._storage[1][indices]
            self.keys, self.values = (storage[..., :stop, :] for storage in self._storage)
