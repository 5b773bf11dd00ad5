"""Precomputed reference outputs and frozen activations, which are equal in every epoch.

They are computed before the first step, while the model still equals its reference. For each side that a run passes
through more than once it caches the reference outputs used by the method (log-probabilities, inputs of the head,
outputs of a layer) and the output of the frozen layers. Without frozen layers, the reference outputs of all
sequences are cached, so that no tensor of the model is copied. Tensors over the budget are computed in the steps.
"""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from medunlearn.errors import ConfigError
from medunlearn.models.activation_cache import ActivationCache, cache_key
from medunlearn.models.batching import Batching
from medunlearn.models.decoder import Trunk, parameters_above
from medunlearn.models.forward_outputs import ForwardOutputs
from medunlearn.models.layouts import decoder_of, make_batch
from medunlearn.models.precision import Precision, autocast
from medunlearn.models.sequences import Positions, TokenSequence
from medunlearn.training.batch_plan import Plan, micro_batches
from medunlearn.training.objectives import Objective
from medunlearn.training.processes import ALONE, Processes
from medunlearn.training.trainable import trained
from medunlearn.training.turns import in_turns
from medunlearn.training.views import FINAL, HIDDEN, LOG_PROBS, TRUNK, ModelView, Totals, kind_at, split_kind

UNCACHEABLE = "unkept"
"""A reference output that cannot be cached."""

_OUTPUT: Mapping[str, str] = {
    "token_log_probs": LOG_PROBS,
    "sequence_nll": LOG_PROBS,
    "nll": LOG_PROBS,
    "log_distribution": FINAL,
    "margin": FINAL,
}


@dataclass(frozen=True)
class CachedSide:
    """Cached tensors of one side: its sequences, tensor names as in :mod:`medunlearn.training.views`, and bytes."""

    sequences: Sequence[TokenSequence]
    names: frozenset[str]
    bytes: int


