"""Rotary positions whose frequencies depend on the length of a sequence: longrope (Phi-3) and dynamic NTK.

transformers takes the longest sequence of a batch for all of its rows, and dynamic NTK keeps the frequencies of the
longest sequence so far. Here each row has the frequencies of its own length, so its numbers are those that it has
alone in a fresh model.
"""

from __future__ import annotations

import math
from typing import Any, Literal

import torch
from torch import Tensor, nn

Kind = Literal["longrope", "dynamic"]
_CLASSES: dict[Any, Any] = {}


def length_dependent(module: nn.Module) -> Kind | None:
    """The kind of a rotary module whose frequencies depend on the length of a sequence; None for others."""
    kind = getattr(module, "rope_type", None)
    if kind == "longrope":
        return "longrope"
    return "dynamic" if isinstance(kind, str) and "dynamic" in kind else None


def rope_kind(model: Any) -> Kind | None:
    """The kind of a model's rotary positions if they depend on the length of a sequence."""
    return next(filter(None, map(length_dependent, model.modules())), None)


def rope_limit(model: Any) -> float:
    """The longest sequence in tokens with the usual frequencies; infinite if a model has no others."""
    return min((_limit(module) for module in model.modules() if length_dependent(module)), default=math.inf)


def make_independent_of_batches(model: Any) -> None:
    """Give each row of a batch the frequencies of its own length."""
    for module in list(model.modules()):
        if length_dependent(module) and not isinstance(module, _ByRow):
            module.__class__ = _by_row(type(module))


def _limit(module: Any) -> int:
    if length_dependent(module) == "longrope":
        return int(module.config.rope_parameters["original_max_position_embeddings"])
    return int(module.original_max_seq_len)


class _ByRow(nn.Module):
    """Rotary module that treats rows of different lengths separately."""

    def forward(self, x: Tensor, position_ids: Tensor, *more: Any) -> tuple[Tensor, Tensor]:
        """Cosines and sines, [R, T, width] each, for positions [R, T]."""
        limit = _limit(self)
        plain: Any = super()
        longrope = length_dependent(self) == "longrope"
        lengths = [length if length > limit else 0 for length in (position_ids.amax(-1) + 1).tolist()]
        classes = [min(length, 1) if longrope else length for length in lengths]

        def compute(rows: Tensor) -> tuple[Tensor, Tensor]:
            if not longrope:  # as in a model that saw no sequence yet
                self.max_seq_len_cached = self.original_max_seq_len
                self.inv_freq = self.original_inv_freq.to(rows.device)
            waves: tuple[Tensor, Tensor] = plain.forward(x, rows, *more)
            return waves

        if len({*classes}) == 1:
            return compute(position_ids)
        parts: list[Any] = [None] * len(classes)
        for own in {*classes}:
            places = [place for place, other in enumerate(classes) if other == own]
            for place, *pair in zip(places, *compute(position_ids[places]), strict=True):
                parts[place] = pair
        cosines, sines = (torch.stack(part) for part in zip(*parts, strict=True))
        return cosines, sines


def _by_row(kind: Any) -> Any:
    """The subclass of a rotary module's class that treats rows separately; made once."""
    if kind not in _CLASSES:
        _CLASSES[kind] = type(kind.__name__, (_ByRow, kind), {})
    return _CLASSES[kind]
