"""Views of a micro-batch for methods: lazy model and reference outputs."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

import torch
from torch import Tensor

from medunlearn.models import head
from medunlearn.models.activation_cache import cache_key
from medunlearn.models.batches import Batch
from medunlearn.models.decoder import Decoder, Trunk
from medunlearn.models.forward_outputs import ForwardOutputs
from medunlearn.models.head import Head
from medunlearn.models.layouts import decoder_of
from medunlearn.models.reference import Reference
from medunlearn.models.sequences import Positions, TokenSequence

TRUNK, LOG_PROBS, FINAL, HIDDEN = "trunk", "log_probs", "final", "hidden:{}"
"""Kinds of cached tensors: trunk output at a sequence's own and shared tokens; at its scored tokens the
log-probabilities, the inputs of the head, and the output of a layer. :func:`kind_at` names them elsewhere."""


def kind_at(kind: str, positions: Positions) -> str:
    """Name of a kind of cached tensor at some positions."""
    return kind if positions == "predicting" else f"{kind}@{positions}"


def split_kind(name: str) -> tuple[str, Positions]:
    """Kind and positions of a name made by :func:`kind_at`."""
    kind, _, positions = name.partition("@")
    return kind, cast(Positions, positions or "predicting")


@dataclass(frozen=True, slots=True)
class Totals:
    """Counts of one side of an optimizer step: the divisors of its means.

    Attributes:
        tokens: number of scored tokens.
        length: total number of tokens, with shared ones counted once per sequence.
        inverse_tokens: sum over the sequences of 1 / number of scored tokens.
    """

    tokens: int
    sequences: int
    length: int = 1
    inverse_tokens: float = 1.0

    @staticmethod
    def of(sequences: Sequence[TokenSequence]) -> Totals:
        return Totals(
            sum(sequence.scored for sequence in sequences),
            len(sequences),
            sum(len(sequence.ids) for sequence in sequences),
            math.fsum(1 / sequence.scored for sequence in sequences),
        )


class ModelView(ForwardOutputs):
    """One micro-batch under the current model; implements :class:`medunlearn.methods.protocol.View`."""

    positions: Positions = "predicting"

    def __init__(self, model: Any, batch: Batch, totals: Totals, reference: Reference | None) -> None:
        super().__init__(decoder_of(model), batch)
        self.totals = totals
        self._model, self._reference = model, reference
        self._elsewhere: dict[Positions, ModelView] = {"predicting": self}

    def at(self, positions: Positions) -> ModelView:
        """The same micro-batch at other positions."""
        if positions not in self._elsewhere:
            view = ModelView(self._model, self.batch.at(positions), self.totals, self._reference)
            view.positions, view._elsewhere = positions, self._elsewhere
            self._elsewhere[positions] = view
        return self._elsewhere[positions]

    @cached_property
    def trunk(self) -> Trunk | None:
        """Cached output of the frozen prefix layers; identical across passes and epochs."""
        if self.positions != "predicting":
            return self.at("predicting").trunk
        count = self.decoder.first_trained()
        return trunk_of(self.decoder, self.batch, count, self._reference) if count else None

    @cached_property
    def reference(self) -> ReferenceView:
        if self._reference is None:
            raise TypeError("This run has no reference model: only unlearning has one.")
        return ReferenceView(self._reference, self)

    def token_log_probs(self) -> Tensor:
        self._targets()
        return self.log_probs

    def log_distribution(self) -> Tensor:
        return self.logits.log_softmax(dim=1)

    def caps(self) -> Tensor:
        return self._of_tokens([cap for sequence in self.batch.sequences for cap in sequence.caps])

    def floors(self) -> Tensor:
        own = (sequence.floors or (-math.inf,) * sequence.scored for sequence in self.batch.sequences)
        return self._of_tokens([floor for floors in own for floor in floors])

    def _of_tokens(self, values: list[float]) -> Tensor:
        return torch.tensor(values, dtype=torch.float32, device=self.batch.row.device)

    def divergence_from_reference(self) -> Tensor:
        before = self.reference
        if self.decoder.support.head:
            return self._against(before, head.divergence)
        expected, actual = before.log_distribution(), self.log_distribution()
        return (expected.exp() * (expected - actual)).sum(dim=1)

    def jensen_shannon_from_reference(self) -> Tensor:
        before = self.reference
        if self.decoder.support.head:
            return self._against(before, head.jensen_shannon)
        both = before.log_distribution(), self.log_distribution()
        middle = torch.logaddexp(*both) - math.log(2)
        return 0.5 * sum(((each.exp() * (each - middle)).sum(dim=1) for each in both), torch.zeros(()))

    def _against(self, before: ReferenceView, measure: Callable[[Head, Tensor, Head, Tensor], Tensor]) -> Tensor:
        """A measure of two distributions at each position; computed once for a position that sequences share."""
        now, then, repeats = self.final, before.final, self.batch.repeats
        if repeats is None:
            return measure(self.head, now, before.head, then)
        first, place = repeats
        return measure(self.head, now[first], before.head, then[first])[place]

    def distillation(self, teacher: Any, lowered: float) -> Tensor:
        targets = self._targets()
        if self.decoder.support.head:
            return head.distillation(self.head, self.final, targets, lowered, teacher.head, teacher.final)
        goal = head.lower(teacher.logits.detach().clone(), targets, lowered).softmax(dim=1)
        return -(goal * self.log_distribution()).sum(dim=1)

    def margin(self) -> Tensor:
        if self.decoder.support.head:
            return head.margin(self.head, self.final)
        return (self.logits.max(dim=1).values - self.logits.mean(dim=1)).square()

    def _targets(self) -> Tensor:
        """The tokens that the positions predict, [N]."""
        if self.positions != "predicting":
            raise TypeError(f"Tokens are predicted at the predicting positions, not at {self.positions!r}.")
        return self.batch.targets

    def hidden(self, layer: int) -> Tensor:
        if layer not in self._hidden:
            self._hidden[layer] = self.decoder.hidden(self.batch, layer, self.trunk)
        return self._hidden[layer]

    def sequence_sums(self, values: Tensor) -> Tensor:
        return values.new_zeros(self.batch.size, *values.shape[1:]).index_add(0, self.batch.sequence, values)

    def sequence_means(self, values: Tensor) -> Tensor:
        counts = self.sequence_sums(values.new_ones(len(values)))
        return self.sequence_sums(values) / counts[:, None]

    def of_sequences(self, values: Tensor) -> Tensor:
        return values[self.batch.sequence]

    def sequence_nll(self) -> Tensor:
        return self.sequence_sums(-self.token_log_probs())

    def sequence_tokens(self) -> Tensor:
        sequence = self.batch.sequence
        return sequence.new_zeros(self.batch.size).index_add(0, sequence, torch.ones_like(sequence))

    def mean_over_tokens(self, values: Tensor) -> Tensor:
        return values.sum() / (self.totals.length if self.positions == "all" else self.totals.tokens)

    def mean_over_sequences(self, values: Tensor) -> Tensor:
        return values.sum() / self.totals.sequences

    def mean_inverse_tokens(self) -> float:
        return self.totals.inverse_tokens / self.totals.sequences

    def nll(self) -> Tensor:
        return self.mean_over_tokens(-self.token_log_probs())


class ReferenceView(ModelView):
    """Outputs of the reference model for the same micro-batch: without gradient, with cached tensors."""

    def __init__(self, reference: Reference, now: ModelView) -> None:
        ForwardOutputs.__init__(self, now.decoder, now.batch)
        self._now, self.positions = now, now.positions
        self.totals, self._reference, self._before = now.totals, reference, reference

    def at(self, positions: Positions) -> ModelView:
        return self._now.at(positions).reference

    @cached_property
    def reference(self) -> ReferenceView:
        return self

    @cached_property
    def trunk(self) -> Trunk | None:
        return self._now.trunk

    @cached_property
    def head(self) -> Head:
        return self._before.head(self.decoder)

    @cached_property
    def final(self) -> Tensor:
        return self._cached_or(FINAL, lambda: self.decoder.final(self.batch, self.trunk))

    @cached_property
    def logits(self) -> Tensor:
        if self.decoder.support.head:
            return self.head.logits(self.final)
        trunk = self.trunk
        with self._before.active():
            return self.decoder.logits(self.batch, trunk)

    @cached_property
    def log_probs(self) -> Tensor:
        return self._cached_or(LOG_PROBS, lambda: ForwardOutputs(self.decoder, self.batch, self.trunk).log_probs)

    def hidden(self, layer: int) -> Tensor:
        if layer not in self._hidden:
            compute = lambda: self.decoder.hidden(self.batch, layer, self.trunk)  # noqa: E731
            self._hidden[layer] = self._cached_or(HIDDEN.format(layer), compute)
        return self._hidden[layer]

    def _cached_or(self, what: str, compute: Callable[[], Tensor]) -> Tensor:
        names = [cache_key(kind_at(what, self.positions), sequence.key) for sequence in self.batch.sequences]
        if all(name in self._before.cache for name in names):
            return torch.cat([self._before.cache[name] for name in names]).to(self.batch.input_ids.device)
        _ = self.trunk  # before the model is switched: it is the model's as much as the reference's
        with self._before.active():
            return compute()


def trunk_of(decoder: Decoder, batch: Batch, count: int, reference: Reference | None) -> Trunk:
    """Output of the first ``count`` layers, cached or computed."""
    names = [cache_key(TRUNK, span.name) for span in batch.spans]
    if reference is None or not all(name in reference.cache for name in names):
        return Trunk(count, decoder.trunk(batch, count))
    parts = [reference.cache[name] for name in names]
    states = parts[0].new_zeros(*batch.input_ids.shape, parts[0].shape[1])
    for span, part in zip(batch.spans, parts, strict=True):
        states[span.row, span.start : span.stop] = part
    return Trunk(count, states.to(batch.input_ids.device))
