"""Shared prompt prefixes: keys and values are computed once for all prompts with a common prefix.

All questions on one record begin with the same tokens in ``note`` context. A batch of such prompts starts with two
passes: one over the distinct heads (the shared tokens), and one over the branches (each prompt's own tokens) on the
heads' cache. Both are padded on the left. Padding is masked and takes no position, so each prompt is continued
independently; decoding then proceeds as for any other batch.

Not every model supports this: padding in the middle must not push tokens out of a sliding window, and either
attention must accept the heads' cache directly (``shared_cache.py``), or the cache must be repeatable for each
prompt. :func:`way_of` tests it once; other models get whole prompts.
"""

from __future__ import annotations

import inspect
from collections.abc import Collection, Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from torch import Tensor
from transformers import DynamicCache

from medunlearn.generation.cache import preallocated_cache
from medunlearn.generation.shared_cache import SharedCache
from medunlearn.models.decoder import without_router_loss
from medunlearn.models.layouts import LayoutProbe, attention_window
from medunlearn.models.rope import rope_kind, rope_limit
from medunlearn.models.vision.positions import axes_of, last_axes

Way = Literal["once", "repeated", "whole"]
"""The heads' cache is kept once; it is repeated for each prompt; each prompt is run whole."""

Decoding = Literal["cached", "uncached", "alone"]
"""Each step adds a token to the cache; each step runs whole rows; each step runs whole rows one by one."""
_REFUSED = (LookupError, RuntimeError, TypeError, ValueError, AttributeError)

WORTH = 0.25
"""Prompts are kept together where that spares this part of their tokens; a begin token alone spares little."""


@dataclass(frozen=True, slots=True)
class SharedPrompt:
    """A prompt and its division into shared and own tokens.

    Attributes:
        place: index in the caller's list.
        head: number of leading tokens run once for all prompts that share them; less than ``len(ids)``, so that
            every prompt has its own last token, which predicts its answer.
        begun: number of trailing tokens that belong to the answer.
    """

    place: int
    ids: tuple[int, ...]
    head: int = 0
    begun: int = 0


@dataclass(slots=True)
class Pass:
    """Inputs of the next forward pass; R rows.

    Attributes:
        ids: [R, T], the tokens that are not in the cache yet.
        mask: [R, C + T], 1 for real tokens, those in the cache (C) included.
        positions: [R, T], number of real tokens before; [3, R, T] for families with several position axes.
        cache: keys and values of the C tokens before.
    """

    ids: Tensor
    mask: Tensor
    positions: Tensor
    cache: DynamicCache

    def run(self, model: Any) -> Tensor:
        """Logits after the last token, [R, V]; the cache then contains this pass's tokens too."""
        of_cache = {_cache_argument(model): self.cache}
        shared = isinstance(self.cache, SharedCache)
        with self.cache.attended_by(model, self.mask, self.ids.shape[1]) if shared else nullcontext():
            logits: Tensor = model(
                input_ids=self.ids,
                attention_mask=self.mask,
                position_ids=self.positions,
                use_cache=True,
                logits_to_keep=1,
                **of_cache,
                **without_router_loss(model),
            ).logits[:, -1]
        return logits

    def keep(self, rows: Tensor) -> None:
        """Keep only these rows, [K], of the last pass."""
        self.cache.batch_select_indices(rows)
        self.ids, self.mask, self.positions = self.ids[rows], self.mask[rows], self.positions[..., rows, :]

    def follow(self, tokens: Tensor) -> None:
        """Prepare the pass over one more token per row, [R]."""
        self.ids, self.positions = tokens[:, None], self.positions[..., -1:] + 1
        self.mask = torch.cat([self.mask, self.mask.new_ones(len(tokens), 1)], dim=1)


@dataclass(slots=True)
class UncachedPass:
    """Inputs of the next forward pass over whole rows, for a model whose cache does not give its own logits.

    Attributes:
        rows: tokens of each row.
        alone: each row is run by itself, since the model's rows depend on the padding of others.
    """

    rows: list[list[int]]
    pad: int
    alone: bool

    def run(self, model: Any) -> Tensor:
        """Logits after the last token, [R, V]."""
        batches = [[row] for row in self.rows] if self.alone else [self.rows]
        return torch.cat([self._logits(model, rows) for rows in batches])

    def _logits(self, model: Any, rows: list[list[int]]) -> Tensor:
        ids, mask = pad_left(rows, self.pad, model.device)
        positions = _positions(model, rows, mask, ids.shape[1])
        how = {"use_cache": False, "logits_to_keep": 1, **without_router_loss(model)}
        logits: Tensor = model(input_ids=ids, attention_mask=mask, position_ids=positions, **how).logits[:, -1]
        return logits

    def keep(self, rows: Tensor) -> None:
        """Keep only these rows, [K], of the last pass."""
        self.rows = [self.rows[row] for row in rows.tolist()]

    def follow(self, tokens: Tensor) -> None:
        """Prepare the pass with one more token per row, [R]."""
        self.rows = [[*row, token] for row, token in zip(self.rows, tokens.tolist(), strict=True)]


