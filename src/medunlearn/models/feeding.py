"""Probe of the batch layouts that a model supports: packed, masked or padded.

Each layout is tried once on a few tokens and compared with the model's own forward pass. A layout that does not
give the model's own numbers is not used: its attention may refuse a custom mask or keep its sliding window to
itself, or a module may follow the head. The last resort is a padded batch of whole sequences. Runs record the
result.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal
from weakref import WeakKeyDictionary

import torch
from torch import nn
from torch._subclasses.fake_tensor import unset_fake_temporarily

from medunlearn.models import branches
from medunlearn.models.batches import Batch, collate
from medunlearn.models.decoder import Decoder, Trunk, Ways
from medunlearn.models.packing import pack, pack_for_branches, saves_tokens
from medunlearn.models.sequences import TokenSequence
from medunlearn.models.vision.positions import axes_of, with_axes

Made = Literal["batches", "too long"]
"""All batches, and those padded for a sequence that is longer than the model's packed rows take."""

_WAYS: WeakKeyDictionary[nn.Module, Ways] = WeakKeyDictionary()
_MADE: WeakKeyDictionary[nn.Module, Counter[Made]] = WeakKeyDictionary()
_REFUSED = (RuntimeError, TypeError, ValueError, IndexError, KeyError, AttributeError)


def decoder_of(model: Any) -> Decoder:
    """Forward passes of the model in the best layout it supports; probed on the first call for a model."""
    if model not in _WAYS:
        _WAYS[model] = _found(model)
    return Decoder(model, _WAYS[model])


def assume(model: Any) -> None:
    """Feed a model of fake tensors as most models are: it cannot be tried."""
    capped = getattr(model.config.get_text_config(), "attn_logit_softcapping", None) is not None
    head = type(model.get_output_embeddings()) is nn.Linear
    how: tuple[Literal["masks", "branches"], float] = ("masks", window(model)) if capped else ("branches", math.inf)
    _WAYS[model] = Ways(how[0], head, True, True, how[1])
    if not capped:
        model.set_attn_implementation(branches.NAME)


def make_batch(model: Any, sequences: Sequence[TokenSequence], pad: int, device: torch.device) -> Batch:
    """The cheapest batch that the model can take."""
    counts = _MADE.setdefault(model, Counter())
    counts["batches"] += 1
    counts["too long"] += _too_long(model, sequences)
    make = {"branches": pack_for_branches, "masks": pack, "padded": collate}[laid_out(model, sequences)]
    # A rehearsal on fake tensors has real batches, since their shapes depend on their contents.
    with unset_fake_temporarily():
        batch, pictures = make(sequences, pad, device), axes_of(model)
        _ = batch.predicting
    return batch if pictures is None else with_axes(batch, sequences, pictures)


def laid_out(model: Any, sequences: Sequence[TokenSequence]) -> Literal["branches", "masks", "padded"]:
    """How the cheapest batch of these sequences is laid out that the model can take."""
    attention = decoder_of(model).ways.attention
    if not _too_long(model, sequences):
        if attention == "branches" and _attention_of(model) == branches.NAME:
            return "branches"
        if attention == "masks" and saves_tokens(sequences):
            return "masks"
    return "padded"


def window(model: Any) -> float:
    """The shortest sliding window or chunk of a model's attention in tokens; infinite without one."""
    return min(size or math.inf for size in _windows(model))


def _windows(model: Any) -> list[int | None]:
    """The sliding window of each layer's attention in tokens, or the chunk that it keeps to; None without one."""
    config = model.config.get_text_config()
    sliding, chunk = (getattr(config, name, None) for name in ("sliding_window", "attention_chunk_size"))
    kinds = getattr(config, "layer_types", None) or ["sliding"] * config.num_hidden_layers
    return [chunk if "chunked" in kind else sliding if "sliding" in kind else None for kind in map(str, kinds)]


def _too_long(model: Any, sequences: Sequence[TokenSequence]) -> bool:
    return max(len(sequence.ids) for sequence in sequences) > decoder_of(model).ways.longest


def made(model: Any) -> dict[Made, int]:
    """Batches made for the model so far, by kind."""
    return dict(_MADE.get(model, {}))


def described(model: Any, since: Mapping[Made, int] | None = None) -> str:
    """How the model is fed and, where that differs from batch to batch, how many were padded.

    Args:
        since: what :func:`made` said before; batches from then on are counted, otherwise all.
    """
    batches, long = (made(model).get(kind, 0) - (since or {}).get(kind, 0) for kind in ("batches", "too long"))
    ways = decoder_of(model).ways
    how = {
        "branches": "packed: shared text once, attention by branches",
        "masks": "packed: shared text once, attention by a dense mask",
        "padded": "padded: the model takes no layout or mask of ours, so shared text is run for every question",
    }[ways.attention]
    missing = [name for name in ("head", "layers", "mlp") if not getattr(ways, name)]
    if long:
        how += f"; padded {long} of {batches} batches: longer than the window of {ways.longest} tokens"
    return how + ("; whole " + ", ".join(missing) if missing else "")


def _attention_of(model: Any) -> str | None:
    return getattr(model.config.get_text_config(), "_attn_implementation", None)


@torch.no_grad()
def _found(model: Any) -> Ways:
    """Layouts and shortcuts that give the model's own logits, probed one after the other."""
    device, few = next(model.parameters()).device, _few(model.config.get_text_config().vocab_size)
    training = model.training
    model.eval()
    try:
        with torch.autocast(device.type, enabled=False):
            return _compared(model, few, device)
    finally:
        model.train(training)


def _compared(model: Any, few: Sequence[TokenSequence], device: torch.device) -> Ways:
    apart, ways = collate(few, 0, device), Ways()
    own = Decoder(model, ways).logits(apart)
    tolerance = 1e-4 if next(model.parameters()).dtype.itemsize >= 4 else 5e-2

    def works(tried: Ways, *batches: Batch) -> bool:
        decoder = Decoder(model, tried)
        try:
            found = []
            for batch in batches:
                split = tried.layers and len(decoder.layers) > 1
                trunk = Trunk(1, decoder.trunk(batch, 1)) if split else None
                found.append(decoder.logits(batch, trunk))
        except _REFUSED:
            return False
        return all((logits - own).abs().max() <= tolerance * own.abs().max() for logits in found)

    if type(model.get_output_embeddings()) is nn.Linear and works(replace(ways, head=True), apart):
        ways = replace(ways, head=True)
    if works(replace(ways, layers=True), apart):
        ways = replace(ways, layers=True)
    if works(replace(ways, mlp=True), apart):
        ways = replace(ways, mlp=True)
    if _attention_of(model) in ("sdpa", branches.NAME):
        model.set_attn_implementation(branches.NAME)
        tried = replace(ways, attention="branches")
        packed = pack_for_branches(few, 0, device)
        if works(tried, packed, apart):
            # The few tokens are shorter than a window: that it holds is known where attention hands it over.
            assert packed.layout is not None
            keeps = list(packed.layout.windows.values()) == _windows(model)
            return tried if keeps else replace(tried, longest=window(model))
        model.set_attn_implementation("sdpa")
    tried = replace(ways, attention="masks", longest=window(model))
    return tried if works(tried, pack(few, 0, device)) else ways


def _few(vocabulary: int) -> list[TokenSequence]:
    """Two sequences by themselves, and three with a beginning in common; all short, since some windows are."""

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