class CachePlan:
    """Tensors that a run caches, selected from its training plan; :meth:`fill` computes them.

    Attributes:
        needs: model and reference outputs used by the objective.
        sides: side -> its cached tensors.
        complete: True if every reference output used by the method is cached.
    """

    def __init__(
        self,
        model: Any,
        pad: int,
        objective: Objective,
        plan: Plan,
        micro_batch_size: int,
        budget: int,
        *,
        tokens: int | None = None,
        whole: bool = False,
    ) -> None:
        """Choose the tensors to cache.

        Args:
        """
        self.model, self.pad, self.size, self.tokens = model, pad, micro_batch_size, tokens
        self.decoder = decoder_of(model)
        self.frozen = self.decoder.first_trained()
        self.needs = trace_needs(model, pad, objective, plan)
        adapter = hasattr(model, "disable_adapter")
        candidates: list[tuple[str, str, int]] = []
        for side, names in self.needs.reference.items():
            sequences, draws = plan.draws(side)
            again = draws > len(sequences)
            if whole or again or not (self.frozen or adapter):
                candidates += [(side, name, self._bytes(name, sequences)) for name in names]
            if again and self.frozen and not whole:
                candidates.append((side, TRUNK, self._bytes(TRUNK, sequences)))
        # The smallest first: they cost least, and save a whole pass of the reference each.
        sizes: dict[str, dict[str, int]] = {}
        for side, name, size in sorted(candidates, key=lambda candidate: candidate[2]):
            if name != UNCACHEABLE and size <= budget:
                sizes.setdefault(side, {})[name] = size
                budget -= size
        self.sides = {
            side: CachedSide(plan.draws(side)[0], frozenset(names), sum(names.values()))
            for side, names in sizes.items()
        }
        self.complete = all(names <= sizes.get(side, {}).keys() for side, names in self.needs.reference.items())

    def read_from(self, model: Any) -> None:
        """Compute the tensors with another model than the one in training."""
        self.model, self.decoder, self.frozen = model, decoder_of(model), 0

    @property
    def content(self) -> Hashable:
        """Key of everything besides the model's weights that determines the tensors."""
        sides = tuple((side, own.names, *own.sequences) for side, own in self.sides.items())
        device = str(next(self.model.parameters()).device)
        return self.pad, self.size, self.tokens, self.frozen, device, sides

    @property
    def sequences(self) -> int:
        """Number of sequences processed by :meth:`fill`."""
        return sum(len(side_cache.sequences) for side_cache in self.sides.values())

    def pieces(self, side: str) -> list[list[TokenSequence]]:
        """Sequences of the passes over one side."""
        sequences = self.sides[side].sequences
        return [piece[side] for piece in micro_batches({side: sequences}, self.size, tokens=self.tokens)]

    @property
    def bytes(self) -> int:
        return sum(side_cache.bytes for side_cache in self.sides.values())

    def fill(
        self,
        folder: Path | None,
        precision: Precision,
        *,
        processes: Processes = ALONE,
        advance: Callable[[int], None] = lambda count: None,
    ) -> ActivationCache:
        """Compute the tensors missing from the folder.

        Args:
            folder: folder shared by all processes; None keeps everything in memory.
            precision: precision of the steps.
            processes: processes that share the work, if there is a folder.
            advance: called with the number of sequences done since the last call.

        Raises:
            MedunlearnError: memory runs out with a single sequence.
            StorageError: the disk refused.
        """
        sharing = ALONE if folder is None else processes
        cache = ActivationCache(folder, processes.rank)
        with processes.barrier(), in_turns(self.model):
            self._fill(cache, precision, sharing, advance)
        if sharing.world == 1:
            return cache
        with processes.barrier():
            return ActivationCache(folder)

    def _fill(
        self, cache: ActivationCache, precision: Precision, processes: Processes, advance: Callable[[int], None]
    ) -> None:
        training, batching = self.model.training, Batching(self.size)
        self.model.eval()
        try:
            for side, side_cache in self.sides.items():
                for place, piece in enumerate(self.pieces(side)):
                    if place % processes.world == processes.rank:
                        work = partial(self._store, cache, side_cache.names, precision)
                        deque(batching.over(piece, work), maxlen=0)
                    advance(len(piece))
        finally:
            self.model.train(training)
        cache.write()

    @torch.no_grad()
    def _store(
        self,
        cache: ActivationCache,
        names: frozenset[str],
        precision: Precision,
        sequences: Sequence[TokenSequence],
    ) -> None:
        with autocast(next(self.model.parameters()).device, precision):
            self.store(cache, sequences, names)

    def store(self, cache: ActivationCache, sequences: Sequence[TokenSequence], names: frozenset[str]) -> None:
        """Cache the named tensors of one micro-batch in one pass without gradient; skipped if all are cached."""
        keys = [cache_key(name, sequence.key) for name in names for sequence in sequences]
        if all(key in cache for key in keys):
            return
        device = next(self.model.parameters()).device
        batch = make_batch(self.model, sequences, self.pad, device)
        trunk = Trunk(self.frozen, self.decoder.trunk(batch, self.frozen)) if self.frozen else None
        outputs: dict[Positions, ForwardOutputs] = {}
        for name in sorted(names):
            if name == TRUNK:
                assert trunk is not None
                for span in batch.spans:
                    cache.add(cache_key(TRUNK, span.name), trunk.states[span.row, span.start : span.stop])
                continue
            kind, positions = split_kind(name)
            if positions not in outputs:
                there = batch if positions == "predicting" else batch.at(positions)
                outputs[positions] = ForwardOutputs(self.decoder, there, trunk)
            counts = [len(sequence.read(positions)) for sequence in sequences]
            states = torch.split(_states(outputs[positions], kind), counts)
            for sequence, part in zip(sequences, states, strict=True):
                cache.add(cache_key(name, sequence.key), part)

    def _bytes(self, name: str, sequences: Sequence[TokenSequence]) -> int:
        if name == LOG_PROBS:
            return sum(4 * sequence.scored for sequence in sequences)
        embedding: Tensor = self.decoder.base.get_input_embeddings().weight
        state = embedding.shape[1] * (4 if name.startswith(HIDDEN[:6]) else embedding.element_size())
        if name != TRUNK:
            return sum(state * len(sequence.read(split_kind(name)[1])) for sequence in sequences)
        shared = {sequence.ids[: sequence.shared] for sequence in sequences}
        unshared = sum(len(sequence.ids) - sequence.shared for sequence in sequences)
        return state * (unshared + sum(map(len, shared)))