def _cache_argument(model: Any) -> str:
    """The name of a model's argument for its cache."""
    probe = LayoutProbe.of(model)
    if probe.cache_argument is None:
        known = inspect.signature(model.forward).parameters
        probe.cache_argument = "cache_params" if "cache_params" in known else "past_key_values"
    return probe.cache_argument


def arrange(
    model: Any,
    prompts: Sequence[Sequence[int]],
    shared: Sequence[int],
    begun: Sequence[Sequence[int]] = (),
    leave_out: Collection[int] = (),
) -> tuple[list[SharedPrompt], ...]:
    """Prompts to run whole, and prompts to run by head and branch, each list sorted from long to short.

    Long ones come first so that memory runs out at the start or never. Prompts with the same head are adjacent.

    Args:
        shared: number of leading tokens of each prompt that others may share; may be empty.
        begun: known first tokens of each prompt's answer, run with the prompt; may be empty.
        leave_out: indices of prompts to skip.
    """
    heads, begun_answers = shared or [0] * len(prompts), begun or [()] * len(prompts)
    pending = {
        place: SharedPrompt(
            place, (*prompts[place], *begun_answers[place]), heads[place], len(begun_answers[place])
        )
        for place in range(len(prompts))
        if place not in leave_out
    }
    families = _families(pending.values()) if any(prompt.head for prompt in pending.values()) else []
    families = families if families and way_of(model) != "whole" else []
    families.sort(key=lambda family: -family[0].head)
    together = [p for family in families for p in sorted(family, key=lambda p: -len(p.ids))]
    branched = {prompt.place for prompt in together}
    whole = [replace(prompt, head=0) for place, prompt in pending.items() if place not in branched]
    return sorted(whole, key=lambda p: -len(p.ids)), together


def _families(prompts: Iterable[SharedPrompt]) -> list[list[SharedPrompt]]:
    members: dict[tuple[int, ...], list[SharedPrompt]] = {}
    for prompt in prompts:
        members.setdefault(prompt.ids[: prompt.head], []).append(prompt)
    worthwhile = []
    for family in members.values():
        head = min(family[0].head, *(len(prompt.ids) - 1 for prompt in family))
        spared, tokens = (len(family) - 1) * head, sum(len(prompt.ids) for prompt in family)
        if spared >= WORTH * tokens:
            worthwhile.append([replace(prompt, head=head) for prompt in family])
    return worthwhile


def begin(model: Any, prompts: Sequence[SharedPrompt], *, pad: int, most: int) -> Pass | UncachedPass:
    """Prepare the pass that predicts the first token of each prompt's answer.

    Args:
        pad: padding token; any id works.
        most: longest answer in tokens; a sliding window must hold the prompt and the answer.
    """
    decoding = decoding_of(model)
    if decoding != "cached" or _changes_frequencies(model, prompts, most):
        return UncachedPass([[*prompt.ids] for prompt in prompts], pad, decoding == "alone")
    heads = {prompt.ids[: prompt.head]: None for prompt in prompts}
    branch, head = max(len(p.ids) - p.head for p in prompts), max(map(len, heads))
    tokens = sum(map(len, heads)) + sum(len(p.ids) - p.head for p in prompts)
    spares = tokens < sum(len(p.ids) for p in prompts)
    if not spares or head + branch + most > attention_window(model):
        return _whole(model, [prompt.ids for prompt in prompts], pad, most)
    return _branch(model, prompts, list(heads), pad, branch + most, way_of(model))


def _changes_frequencies(model: Any, prompts: Sequence[SharedPrompt], most: int) -> bool:
    """True if an answer changes the rotary frequencies of its prompt, whose cached keys then are not its own."""
    limit = rope_limit(model)
    if all(len(prompt.ids) + most <= limit for prompt in prompts):
        return False
    return rope_kind(model) != "longrope" or any(len(p.ids) <= limit < len(p.ids) + most for p in prompts)


def _whole(model: Any, rows: Sequence[Sequence[int]], pad: int, room: int) -> Pass:
    ids, mask = pad_left(rows, pad, model.device)
    return Pass(ids, mask, _positions(model, rows, mask, ids.shape[1]), preallocated_cache(model, room))


def _branch(
    model: Any, prompts: Sequence[SharedPrompt], heads: list[tuple[int, ...]], pad: int, room: int, way: Way
) -> Pass:
    first = _whole(model, heads, pad, room if way == "repeated" else 0)
    first.run(model)
    row_of = {head: row for row, head in enumerate(heads)}
    owner = [row_of[p.ids[: p.head]] for p in prompts]
    rows = torch.tensor(owner, device=model.device)
    if way == "repeated":
        first.cache.batch_select_indices(rows)
    cache = first.cache if way == "repeated" else SharedCache(first.cache, first.mask, owner, room)
    ids, mask = pad_left([p.ids[p.head :] for p in prompts], pad, model.device)
    mask = torch.cat([first.mask[rows], mask], dim=1)
    return Pass(ids, mask, _positions(model, [p.ids for p in prompts], mask, ids.shape[1]), cache)


