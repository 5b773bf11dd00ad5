"""Attention to two sets of keys, each by a fused kernel, joined to what one softmax over both would give.

With o the outcome of attention to one set and s the logarithm of its summed weights, both sets together give
o1 * p + o2 * (1 - p), where p = sigmoid(s1 - s2) is the first set's part of all weights.
"""

from __future__ import annotations

import torch
from torch import Tensor


def takes(queries: Tensor, keys: Tensor, values: Tensor) -> bool:
    """Whether :func:`attended` does these: on a CPU, in fp32, with values as wide as keys."""
    fp32 = {queries.dtype, keys.dtype, values.dtype} == {torch.float32}
    return fp32 and queries.device.type == "cpu" and keys.shape == values.shape


def attended(
    queries: Tensor, keys: Tensor, values: Tensor, unseen: Tensor | None, scaling: float
) -> tuple[Tensor, Tensor]:
    """Outcome, [B, H, N, width], and the logarithm of the summed weights, [B, H, N, 1].

    Args:
        queries: [B, H, N, width].
        keys: [B, H, T, width], and values likewise.
        unseen: True where a query does not see a key, for shapes that go into [B, H, N, T]; None: it sees all.
        scaling: factor of the scores.
    """
    mask = None
    if unseen is not None:  # not -inf: queries of padding see nothing, and must not become NaN
        mask = torch.zeros(unseen.shape).masked_fill_(unseen, torch.finfo(torch.float32).min)
    kernel = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
    found, sums = kernel(queries, keys, values, attn_mask=mask, scale=scaling)
    return found, sums[..., None]


def join(first: Tensor, first_sum: Tensor, second: Tensor, second_sum: Tensor) -> Tensor:
    """What attention to both sets gives, from what :func:`attended` says of each."""
    return torch.lerp(second, first, torch.sigmoid(first_sum - second_sum))
