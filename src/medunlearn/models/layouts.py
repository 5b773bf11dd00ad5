"""Probe of the batch layouts that a model supports: packed, masked or padded.

Each layout is tested once on a few tokens against the model's own forward pass. A layout with other results is not
used: the model's attention may not support a custom mask or may apply its own sliding window, or a module may
follow the head. The fallback is a padded batch of whole sequences. The result is stored on the model
(:class:`LayoutProbe`), and runs record it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import torch
from torch import nn
from torch._subclasses.fake_tensor import unset_fake_temporarily

from medunlearn.models import branches
from medunlearn.models.batches import Batch, collate
from medunlearn.models.decoder import Decoder, LayoutSupport, Trunk
from medunlearn.models.memo import Memo
from medunlearn.models.packing import pack, pack_for_branches, saves_tokens
from medunlearn.models.rope import rope_kind, rope_limit
from medunlearn.models.sequences import TokenSequence
from medunlearn.models.vision.positions import axes_of, with_axes

_REFUSED = (RuntimeError, TypeError, ValueError, IndexError, KeyError, AttributeError)


@dataclass(frozen=True, slots=True)
class BatchCounts:
    """Numbers of batches made for a model, and of those padded because a sequence exceeds the packed layout's
    window.
    """

    batches: int = 0
    too_long: int = 0

    def __sub__(self, earlier: BatchCounts) -> BatchCounts:
        return BatchCounts(self.batches - earlier.batches, self.too_long - earlier.too_long)


@dataclass
class LayoutProbe:
    """Probed properties of one model, stored on it.

    Attributes:
        support: layouts and shortcuts that give the model's own logits; None before the first batch.
        rounded: layers compute in bfloat16 although weights are fp32, so layouts agree only to that precision.
        counts: batches made so far.
        prefix_sharing: generation's way of sharing prompt prefixes (:mod:`medunlearn.generation.sharing`); None
            before the first prompt.
        decoding: generation's way of going on from a prompt; None before the first prompt.
        cache_argument: name of the model's argument for its cache; None before the first prompt.
        batches: cached batches of earlier models of this shape; None: no cache.
    """

    support: LayoutSupport | None = None
    rounded: bool = False
    counts: BatchCounts = field(default_factory=BatchCounts)
    prefix_sharing: Literal["once", "repeated", "whole"] | None = None
    decoding: Literal["cached", "uncached", "alone"] | None = None
    cache_argument: str | None = None
    batches: Memo | None = None

    @staticmethod
    def of(model: Any) -> LayoutProbe:
        """The probe of the model itself, not of a wrapped model."""
        if "_layout_probe" not in vars(model):
            object.__setattr__(model, "_layout_probe", LayoutProbe())
        probe: LayoutProbe = vars(model)["_layout_probe"]
        return probe


def decoder_of(model: Any) -> Decoder:
    """Forward passes of the model in its best supported layout; probed on the first call."""
    probe = LayoutProbe.of(model)
    if probe.support is None:
        probe.support = _probe(model)
    return Decoder(model, probe.support)


def assume_layouts(model: Any) -> None:
    """Assume the usual support for a model on fake tensors, which cannot be probed."""
    capped = getattr(model.config.get_text_config(), "attn_logit_softcapping", None) is not None
    head = type(model.get_output_embeddings()) is nn.Linear
    if capped:
        LayoutProbe.of(model).support = LayoutSupport("masks", head, True, True, attention_window(model))
    else:
        LayoutProbe.of(model).support = LayoutSupport("branches", head, True, True)
        model.set_attn_implementation(branches.NAME)


def make_batch(model: Any, sequences: Sequence[TokenSequence], pad: int, device: torch.device) -> Batch:
    """The cheapest batch layout that the model supports."""
    probe = LayoutProbe.of(model)
    too_long = probe.counts.too_long + _too_long(model, sequences)
    probe.counts = BatchCounts(probe.counts.batches + 1, too_long)
    layout = _layout_of(model, sequences)
    if probe.batches is None:
        return _make_batch(model, layout, sequences, pad, device)
    key = (layout, pad, *sequences)
    return probe.batches.get(key, lambda: _make_batch(model, layout, sequences, pad, device), _batch_size)


def _make_batch(
    model: Any, layout: str, sequences: Sequence[TokenSequence], pad: int, device: torch.device
) -> Batch:
    make = {"branches": pack_for_branches, "masks": pack, "padded": collate}[layout]
    # A rehearsal on fake tensors has real batches, since their shapes depend on their contents.
    with unset_fake_temporarily():
        batch, pictures = make(sequences, pad, device), axes_of(model)
        if layout == "padded" and rope_kind(model):
            batch = replace(batch, position_ids=_own_positions(sequences, batch))
        _ = batch.distinct, batch.repeats
    return batch if pictures is None else with_axes(batch, sequences, pictures)


def _own_positions(sequences: Sequence[TokenSequence], batch: Batch) -> torch.Tensor:
    """Positions of padded rows that end with those of the sequence, [R, T]."""
    ends = torch.tensor([[len(sequence.ids) - 1] for sequence in sequences], device=batch.input_ids.device)
    return torch.minimum(torch.arange(batch.input_ids.shape[1], device=ends.device)[None], ends)


def _batch_size(batch: Batch) -> int:
    """Tokens that a batch keeps in memory; a dense mask counts by its size."""
    return sum(map(len, batch.columns)) + batch.input_ids.numel() + batch.attention_mask.numel() // 8


def _layout_of(model: Any, sequences: Sequence[TokenSequence]) -> Literal["branches", "masks", "padded"]:
    attention = decoder_of(model).support.attention
    if not _too_long(model, sequences):
        if attention == "branches" and _attention_of(model) == branches.NAME:
            return "branches"
        if attention == "masks" and saves_tokens(sequences):
            return "masks"
    return "padded"


def attention_window(model: Any) -> float:
    """The longest sequence in tokens that every layer treats alike; infinite without such a bound.

    It is within the shortest sliding window or chunk of attention, and has constant rotary frequencies
    (:func:`medunlearn.models.rope.rope_limit`).
    """
    return min(rope_limit(model), *(size or math.inf for size in _windows(model)))


def _windows(model: Any) -> list[int | None]:
    """Each layer's sliding window or attention chunk in tokens; None without one."""
    config = model.config.get_text_config()
    sliding, chunk = (getattr(config, name, None) for name in ("sliding_window", "attention_chunk_size"))
    kinds = getattr(config, "layer_types", None) or ["sliding"] * config.num_hidden_layers
    return [chunk if "chunked" in kind else sliding if "sliding" in kind else None for kind in map(str, kinds)]


