"""Key-value cache with shared prefixes, each stored once for all prompts that begin with it.

A head is a prefix of several prompts; a row is one prompt's own tokens after its head. Keys and values of a head
are stored once. The queries of all its rows are multiplied with them in one matrix product; the scores are
concatenated with those for the row's own tokens, and one softmax over both gives the result of a whole prompt. On a
CPU, in fp32, head and own tokens are each attended to by PyTorch's kernel, and the two are joined by the sums of
their weights, which is equivalent: with o the output of attention to one set of keys and s the logarithm of its
summed weights, both sets together give ``o1 * p + o2 * (1 - p)``, where ``p = sigmoid(s1 - s2)``.

Models use it through transformers' registry of attention functions, for the duration of a pass. Sliding windows are
not supported: a window must hold a whole row.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import torch
from torch import Tensor
from transformers import AttentionInterface, DynamicCache
from transformers.cache_utils import DynamicLayer, DynamicSlidingWindowLayer

from medunlearn.generation.cache import PreallocatedLayer
from medunlearn.models.precision import at_least_fp32


class Families:
    """Rows grouped by their head, so that one matrix product serves all rows of a head.

    Attributes:
        owner: the head of each row.
        count: F, number of heads.
        most: B, largest number of rows of a head.
    """

    def __init__(self, owner: Sequence[int], device: torch.device) -> None:
        """Group rows by head.

        Args:
        """
        self.owner = tuple(owner)
        members = [[row for row, head in enumerate(owner) if head == family] for family in range(max(owner) + 1)]
        self.count, self.most = len(members), max(map(len, members))
        # A smaller family is filled up with one of its rows; what comes of the filling is not read.
        places = [row for rows in members for row in rows + rows[:1] * (self.most - len(rows))]
        self._in_order = places == list(range(len(owner)))
        slots = [head * self.most + members[head].index(row) for row, head in enumerate(owner)]
        self._places, self._slots = torch.tensor(places, device=device), torch.tensor(slots, device=device)

    def fold(self, rows: Tensor) -> Tensor:
        """[R, heads, N, width] to [F, heads, B * N, width]: the rows of a family concatenated."""
        placed = rows if self._in_order else rows[self._places]
        return placed.reshape(self.count, self.most, *placed.shape[1:]).transpose(1, 2).flatten(2, 3)

    def unfold(self, families: Tensor) -> Tensor:
        """Inverse of :meth:`fold`, [F, heads, B * N, width] to [R, heads, N, width]."""
        count, heads, queries, width = families.shape
        rows = families.reshape(count, heads, self.most, queries // self.most, width).transpose(1, 2).flatten(0, 1)
        return rows if self._in_order else rows[self._slots]


def has_fused_kernel(queries: Tensor, keys: Tensor, values: Tensor) -> bool:
    """True if :func:`attention_and_sums` supports these inputs: on a CPU, in fp32, with values as wide as keys."""
    fp32 = {queries.dtype, keys.dtype, values.dtype} == {torch.float32}
    return fp32 and queries.device.type == "cpu" and keys.shape == values.shape


def attention_and_sums(
    queries: Tensor, keys: Tensor, values: Tensor, unseen: Tensor | None, scaling: float
) -> tuple[Tensor, Tensor]:
    """Attention output, [B, H, N, width], and the logarithm of the summed weights, [B, H, N, 1].

    Args:
        queries: [B, H, N, width].
        keys, values: [B, H, T, width].
        unseen: True where a query does not see a key, broadcastable to [B, H, N, T]; None: all are seen.
        scaling: factor of the scores.
    """
    mask = None
    if unseen is not None:  # not -inf: queries of padding see nothing, and must not become NaN
        mask = torch.zeros(unseen.shape).masked_fill_(unseen, torch.finfo(torch.float32).min)
    kernel = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
    outcome, sums = kernel(queries, keys, values, attn_mask=mask, scale=scaling)
    return outcome, sums[..., None]


def join_attention(first: Tensor, first_sum: Tensor, second: Tensor, second_sum: Tensor) -> Tensor:
    """Attention over both sets of keys, combined from :func:`attention_and_sums` of each."""
    return torch.lerp(second, first, torch.sigmoid(first_sum - second_sum))


NAME = "medunlearn_shared_cache"
MOST_SCORES = 2**24
"""Attention scores held at a time; where queries have more, they take turns."""

PLAIN = (DynamicLayer, PreallocatedLayer, DynamicSlidingWindowLayer)
UNKNOWN = ("position_bias", "s_aux")
"""Arguments of some models' attention that change its scores; not supported here."""


