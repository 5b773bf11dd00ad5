"""Attention to a cache whose heads are kept once is attention to whole prompts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from transformers import AttentionInterface, DynamicCache

from medunlearn.generation import shared_cache
from medunlearn.generation.shared_cache import NAME, Families, SharedCache

CPU = torch.device("cpu")
LAYERS, KEY_HEADS, GROUP, WIDTH = 2, 2, 3, 4
HEADS = [5, 3]  # tokens of each
OWNER = [1, 0, 0, 1, 0]
SHARP = 5.0
OWN = [4, 1, 3, 2, 4]  # tokens of each row in the first pass


class Asked:
    """Random keys and values of heads and rows, in a cache and as they are."""

    def __init__(self, dtype: torch.dtype = torch.float32, owner: list[int] = OWNER) -> None:
        self.draw = torch.Generator().manual_seed(3)
        self.dtype, self.owner = dtype, owner
        heads = DynamicCache()
        lengths = HEADS[: max(owner) + 1]
        shape = (len(lengths), KEY_HEADS, max(lengths), WIDTH)
        self.heads = [(self.random(*shape), self.random(*shape)) for _ in range(LAYERS)]
        for layer, (keys, values) in enumerate(self.heads):
            heads.update(keys, values, layer)
        self.head_mask = padded(lengths)
        self.own_mask = torch.zeros(len(owner), 0, dtype=torch.long)
        self.cache = SharedCache(heads, self.head_mask, owner, 8)

    def random(self, *shape: int) -> Tensor:
        return torch.randn(shape, generator=self.draw).to(self.dtype)

    def ask(
        self, model: Any, mask: Tensor, layer: int = 1, softcap: float | None = None, scaling: float = 0.7
    ) -> tuple[Tensor, Tensor]:
        """Output of the cache for a pass over so many tokens, and of plain attention in fp64."""
        rows, steps = mask.shape
        queries = self.random(rows, KEY_HEADS * GROUP, steps, WIDTH)
        new = self.random(rows, KEY_HEADS, steps, WIDTH), self.random(rows, KEY_HEADS, steps, WIDTH)
        self.own_mask = torch.cat([self.own_mask, mask], dim=1)
        mask_of_all = torch.cat([self.head_mask[self.owner], self.own_mask], dim=1)
        own = self.cache.update(*new, layer)
        with self.cache.attended_by(model, mask_of_all, steps):
            ours = self.cache.attend(layer, queries, own, scaling, softcap)
        whole = [
            torch.cat([part[0][self.owner], part[1]], dim=2) for part in zip(self.heads[layer], own, strict=True)
        ]
        return ours, plain(queries, whole[0], whole[1], mask_of_all, scaling, softcap)


def plain(queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor, scaling: float, cap: float | None) -> Tensor:
    """Attention of the last tokens to all tokens before them and themselves, in fp64."""
    queries, keys, values = queries.double(), keys.double(), values.double()
    output = torch.zeros(*queries.shape[:3], values.shape[3], dtype=torch.float64)
    rows, heads, steps, _ = queries.shape
    for row in range(rows):
        for head in range(heads):
            for step in range(steps):
                there = [t for t in range(mask.shape[1] - steps + step + 1) if mask[row, t]]
                scores = keys[row, head // GROUP, there] @ queries[row, head, step] * scaling
                scores = scores if cap is None else cap * torch.tanh(scores / cap)
                output[row, head, step] = torch.softmax(scores, 0) @ values[row, head // GROUP, there]
    return output


def padded(lengths: list[int]) -> Tensor:
    return torch.tensor([[0] * (max(lengths) - length) + [1] * length for length in lengths])


def error(ours: Tensor, theirs: Tensor, mask: Tensor) -> float:
    """The largest relative error at real tokens; what padding finds is nobody's."""
    real = mask.bool()[:, None, :, None].expand_as(theirs)
    return float(((ours.double() - theirs)[real]).abs().max() / theirs[real].abs().max())


@pytest.fixture
def model(tiny: Callable[[], Any]) -> Any:
    return tiny().model


@pytest.mark.parametrize(("way", "softcap"), [("kernel", None), ("scores", None), ("scores", 0.5)])
@pytest.mark.parametrize("most", [1, 200, 2**24])
@pytest.mark.parametrize("owner", [OWNER, [0, 0, 1, 1], [0, 1]])
def test_it_is_attention_to_the_whole_prompt(
    model: Any, monkeypatch: pytest.MonkeyPatch, way: str, softcap: float | None, most: int, owner: list[int]
) -> None:
    """First a pass over unequal rows, all at once or in turns, then two over one token."""
    monkeypatch.setattr(shared_cache, "MOST_SCORES", most)
    if way == "scores":
        monkeypatch.setattr(shared_cache, "has_fused_kernel", lambda *states: False)
    attended = Asked(owner=owner)
    for mask in (padded(OWN[: len(owner)]), *[torch.ones(len(owner), 1, dtype=torch.long)] * 2):
        ours, theirs = attended.ask(model, mask, softcap=softcap)
        assert ours.shape == theirs.shape
        assert error(ours, theirs, mask) < 1e-6


