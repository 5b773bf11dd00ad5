"""Which passes a loss asks for, found by showing it views that write it down."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from medunlearn.models.batches import Batch
from medunlearn.models.reference import Reference
from medunlearn.training.views import ModelView, Totals


@dataclass(frozen=True, order=True)
class Ask:
    """One pass that a loss asks for.

    Attributes:
        side: whose micro-batch.
        layer: the pass ends behind this layer; -1 for the whole model with its head.
        before: of the reference, which has no gradient.
        once: its result is kept for the run.
    """

    side: str
    layer: int = -1
    before: bool = False
    once: bool = False


class AskedView(ModelView):
    """A view of a hollow model; writes down which passes are asked for."""

    def __init__(self, model: Any, batch: Batch, side: str, asks: set[Ask], reference: Reference | None) -> None:
        super().__init__(model, batch, Totals(1, 1), None)
        self.side, self.asks, self._kept = side, asks, reference

    @cached_property
    def reference(self) -> Any:
        return AskedBefore(self.model, self.batch, self.side, self.asks, self._kept)

    def _note(self, layer: int = -1) -> None:
        self.asks.add(Ask(self.side, layer))

    def token_log_probs(self) -> Tensor:
        self._note()
        return super().token_log_probs()

    def log_distribution(self) -> Tensor:
        self._note()
        return super().log_distribution()

    def hidden(self, layer: int) -> Tensor:
        self._note(layer)
        return super().hidden(layer)

    def sequence_tokens(self) -> Tensor:
        # To count them takes their content.
        return torch.ones(self.batch.size, device=self.batch.input_ids.device)


class AskedBefore(AskedView):
    """The same of the reference."""

    @cached_property
    def reference(self) -> Any:
        return self

    def _note(self, layer: int = -1) -> None:
        self.asks.add(Ask(self.side, layer, before=True))

    def token_log_probs(self) -> Tensor:
        with self._active():
            return super().token_log_probs()

    def log_distribution(self) -> Tensor:
        with self._active():
            return super().log_distribution()

    def hidden(self, layer: int) -> Tensor:
        with self._active():
            return super().hidden(layer)

    def sequence_nll(self) -> Tensor:
        # What the run keeps of it, a number a sequence, is no pass that is asked for again.
        known = set(self.asks)
        value = super().sequence_nll()
        self.asks.intersection_update(known)
        self.asks.add(Ask(self.side, before=True, once=True))
        return value

    def _active(self) -> Any:
        return self._kept.active() if self._kept is not None else nullcontext()