def _positions(model: Any, rows: Sequence[Sequence[int]], mask: Tensor, last: int) -> Tensor:
    """Positions of the last tokens of whole rows."""
    pictures = axes_of(model)
    if pictures is None:
        return (mask.cumsum(1) - 1).clamp(min=0)[:, -last:]
    return last_axes(rows, last, pictures).to(mask.device)


def pad_left(rows: Sequence[Sequence[int]], pad: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Token ids and mask of left-padded rows, [R, T] each."""
    longest = max(len(row) for row in rows)
    ids = torch.full((len(rows), longest), pad, dtype=torch.long)
    mask = torch.zeros_like(ids)
    for place, row in enumerate(rows):
        ids[place, longest - len(row) :] = torch.tensor(list(row), dtype=torch.long)
        mask[place, longest - len(row) :] = 1
    return ids.to(device), mask.to(device)


def way_of(model: Any) -> Way:
    """The cheapest way to run prompts with a common head that gives this model's exact logits.

    Tested once per model, on a few tokens.
    """
    probe = LayoutProbe.of(model)
    if probe.prefix_sharing is not None:
        return probe.prefix_sharing
    ways: tuple[Way, ...] = ("once", "repeated")
    way: Way = next((way for way in ways if _agrees(model, way)), "whole")
    probe.prefix_sharing = way
    return way


def decoding_of(model: Any) -> Decoding:
    """The cheapest way to go on from prompts in a batch that gives the logits of whole prompts alone.

    Tested once per model, on a few tokens, with rows that end before others.
    """
    probe = LayoutProbe.of(model)
    if probe.decoding is not None:
        return probe.decoding
    ways: tuple[Decoding, ...] = ("cached", "uncached")
    decoding: Decoding = next((way for way in ways if _decodes(model, way)), "alone")
    probe.decoding = decoding
    return decoding


@torch.inference_mode()
def _decodes(model: Any, way: Decoding) -> bool:
    vocabulary, device = model.config.get_text_config().vocab_size, model.device
    rows = [[(step * step + 5 * step + seed) % vocabulary for step in range(seed)] for seed in (6, 2, 3)]
    steps = torch.tensor([[3, 5, 7], [4, 6, 8]], device=device) % vocabulary
    training = model.training
    model.eval()
    try:
        now = _whole(model, rows, 0, 3) if way == "cached" else UncachedPass(rows, 0, alone=False)
        outputs = [now.run(model)]
        now.follow(steps[0])
        outputs.append(now.run(model))
        now.keep(torch.tensor([2, 0], device=device))
        now.follow(steps[1, [2, 0]])
        outputs.append(now.run(model))
        alone = UncachedPass(rows, 0, alone=True)
        expected = [alone.run(model)]
        alone.follow(steps[0])
        expected.append(alone.run(model))
        alone.follow(steps[1])
        expected.append(alone.run(model)[[2, 0]])
    except _REFUSED:
        return False
    finally:
        model.train(training)
    return _near(model, torch.cat(outputs), torch.cat(expected))


def _near(model: Any, ours: Tensor, theirs: Tensor) -> bool:
    tolerance = 1e-4 if next(model.parameters()).dtype == torch.float32 else 5e-2
    return bool((ours.float() - theirs.float()).abs().max() <= tolerance * theirs.float().abs().max())


@torch.inference_mode()
def _agrees(model: Any, way: Way) -> bool:
    vocabulary = model.config.get_text_config().vocab_size
    heads = [[(5 * step + 2) % vocabulary for step in range(3)], [4 % vocabulary]]
    tails = [[1], [6, 1, 3], [7, 2]]
    few = [
        SharedPrompt(place, (*head, *(token % vocabulary for token in tail)), len(head))
        for place, (head, tail) in enumerate(zip([heads[0], heads[0], heads[1]], tails, strict=True))
    ]
    training = model.training
    model.eval()
    try:
        together = _few_steps(model, _branch(model, few, [tuple(head) for head in heads], 0, 5, way), [2, 1])
        alone = [_few_steps(model, _whole(model, [prompt.ids], 0, 2), [0]) for prompt in few]
    except _REFUSED:
        return False
    finally:
        model.train(training)
    apart = torch.cat([*(first for first, _ in alone), alone[2][1], alone[1][1]])
    return _near(model, torch.cat(together), apart)


def _few_steps(model: Any, now: Pass, rows: list[int]) -> tuple[Tensor, Tensor]:
    """Logits of the first pass, and of a second pass with some of the rows."""
    first = now.run(model)
    now.keep(torch.tensor(rows, device=now.ids.device))
    now.follow(now.ids.new_full((len(rows),), 1))
    return first, now.run(model)
