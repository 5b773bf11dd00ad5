"""Attention over sequences with a common beginning: each token attends only to tokens that it may see.

A packed row contains groups: some shared tokens, then branches that continue them. A dense mask over such a row
would compute all pairs and discard most of them. Here the shared tokens attend causally among themselves, once, and
the branches of a group are one small batch whose keys are the shared ones followed by their own. With
sliding-window attention, the window is that of the separate sequence.

It is an attention function like those of transformers (``AttentionInterface``), under the name in :data:`NAME`. A
call without a :class:`Layout` uses PyTorch's own attention, so other uses of the model are unaffected.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import copy
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
class BranchGroup:
    """Consecutive columns of a row: ``shared`` tokens (or 0), then branches of these ``lengths``."""

    shared: int
    lengths: tuple[int, ...]

    @property
    def own(self) -> int:
        return sum(self.lengths)


class Layout:
    """Groups of one row of tokens and their attention inputs, prepared once per batch.

    Attributes:
        windows: sliding window in tokens of each attention call so far, in order; None without one.
    """

    def __init__(self, groups: Sequence[BranchGroup], device: torch.device, *, reads_shared: bool = True) -> None:
        """Prepare a layout for a row.

        Args:
        """
        self.groups = tuple(groups)
        self.reads_shared = reads_shared
        self.windows: dict[nn.Module, int | None] = {}
        self._last: set[nn.Module] = set()
        self.sizes = [size for group in self.groups for size in (group.shared, group.own)]
        self.folds = [_Fold(group, device) for group in self.groups]

    def reading_shared(self) -> Layout:
        """The same layout for a pass that needs outputs of shared tokens."""
        other = copy(self)
        other.reads_shared, other._last = True, set()
        return other

    @contextmanager
    def ending_at(self, layer: nn.Module) -> Iterator[None]:
        """Context in which ``layer`` is the last: unused outputs of shared tokens there are zero."""
        self._last = set() if self.reads_shared else set(layer.modules())
        try:
            yield
        finally:
            self._last = set()

    def reads_shared_of(self, attention: nn.Module) -> bool:
        return attention not in self._last


class _Fold:
    """Conversion of a group's branches between columns and rows of a padded batch."""

    def __init__(self, group: BranchGroup, device: torch.device) -> None:
        self.shared = group.shared
        self.branches, self.longest = len(group.lengths), max(group.lengths)
        self.even = min(group.lengths) == self.longest
        inside = torch.arange(self.longest) < torch.tensor(group.lengths)[:, None]
        self.places = inside.flatten().nonzero().squeeze(1).to(device)
        # Padding takes the column behind the group's last: a zero that is added for it.
        self.columns = torch.full(inside.shape, group.own)
        self.columns[inside] = torch.arange(group.own)
        self.columns = self.columns.to(device)
        self.mask = _band(self.longest, group.shared).to(device) if group.shared else None
        self._within: dict[int, tuple[Tensor | None, Tensor | None]] = {}

    def __call__(self, states: Tensor) -> Tensor:
        """[1, heads, own, width] -> [branches, heads, longest, width]."""
        heads, width = states.shape[1], states.shape[3]
        if self.even:
            return states.reshape(heads, self.branches, self.longest, width).transpose(0, 1)
        return pad(states[0], (0, 0, 0, 1))[:, self.columns].transpose(0, 1)

    def masks(self, window: int | None) -> tuple[Tensor | None, Tensor | None]:
        """Attention masks among shared tokens, and from branches to both; None means causal."""
        if window is None or window >= self.shared + self.longest:
            return None, self.mask
        if window not in self._within:
            device = self.places.device
            alone = _band(self.shared, 0, window).to(device) if window < self.shared else None
            self._within[window] = alone, _band(self.longest, self.shared, window).to(device)
        return self._within[window]

    def back(self, states: Tensor) -> Tensor:
        """[branches, heads, longest, width] -> [1, heads, own, width]."""
        flat = states.transpose(0, 1).flatten(1, 2)
        return (flat if self.even else flat[:, self.places])[None]


def _band(queries: int, before: int, window: int | None = None) -> Tensor:
    """[queries, before + queries], True if a query sees a key: itself and earlier ones, within the window."""
    visible = torch.ones(queries, before + queries, dtype=torch.bool).tril(before)
    return visible if window is None else visible.triu(before + 1 - window)


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
    """Attention of a decoder layer. query [1, heads, T, width], key and value with their own numbers of heads.

    Returns:
        [1, T, heads, width], and None for the weights.
    """
    if layout is None:
        return sdpa_attention_forward(  # type: ignore[no-any-return]
            module, query, key, value, attention_mask, dropout=dropout, scaling=scaling, **kwargs
        )
    if kwargs.get("softcap") is not None or kwargs.get("s_aux") is not None:
        raise ValueError("This model's attention does more than a softmax of products.")
    window = layout.windows[module] = kwargs.get("sliding_window")
    heads = query.shape[1]
    parts = [torch.split(_of_heads(tensor, heads), layout.sizes, dim=2) for tensor in (query, key, value)]
    outputs = []
    for number, (group, fold) in enumerate(zip(layout.groups, layout.folds, strict=True)):
        shared = [part[2 * number] for part in parts]
        branch = [fold(part[2 * number + 1]) for part in parts]
        before, behind = fold.masks(window)
        if group.shared:
            read = layout.reads_shared_of(module)
            unread = shared[0].new_zeros(*shared[0].shape[:3], shared[2].shape[3])
            outputs.append(_attention(shared, before, dropout, scaling) if read else unread)
            for place in (1, 2):
                branch[place] = torch.cat([shared[place].expand(fold.branches, -1, -1, -1), branch[place]], dim=2)
        mixed = _attention(branch, behind, dropout, scaling)
        outputs.append(fold.back(mixed))
    return torch.cat(outputs, dim=2).transpose(1, 2).contiguous(), None


def _attention(states: Sequence[Tensor], mask: Tensor | None, dropout: float, scaling: float | None) -> Tensor:
    """Attention of one batch; causal without a mask."""
    query, key, value = states
    return scaled_dot_product_attention(
        query, key, value, attn_mask=mask, dropout_p=dropout, scale=scaling, is_causal=mask is None
    )


def _of_heads(states: Tensor, heads: int) -> Tensor:
    """Repeat key and value heads for the query heads that share them."""
    return states if states.shape[1] == heads else states.repeat_interleave(heads // states.shape[1], dim=1)


AttentionInterface.register(NAME, attend)
AttentionMaskInterface.register(NAME, sdpa_mask)
