"""Precomputed reference outputs and frozen activations: tensors that are the same in every epoch.

They are computed before the first step, while the model still is its own reference.

Of a side that a run goes through more than once it keeps what the method asks of the reference (log-probabilities,
states in front of the head or behind a layer) and the output of the frozen layers at the front. Where no layer is
frozen, what is asked of the reference is kept for all that will be drawn: then no tensor of the model need be
copied. What would take more than the budget is computed in the steps, as if there were no keeping.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from medunlearn.models.batching import Batching
from medunlearn.models.decoder import Trunk
from medunlearn.models.feeding import decoder_of, make_batch
from medunlearn.models.kept import Kept, name_of
from medunlearn.models.precision import Precision, autocast
from medunlearn.models.seen import Seen
from medunlearn.models.sequences import TokenSequence
from medunlearn.training.asking import UNKEPT, watch
from medunlearn.training.objectives import Objective
from medunlearn.training.plan import Plan, micro_batches
from medunlearn.training.processes import ALONE, Processes
from medunlearn.training.views import FINAL, HIDDEN, LOG_PROBS, TRUNK


@dataclass(frozen=True)
class Wanted:
    """Cached tensors of one side.

    Attributes:
        sequences: those that the run will draw.
        what: names of :mod:`medunlearn.training.views`.
        bytes: what it takes, on disk or in memory.
    """

    sequences: Sequence[TokenSequence]
    what: frozenset[str]
    bytes: int


class Keeping:
    """Choice of the tensors that a run caches, made from its plan; :meth:`run` computes them.

    Attributes:
        asked: what the objective asks of the model and of the reference.
        wanted: side -> what is kept of it.
        complete: everything that the method asks of the reference is kept.
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
    ) -> None:
        """
        Args:
            budget: bytes that may be kept.
            tokens: the most tokens of a pass, as in a step's micro-batches.
        """
        self.model, self.pad, self.size, self.tokens = model, pad, micro_batch_size, tokens
        self.decoder = decoder_of(model)
        self.frozen = self.decoder.first_trained()
        self.asked = watch(model, pad, objective, plan)
        adapter = hasattr(model, "disable_adapter")
        candidates: list[tuple[str, str, int]] = []
        for side, names in self.asked.reference.items():
            sequences, draws = plan.drawn(side)
            again = draws > len(sequences)
            if again or not (self.frozen or adapter):
                candidates += [(side, name, self._bytes(name, sequences)) for name in names]
            if again and self.frozen:
                candidates.append((side, TRUNK, self._bytes(TRUNK, sequences)))
        # The smallest first: they cost least, and save a whole pass of the reference each.
        chosen: dict[str, dict[str, int]] = {}
        for side, name, size in sorted(candidates, key=lambda candidate: candidate[2]):
            if name != UNKEPT and size <= budget:
                chosen.setdefault(side, {})[name] = size
                budget -= size
        self.wanted = {
            side: Wanted(plan.drawn(side)[0], frozenset(sizes), sum(sizes.values()))
            for side, sizes in chosen.items()
        }
        self.complete = all(names <= chosen.get(side, {}).keys() for side, names in self.asked.reference.items())

    @property
    def sequences(self) -> int:
        """Number of sequences that :meth:`run` goes through."""
        return sum(len(wanted.sequences) for wanted in self.wanted.values())

    def pieces(self, side: str) -> list[list[TokenSequence]]:
        """Sequences of the passes over one side."""
        sequences = self.wanted[side].sequences
        return [piece[side] for piece in micro_batches({side: sequences}, self.size, tokens=self.tokens)]

    @property
    def bytes(self) -> int:
        return sum(wanted.bytes for wanted in self.wanted.values())

    def run(
        self,
        folder: Path | None,
        precision: Precision,
        *,
        processes: Processes = ALONE,
        advance: Callable[[int], None] = lambda done: None,
    ) -> Kept:
        """Compute the tensors that are not in the folder yet.

        Args:
            folder: files of the run, which all its processes see; None keeps everything in memory.
            precision: that of the steps.
            processes: with a folder, each does its share.
            advance: called with the number of sequences done since the last call.

        Raises:
            MedunlearnError: memory runs out with a single sequence.
            StorageError: the disk refused.
        """
        sharing = ALONE if folder is None else processes
        kept = Kept(folder, processes.rank)
        processes.each(lambda: self._run(kept, precision, sharing, advance))
        return kept if sharing.world == 1 else processes.together(lambda: Kept(folder))

    def _run(self, kept: Kept, precision: Precision, processes: Processes, advance: Callable[[int], None]) -> None:
        training, batching = self.model.training, Batching(self.size)
        self.model.eval()
        try:
            for side, wanted in self.wanted.items():
                for place, chosen in enumerate(self.pieces(side)):
                    if place % processes.world == processes.rank:
                        work = partial(self._passed, kept, wanted.what, precision)
                        deque(batching.over(chosen, work), maxlen=0)
                    advance(len(chosen))
        finally:
            self.model.train(training)
        kept.write()

    @torch.no_grad()
    def _passed(
        self, kept: Kept, what: frozenset[str], precision: Precision, sequences: Sequence[TokenSequence]
    ) -> None:
        with autocast(next(self.model.parameters()).device, precision):
            self.keep(kept, sequences, what)

    def keep(self, kept: Kept, sequences: Sequence[TokenSequence], what: frozenset[str]) -> None:
        """One pass over sequences of one micro-batch, as far as it is not in ``kept`` yet; without gradient."""
        names = [name_of(name, sequence.key) for name in what for sequence in sequences]
        if all(name in kept for name in names):
            return
        device = next(self.model.parameters()).device
        batch = make_batch(self.model, sequences, self.pad, device)
        trunk = Trunk(self.frozen, self.decoder.trunk(batch, self.frozen)) if self.frozen else None
        seen, counts = Seen(self.decoder, batch, trunk), [sequence.scored for sequence in sequences]
        for name in sorted(what):
            if name == TRUNK:
                assert trunk is not None
                for span in batch.spans:
                    kept.add(name_of(TRUNK, span.name), trunk.states[span.row, span.start : span.stop])
                continue
            for sequence, part in zip(sequences, torch.split(_states(seen, name), counts), strict=True):
                kept.add(name_of(name, sequence.key), part)

    def _bytes(self, name: str, sequences: Sequence[TokenSequence]) -> int:
        if name == LOG_PROBS:
            return sum(4 * sequence.scored for sequence in sequences)
        embedding: Tensor = self.decoder.base.get_input_embeddings().weight
        state = embedding.shape[1] * (4 if name.startswith(HIDDEN[:6]) else embedding.element_size())
        if name != TRUNK:
            return sum(state * sequence.scored for sequence in sequences)
        shared = {sequence.ids[: sequence.shared] for sequence in sequences}
        own = sum(len(sequence.ids) - sequence.shared for sequence in sequences)
        return state * (own + sum(map(len, shared)))


def _states(seen: Seen, name: str) -> Tensor:
    if name == LOG_PROBS:
        return seen.log_probs
    if name == FINAL:
        return seen.final
    return seen.decoder.hidden(seen.batch, int(name.removeprefix(HIDDEN[:-2])), seen.trunk)
