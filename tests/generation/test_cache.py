"""A cache with room holds what transformers' own holds, without copying it for every token."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from transformers import DynamicCache

from medunlearn.generation.cache import PreallocatedLayer, preallocated_cache

ROWS, HEADS, WIDTH = 3, 2, 4


@pytest.mark.parametrize("room", [0, 2, 50])
def test_it_holds_what_the_growing_cache_holds(tiny: Callable[[], Any], room: int) -> None:
    model = tiny().model
    ours, theirs = preallocated_cache(model, room), DynamicCache(config=model.config)
    assert all(isinstance(layer, PreallocatedLayer) for layer in ours.layers)
    draw = torch.Generator().manual_seed(0)
    rows = ROWS
    for step, (count, rows_left) in enumerate([(5, None), (3, [1, 1, 0, 2]), (1, None), (1, [3, 0]), (1, None)]):
        for layer in range(len(ours.layers)):
            keys, values = torch.randn(2, rows, HEADS, count, WIDTH, generator=draw)
            for mine, other in zip(
                ours.update(keys, values, layer), theirs.update(keys, values, layer), strict=True
            ):
                assert torch.equal(mine, other), step
        if rows_left is not None:
            rows = len(rows_left)
            for cache in (ours, theirs):
                cache.batch_select_indices(torch.tensor(rows_left))
        assert ours.get_seq_length() == theirs.get_seq_length()
        assert ours.get_mask_sizes(1, 0) == theirs.get_mask_sizes(1, 0)


def test_nothing_is_copied_where_there_is_room() -> None:
    layer = PreallocatedLayer(4)
    keys, _ = layer.update(*torch.randn(2, ROWS, HEADS, 6, WIDTH))
    where = keys.data_ptr()
    for _ in range(4):
        keys, _ = layer.update(*torch.randn(2, ROWS, HEADS, 1, WIDTH))
        assert keys.data_ptr() == where
    keys, _ = layer.update(*torch.randn(2, ROWS, HEADS, 1, WIDTH))
    assert keys.data_ptr() != where
    assert keys.shape == (ROWS, HEADS, 11, WIDTH)