def test_the_kernel_is_taken_where_it_can(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """In fp32 without a cap no scores are written out; with a cap, or in bf16, they are."""
    turns: list[int] = []
    turn = SharedCache._turn
    monkeypatch.setattr(SharedCache, "_turn", lambda *arguments: turns.append(1) or turn(*arguments))
    ones = torch.ones(len(OWNER), 1, dtype=torch.long)
    Asked().ask(model, ones)
    assert not turns
    Asked().ask(model, ones, softcap=0.5)
    Asked(torch.bfloat16).ask(model, ones)
    assert len(turns) == 2


def test_rows_and_heads_leave(model: Any) -> None:
    """Rows that stay find what they would; a head without rows is held no longer."""
    attended = Asked()
    ones = torch.ones(len(OWNER), 1, dtype=torch.long)
    for layer in range(LAYERS):
        attended.own_mask = ones[:, :0]
        attended.ask(model, ones, layer)
    for rows_left, heads in (([3, 4, 0], 2), ([2, 0], 1), ([1], 1)):
        attended.cache.batch_select_indices(torch.tensor(rows_left))
        attended.owner, attended.own_mask = [attended.owner[row] for row in rows_left], attended.own_mask[rows_left]
        ours, theirs = attended.ask(model, ones[: len(rows_left)])
        assert error(ours, theirs, ones[: len(rows_left)]) < 1e-6
        assert [len(keys) for keys, _ in attended.cache.heads] == [heads] * LAYERS
    assert attended.cache.families.owner == (0,)


def test_heads_are_held_once() -> None:
    attended = Asked(owner=[0, 1] * 50)
    elements = sum(tensor.numel() for pair in attended.cache.heads for tensor in pair)
    assert elements == 2 * LAYERS * len(HEADS) * KEY_HEADS * max(HEADS) * WIDTH
    assert attended.cache.get_seq_length() == max(HEADS)


def test_in_bf16_it_is_no_coarser_than_pytorchs_kernel(model: Any) -> None:
    """Scores are large, for it is their rounding that would be felt."""
    attended = Asked(torch.bfloat16, [0] * 40)
    mask = torch.ones(40, 1, dtype=torch.long)
    ours, exact = attended.ask(model, mask, scaling=SHARP)
    assert ours.dtype == torch.bfloat16
    coarse = plain_bf16(attended)
    ours_off, theirs_off = ((output.double() - exact).pow(2).mean().sqrt() for output in (ours, coarse))
    assert 0 < ours_off < 1.5 * theirs_off


def plain_bf16(attended: Asked) -> Tensor:
    """The same question to PyTorch's kernel: the same draws, with keys and values written out for each row."""
    again = Asked(torch.bfloat16, attended.owner)
    rows = len(attended.owner)
    queries = again.random(rows, KEY_HEADS * GROUP, 1, WIDTH)
    new = again.random(rows, KEY_HEADS, 1, WIDTH), again.random(rows, KEY_HEADS, 1, WIDTH)
    keys, values = (
        torch.cat([head[again.owner], own], dim=2).repeat_interleave(GROUP, dim=1)
        for head, own in zip(again.heads[1], new, strict=True)
    )
    mask = torch.cat([again.head_mask[again.owner], torch.ones(rows, 1)], dim=1).bool()[:, None, None]
    return torch.nn.functional.scaled_dot_product_attention(queries, keys, values, mask, scale=SHARP)


def test_a_models_own_attention_comes_back(model: Any) -> None:
    cache, usual = Asked().cache, model.config._attn_implementation

    def cut_off() -> None:
        with cache.attended_by(model, torch.ones(len(OWNER), max(HEADS) + 1), 1):
            assert model.config._attn_implementation == NAME
            raise RuntimeError("power cut")

    with pytest.raises(RuntimeError, match="power cut"):
        cut_off()
    assert model.config._attn_implementation == usual != NAME


@pytest.mark.parametrize("arguments", [{"position_bias": 0.0}, {"s_aux": 0.0}, {"attention_mask": torch.ones(1)}])
def test_what_is_not_known_is_refused(arguments: dict[str, Any]) -> None:
    attention = AttentionInterface()[NAME]
    states = torch.ones(1, 1, 1, 2)
    with pytest.raises(ValueError, match="unsupported argument"):
        attention(None, states, states, states, **{"attention_mask": None, **arguments})


def test_a_cache_that_forgot_tokens_is_refused() -> None:
    heads = DynamicCache()
    heads.update(torch.ones(1, 1, 3, 2), torch.ones(1, 1, 3, 2), 0)
    with pytest.raises(ValueError, match="does not hold keys and values of all tokens"):
        SharedCache(heads, torch.ones(1, 4), [0], 1)


@given(picked=st.lists(st.integers(0, 4), min_size=1, max_size=9))
def test_there_and_back(picked: list[int]) -> None:
    names = sorted(set(picked))
    owner = [names.index(name) for name in picked]
    families, rows = Families(owner, CPU), torch.arange(len(owner) * 12.0).reshape(len(owner), 2, 3, 2)
    folded = families.fold(rows)
    most = max(owner.count(head) for head in owner)
    assert folded.shape == (len(names), 2, 3 * most, 2)
    assert torch.equal(families.unfold(folded), rows)
    for head in range(len(names)):
        mine = torch.cat([rows[row] for row, head_of_row in enumerate(owner) if head_of_row == head], dim=1)
        assert torch.equal(folded[head, :, : mine.shape[1]], mine)
