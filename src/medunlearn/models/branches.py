"""Attention over families of sequences that share their beginning: each token meets only what it may see.

A packed row holds groups: some shared tokens, then branches that go on from them. A dense mask over such a row
would have every token meet every other and throw most of it away. Here the shared tokens attend causally among
themselves, once, and the branches of a group are one small batch whose keys are the shared ones followed by their
own.

It is an attention function like those of transformers (``AttentionInterface``), under the name in :data:`NAME`. A
call that brings no :class:`Layout` gets PyTorch's own attention, so that a model set to it does everything else as
ever.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import pad, scaled_dot_product_attention
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

NAME = "medunlearn_branches"


@dataclass(frozen=True)
class Group:
    """Consecutive columns of a row: ``shared`` tokens, then one branch after the other.

    Attributes:
        shared: how many tokens all branches go on from; 0 where nothing is shared.
        lengths: tokens of each branch.
    """

    shared: int
    lengths: tuple[int, ...]

    @property
    def own(self) -> int:
        return sum(self.lengths)


class Layout:
    """How one row of tokens divides into groups, and what their attention needs, prepared once a batch."""

    def __init__(self, groups: Sequence[Group], device: torch.device) -> None:
        self.groups = tuple(groups)
        self.sizes = [size for group in self.groups for size in (group.shared, group.own)]
        self.folds = [_Fold(group, device) for group in self.groups]


class _Fold:
    """Columns of a group's branches to a batch of rows, and back. Rows of a batch are padded to the longest."""

    def __init__(self, group: Group, device: torch.device) -> None:
        self.branches, self.longest = len(group.lengths), max(group.lengths)
        self.even = min(group.lengths) == self.longest
        inside = torch.arange(self.longest) < torch.tensor(group.lengths)[:, None]
        self.places = inside.flatten().nonzero().squeeze(1).to(device)
        # Padding takes the column behind the group's last: a zero that is added for it.
        self.columns = torch.full(inside.shape, group.own)
        self.columns[inside] = torch.arange(group.own)
        self.columns = self.columns.to(device)
        self.mask = None
        if group.shared:
            seen = torch.ones(self.longest, group.shared + self.longest, dtype=torch.bool)
            self.mask = seen.tril(group.shared).to(device)

    def __call__(self, states: Tensor) -> Tensor:
        """[1, heads, own, width] -> [branches, heads, longest, width]."""
        heads, width = states.shape[1], states.shape[3]
        if self.even:
            return states.reshape(heads, self.branches, self.longest, width).transpose(0, 1)
        return pad(states[0], (0, 0, 0, 1))[:, self.columns].transpose(0, 1)

    def back(self, states: Tensor) -> Tensor:
        """[branches, heads, longest, width] -> [1, heads, own, width]."""
        flat = states.transpose(0, 1).flatten(1, 2)
        return (flat if self.even else flat[:, self.places])[None]


def attend(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    layout: Layout | None = None,
    **kwargs: Any,
) -> tuple[Tensor, None]:
    """Attention of a decoder layer. query [1, heads, T, width], key and value with their own number of heads.

    Returns:
        [1, T, heads, width], and no weights.
    """
    if layout is None:
        return sdpa_attention_forward(  # type: ignore[no-any-return]
            module, query, key, value, attention_mask, dropout=dropout, scaling=scaling, **kwargs
        )
    if kwargs.get("softcap") is not None or kwargs.get("s_aux") is not None:
        raise ValueError("This model's attention does more than a softmax of products.")
    heads = query.shape[1]
    parts = [torch.split(_of_heads(tensor, heads), layout.sizes, dim=2) for tensor in (query, key, value)]
    done = []
    for number, (group, fold) in enumerate(zip(layout.groups, layout.folds, strict=True)):
        shared = [part[2 * number] for part in parts]
        own = [fold(part[2 * number + 1]) for part in parts]
        if group.shared:
            done.append(_attention(shared, None, dropout, scaling))
            for place in (1, 2):
                own[place] = torch.cat([shared[place].expand(fold.branches, -1, -1, -1), own[place]], dim=2)
        mixed = _attention(own, fold.mask, dropout, scaling)
        done.append(fold.back(mixed))
    return torch.cat(done, dim=2).transpose(1, 2).contiguous(), None


def _attention(states: Sequence[Tensor], mask: Tensor | None, dropout: float, scaling: float | None) -> Tensor:
    """Query, key and value of one batch; causal where there is no mask."""
    query, key, value = states
    return scaled_dot_product_attention(
        query, key, value, attn_mask=mask, dropout_p=dropout, scale=scaling, is_causal=mask is None
    )


def _of_heads(states: Tensor, heads: int) -> Tensor:
    """Key and value heads that several query heads share, once for each of them."""
    return states if states.shape[1] == heads else states.repeat_interleave(heads // states.shape[1], dim=1)


AttentionInterface.register(NAME, attend)
AttentionMaskInterface.register(NAME, sdpa_mask)
