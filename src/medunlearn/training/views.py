"""The engine's side of the method protocol: how a view computes what a method asks for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from medunlearn.models.batches import Batch, scored_hidden, scored_logits
from medunlearn.models.reference import Reference
from medunlearn.models.sequences import TokenSequence


@dataclass(frozen=True, slots=True)
class Totals:
    """What one side of a whole optimizer step holds, over all its micro-batches: the divisors of its means."""

    tokens: int
    sequences: int

    @staticmethod
    def of(sequences: Sequence[TokenSequence]) -> Totals:
        return Totals(sum(sequence.scored for sequence in sequences), len(sequences))


class _Reductions:
    """Everything in the protocol that follows from ``token_log_probs``."""

    batch: Batch
    totals: Totals

    def token_log_probs(self) -> Tensor:
        raise NotImplementedError

    def sequence_nll(self) -> Tensor:
        log_probs = self.token_log_probs()
        zeros = torch.zeros(self.batch.size, device=log_probs.device)
        return zeros.index_add(0, self.batch.sequence, -log_probs)

    def sequence_tokens(self) -> Tensor:
        return torch.bincount(self.batch.sequence, minlength=self.batch.size)

    def mean_over_tokens(self, values: Tensor) -> Tensor:
        return values.sum() / self.totals.tokens

    def mean_over_sequences(self, values: Tensor) -> Tensor:
        return values.sum() / self.totals.sequences

    def nll(self) -> Tensor:
        return self.mean_over_tokens(-self.token_log_probs())


class ModelView(_Reductions):
    """One micro-batch as the model sees it now; satisfies :class:`medunlearn.methods.protocol.View`."""

    def __init__(self, model: Any, batch: Batch, totals: Totals, reference: Reference | None) -> None:
        self.model, self.batch, self.totals = model, batch, totals
        self._reference = reference
        self._hidden: dict[int, Tensor] = {}

    @cached_property
    def reference(self) -> ReferenceView:
        if self._reference is None:
            raise TypeError("This run keeps no reference: only unlearning has a model before unlearning.")
        return ReferenceView(self._reference, self.batch, self.totals)

    @cached_property
    def _logits(self) -> Tensor:
        return scored_logits(self.model, self.batch)

    def token_log_probs(self) -> Tensor:
        picked = self._logits.gather(1, self.batch.targets[:, None]).squeeze(1)
        return picked - self._logits.logsumexp(dim=1)

    def log_distribution(self) -> Tensor:
        return self._logits.log_softmax(dim=1)

    def hidden(self, layer: int) -> Tensor:
        if layer not in self._hidden:
            self._hidden[layer] = scored_hidden(self.model, self.batch, layer)
        return self._hidden[layer]


class ReferenceView(ModelView):
    """The same micro-batch as the reference sees it: no gradient; sequence likelihoods computed once a run."""

    def __init__(self, reference: Reference, batch: Batch, totals: Totals) -> None:
        super().__init__(reference.model, batch, totals, None)
        self._before = reference

    @cached_property
    def reference(self) -> ReferenceView:
        return self

    @cached_property
    def _logits(self) -> Tensor:
        with self._before.active():
            return scored_logits(self.model, self.batch)

    def hidden(self, layer: int) -> Tensor:
        with self._before.active():
            return super().hidden(layer)

    def sequence_nll(self) -> Tensor:
        kept = self._before.sequence_nll
        if any(key not in kept for key in self.batch.keys):
            for key, value in zip(self.batch.keys, super().sequence_nll().tolist(), strict=True):
                kept.setdefault(key, value)
        return torch.tensor([kept[key] for key in self.batch.keys], device=self.batch.input_ids.device)