class SharedCache(DynamicCache):  # type: ignore[misc]  # transformers' classes are untyped
    """Keys and values of F heads, and of R rows that continue them.

    Attributes:
        layers: keys and values of the rows' own tokens, [R, K, tokens, width] per layer.
        heads: keys and values of the heads per layer, [F, K, P, width] each. Keys are stored in at least fp32,
            since scores in lower precision would be coarser than those of the usual kernels.
        families: rows of each head.
    """

    def __init__(self, heads: DynamicCache, mask: Tensor, owner: Sequence[int], room: int) -> None:
        """Build a cache for rows from a cache of their heads.

        Args:

        Raises:
            ValueError: the model caches something other than keys and values of all tokens.
        """
        super().__init__()
        self.shared = mask.shape[1]
        if any(type(layer) not in PLAIN or layer.keys.shape[2] != self.shared for layer in heads.layers):
            raise ValueError("This model's cache does not hold keys and values of all tokens.")
        self.layers = [PreallocatedLayer(room) for _ in heads.layers]
        self.heads = [(at_least_fp32(layer.keys), layer.values) for layer in heads.layers]
        self.families = Families(owner, mask.device)
        self._head_padding = None if bool(mask.all()) else mask == 0
        self._padded: bool | None = None
        self._unseen: Tensor | None = None

    def get_seq_length(self, layer_idx: int = 0) -> int:
        """Number of tokens before the next one, padding included."""
        unshared: int = super().get_seq_length(layer_idx)
        return self.shared + unshared

    def batch_select_indices(self, indices: Tensor) -> None:
        """Keep only these rows; heads without rows are dropped."""
        super().batch_select_indices(indices)
        owner = [self.families.owner[row] for row in indices.tolist()]
        still = sorted(set(owner))
        if len(still) < self.families.count:
            remaining = torch.tensor(still, device=indices.device)
            self.heads = [(keys[remaining], values[remaining]) for keys, values in self.heads]
            self._head_padding = None if self._head_padding is None else self._head_padding[remaining]
        self.families = Families([still.index(head) for head in owner], indices.device)

    @contextmanager
    def attended_by(self, model: Any, mask: Tensor, queries: int) -> Iterator[None]:
        """Context in which a model attends to this cache.

        Args:
            mask: [R, P + S], 1 for real tokens, those of the next pass included.
            queries: T, number of tokens per row in the next pass.
        """
        tail = mask[:, self.shared :]
        if self._padded is None:  # asked once: an answer is never padding, and to ask is to wait for a GPU
            self._padded = not bool(tail.all())
        self._unseen = _causal_mask(tail, queries) if self._padded or queries > 1 else None
        config = model.config.get_text_config(decoder=True)
        usual, before = config._attn_implementation, _ATTENDED.set(self)
        config._attn_implementation = NAME
        try:
            yield
        finally:
            config._attn_implementation = usual
            _ATTENDED.reset(before)

    def attend(
        self, layer: int, queries: Tensor, tail: tuple[Tensor, Tensor], scaling: float, softcap: float | None = None
    ) -> Tensor:
        """Attention output of the rows' queries, [R, Q, T, width of values].

        Args:
            queries: [R, Q, T, width]; Q is K or a multiple of it.
            own: keys and values of the rows' own tokens, [R, K, S, width] each.
            scaling: factor of the scores.
            softcap: bound on the absolute scores by tanh; None: unbounded.
        """
        if softcap is None and has_fused_kernel(queries, *tail):
            return self._joined(layer, queries, tail, scaling)
        scaled = at_least_fp32(queries) * scaling
        many = queries.shape[0] * queries.shape[1] * self.get_seq_length(layer)
        turn = max(1, MOST_SCORES // many)
        outputs = [
            self._turn(
                layer, part, tail, softcap, None if self._unseen is None else self._unseen[:, start:][:, :turn]
            )
            for start, part in zip(range(0, queries.shape[2], turn), torch.split(scaled, turn, dim=2), strict=True)
        ]
        return outputs[0] if len(outputs) == 1 else torch.cat(outputs, dim=2)

    def _joined(self, layer: int, queries: Tensor, tail: tuple[Tensor, Tensor], scaling: float) -> Tensor:
        rows, heads = tail[0].shape[:2]
        steps = queries.shape[2]
        grouped = queries.reshape(rows, heads, -1, queries.shape[3])
        padding = None if self._head_padding is None else self._head_padding[:, None, None]
        of_head, heads_sum = attention_and_sums(self.families.fold(grouped), *self.heads[layer], padding, scaling)
        unseen = None if self._unseen is None else self._unseen[:, None].repeat(1, 1, grouped.shape[2] // steps, 1)
        of_own, own_sum = attention_and_sums(grouped, *tail, unseen, scaling)
        joined = join_attention(self.families.unfold(of_head), self.families.unfold(heads_sum), of_own, own_sum)
        return joined.reshape(rows, queries.shape[1], steps, -1)

    def _turn(
        self,
        layer: int,
        queries: Tensor,
        tail: tuple[Tensor, Tensor],
        softcap: float | None,
        unseen: Tensor | None,
    ) -> Tensor:
        head_keys, head_values = self.heads[layer]
        keys, values = tail
        rows, heads, tokens, _ = keys.shape
        steps = queries.shape[2]
        # Queries that read the same keys stand one behind the other: [R, K, Q / K * T, width].
        grouped = queries.reshape(rows, heads, -1, queries.shape[3])
        of_head = self.families.fold(grouped) @ head_keys.mT
        of_own = grouped @ at_least_fp32(keys).mT
        if softcap is not None:
            of_head, of_own = (torch.tanh(scores / softcap) * softcap for scores in (of_head, of_own))
        lowest = torch.finfo(of_own.dtype).min
        if self._head_padding is not None:
            of_head = of_head.masked_fill(self._head_padding[:, None, None], lowest)
        if unseen is not None:
            by_step = of_own.reshape(rows, heads, -1, steps, tokens)
            of_own = by_step.masked_fill(unseen[:, None, None], lowest).flatten(2, 3)
        weights = torch.cat([of_head, self.families.fold(of_own)], dim=-1).softmax(-1).to(values.dtype)
        for_head, for_own = weights[..., : self.shared], self.families.unfold(weights[..., self.shared :])
        output = self.families.unfold(for_head @ head_values) + for_own @ values
        return output.reshape(rows, queries.shape[1], steps, values.shape[3])


def _causal_mask(mask: Tensor, queries: int) -> Tensor:
    """[R, T, S], True where one of the last T tokens does not see a token."""
    tokens = mask.shape[1]
    later = torch.ones(queries, tokens, dtype=torch.bool, device=mask.device).triu(1 + tokens - queries)
    return (mask == 0)[:, None] | later


_ATTENDED: ContextVar[SharedCache] = ContextVar("attended")


def _attention(
    module: Any, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, **named: Any
) -> tuple[Tensor, None]:
    """Attention function with transformers' signature; registered under our own name, so that no mask is built."""
    if attention_mask is not None or any(named.get(name) is not None for name in UNKNOWN):
        raise ValueError("This model passes an unsupported argument to its attention.")
    scaling = named.get("scaling")
    output = _ATTENDED.get().attend(
        module.layer_idx,
        query,
        (key, value),
        query.shape[-1] ** -0.5 if scaling is None else scaling,
        named.get("softcap"),
    )
    return output.transpose(1, 2).contiguous(), None


AttentionInterface.register(NAME, _attention)