def _states(outputs: ForwardOutputs, kind: str) -> Tensor:
    if kind == LOG_PROBS:
        return outputs.log_probs
    if kind == FINAL:
        return outputs.final
    return outputs.decoder.hidden(outputs.batch, int(kind.removeprefix(HIDDEN[:-2])), outputs.trunk)


@dataclass
class Needs:
    """Names of the outputs used by an objective, as in :mod:`medunlearn.training.views`.

    Attributes:
        model: outputs of the trained model.
        reference: side -> outputs of the reference; unused sides are missing.
    """

    model: set[str] = field(default_factory=set)
    reference: dict[str, set[str]] = field(default_factory=dict)

    def check_reaches(self, model: Any) -> None:
        """Refuse a run in which some trained parameters get no gradient.

        Raises:
            ConfigError: names these parameters' layers, and alternatives.
        """
        if not self.model or any(not name.startswith(HIDDEN[:6]) for name in self.model):
            return
        last = max(int(split_kind(name)[0].removeprefix(HIDDEN[:-2])) for name in self.model)
        unread = parameters_above(decoder_of(model).base, last)
        above = [name for name, tensor in trained(model).items() if id(tensor) in unread]
        if above:
            raise ConfigError(
                [
                    f"The method reads the output of layer {last} and nothing above it, so {len(above)} of the "
                    f"tensors that are to be trained would not move ({above[0]}, ...). Set trainable to "
                    f"through:{last}, layers:0-{last} or some of these, or leave it out for the method's choice."
                ]
            )


@torch.no_grad()
def trace_needs(model: Any, pad: int, objective: Objective, plan: Plan) -> Needs:
    """Outputs used by an objective in the first step of a plan."""
    device, needs = next(model.parameters()).device, Needs()
    views = {}
    for side, sequences in plan.step(0).items():
        batch = make_batch(model, sequences[:1], pad, device)
        views[side] = _TracedView(ModelView(model, batch, Totals.of(sequences[:1]), None), side, needs)
    # A copy: a method may count its calls.
    traced = copy.deepcopy(objective)
    traced.terms(views)  # type: ignore[arg-type]
    if plan.recovery is not None:
        others = {side: view for side, view in views.items() if side in plan.sides and side != plan.lead}
        traced.terms(others)  # type: ignore[arg-type]
    return needs


class _TracedView:
    """A view that records the outputs read from it and its reference.

    Before the first step the model equals its reference, so its outputs are valid for both.
    """

    def __init__(self, view: ModelView, side: str, needs: Needs, of_reference: bool = False) -> None:
        self._view, self._side, self._needs, self._of_reference = view, side, needs, of_reference

    @property
    def reference(self) -> _TracedView:
        return _TracedView(self._view, self._side, self._needs, of_reference=True)

    def at(self, positions: Positions) -> _TracedView:
        return _TracedView(self._view.at(positions), self._side, self._needs, self._of_reference)

    def divergence_from_reference(self) -> Tensor:
        return self._compared(self.reference)

    jensen_shannon_from_reference = divergence_from_reference

    def distillation(self, teacher: _TracedView, lowered: float) -> Tensor:
        return self._compared(teacher)

    def _compared(self, other: _TracedView) -> Tensor:
        """Zeros in place of a comparison of two distributions at each position, both of which are recorded."""
        self._record(FINAL)
        other._record(FINAL)
        return torch.zeros(len(self._view.batch.row), device=self._view.batch.row.device)

    def hidden(self, layer: int) -> Tensor:
        self._record(HIDDEN.format(layer))
        return self._view.hidden(layer)

    def __getattr__(self, name: str) -> Any:
        if name in _OUTPUT:
            self._record(_OUTPUT[name])
        return getattr(self._view, name)

    def _record(self, what: str) -> None:
        names = self._needs.reference.setdefault(self._side, set())
        if not self._of_reference:
            self._needs.model.add(kind_at(what, self._view.positions))
        elif what == FINAL and not self._view.decoder.support.head:
            names.add(UNCACHEABLE)
        else:
            names.add(kind_at(what, self._view.positions))