def _too_long(model: Any, sequences: Sequence[TokenSequence]) -> bool:
    return max(len(sequence.ids) for sequence in sequences) > decoder_of(model).support.longest


def batch_counts(model: Any) -> BatchCounts:
    """Batches made for the model so far."""
    return LayoutProbe.of(model).counts


def describe_layouts(model: Any, since: BatchCounts | None = None) -> str:
    """The layout of the model's batches, with the number of padded ones if layouts differ.

    Args:
        since: an earlier :func:`batch_counts`; only later batches are counted.
    """
    counts = batch_counts(model) - (since or BatchCounts())
    support = decoder_of(model).support
    text = {
        "branches": "packed: shared text once, attention by branches",
        "masks": "packed: shared text once, attention by a dense mask",
        "padded": "padded: the model takes no layout or mask of ours, so shared text is run for every question",
    }[support.attention]
    missing = [name for name in ("head", "layers", "mlp") if not getattr(support, name)]
    if counts.too_long:
        padded = f"padded {counts.too_long} of {counts.batches} batches"
        text += f"; {padded}: longer than the window of {support.longest} tokens"
    return text + ("; whole " + ", ".join(missing) if missing else "")


def _attention_of(model: Any) -> str | None:
    return getattr(model.config.get_text_config(), "_attn_implementation", None)


@torch.no_grad()
def _probe(model: Any) -> LayoutSupport:
    """Probe which layouts and shortcuts give the model's own logits, one after the other."""
    device, examples = next(model.parameters()).device, _examples(model.config.get_text_config().vocab_size)
    training = model.training
    model.eval()
    try:
        with torch.autocast(device.type, enabled=False):
            return _supported_layouts(model, examples, device)
    finally:
        model.train(training)


def _supported_layouts(model: Any, examples: Sequence[TokenSequence], device: torch.device) -> LayoutSupport:
    padded, support = collate(examples, 0, device), LayoutSupport()
    expected = Decoder(model, support).logits(padded)
    exact = next(model.parameters()).dtype.itemsize >= 4 and not LayoutProbe.of(model).rounded
    tolerance = 1e-4 if exact else 5e-2

    def agrees(candidate: LayoutSupport, *batches: Batch) -> bool:
        decoder = Decoder(model, candidate)
        try:
            outputs = []
            for batch in batches:
                split = candidate.layers and len(decoder.layers) > 1
                trunk = Trunk(1, decoder.trunk(batch, 1)) if split else None
                outputs.append(decoder.logits(batch, trunk))
        except _REFUSED:
            return False
        return all((logits - expected).abs().max() <= tolerance * expected.abs().max() for logits in outputs)

    if type(model.get_output_embeddings()) is nn.Linear and agrees(replace(support, head=True), padded):
        support = replace(support, head=True)
    if agrees(replace(support, layers=True), padded):
        support = replace(support, layers=True)
    if agrees(replace(support, mlp=True), padded):
        support = replace(support, mlp=True)
    if _attention_of(model) in ("sdpa", branches.NAME):
        model.set_attn_implementation(branches.NAME)
        candidate = replace(support, attention="branches")
        packed = pack_for_branches(examples, 0, device)
        if agrees(candidate, packed, padded):
            # The examples are shorter than a window. That it holds is known where attention hands it over.
            assert packed.layout is not None
            keeps = list(packed.layout.windows.values()) == _windows(model)
            return replace(candidate, longest=rope_limit(model) if keeps else attention_window(model))
        model.set_attn_implementation("sdpa")
    candidate = replace(support, attention="masks", longest=attention_window(model))
    return candidate if agrees(candidate, pack(examples, 0, device)) else support


def _examples(vocabulary: int) -> list[TokenSequence]:
    """Two separate sequences, and three with a common beginning; all short, since some windows are."""

    def tokens(length: int, place: int) -> tuple[int, ...]:
        return tuple((7 * place + 3 * step * step + step) % vocabulary for step in range(length))

    head = tokens(4, 2)
    alone = [TokenSequence(str(place), tokens(length, place), 0, 1) for place, length in enumerate((8, 4))]
    ends = [(1, 2, 3), (4, 5, 6, 7), (8,)]
    together = [
        TokenSequence(f"b{place}", (*head, *(token % vocabulary for token in end)), 4, 4)
        for place, end in enumerate(ends)
    ]
    return alone + together
