"""Tokens, FLOPs and memory of training before it starts, rehearsed on a model without content."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from medunlearn.config import LoopFields
from medunlearn.models.feeding import make_batch
from medunlearn.models.kept import Kept
from medunlearn.models.precision import Precision, settled
from medunlearn.models.reference import Reference
from medunlearn.models.sequences import TokenSequence
from medunlearn.pipeline.estimate.amounts import Memory, Work
from medunlearn.pipeline.estimate.cost import PassCost, Shape, batch_shape, costs
from medunlearn.pipeline.estimate.divided import divided
from medunlearn.pipeline.estimate.hollow import Hollow, nbytes
from medunlearn.training.keeping import Keeping
from medunlearn.training.memory import recomputing
from medunlearn.training.objectives import Objective, Unlearning, rating, weighing
from medunlearn.training.optimizers import QUANTIZED
from medunlearn.training.plan import Plan, micro_batches
from medunlearn.training.trainable import trained
from medunlearn.training.views import ModelView, Totals

QUICK = 5e10
"""FLOPs that a CPU computes in about the time in which it would be told what they make."""
SMALL = 16 * 2**20
"""Bytes of the largest model that is rehearsed with a content."""
TRAINING = 1.5
"""FLOPs of training for each position and byte of a model, about: six a parameter of four bytes."""
Micro = Mapping[str, Sequence[TokenSequence]]
PAD = 0
WHOLE = 4096
"""Smaller tensors keep whole moments where the others have 8 bits (bitsandbytes)."""


@dataclass
class Estimator:
    """Rehearses one model, trained in one way.

    Attributes:
        hollow: the model, with what is trained marked.
        precision: as in the settings.
        filled: the same model with a content, where it is small; it counts what takes little to compute.
    """

    hollow: Hollow
    precision: Precision = "fp32"
    filled: Hollow | None = None

    @classmethod
    def of(cls, make: Callable[[], Any], device: torch.device, precision: Precision) -> Estimator:
        """Of a model that ``make`` builds on the meta device, with what is trained marked."""
        hollow = Hollow(make(), device)
        small = device.type == "cpu" and nbytes(hollow.model) <= SMALL
        return cls(hollow, precision, Hollow(make(), device, filled=True) if small else None)

    def rehearsed(self, batches: Iterable[Iterable[Shape]]) -> Hollow:
        """The model for work on batches; ``hollow`` and ``filled`` lay them out alike."""
        if self.filled is None:
            return self.hollow
        positions = max((sum(shape.positions for shape in batch) for batch in batches), default=0)
        return self.filled if TRAINING * positions * nbytes(self.filled.model) <= QUICK else self.hollow

    def training(
        self,
        plan: Plan,
        settings: LoopFields,
        objective: Objective,
        *,
        budget: int | None = None,
        start: int = 0,
        counted: bool = True,
        processes: int = 1,
    ) -> Work:
        """What a plan takes from step ``start`` on.

        Args:
            objective: what is minimised.
            budget: bytes that the run may keep of the model before training, its reference; None: it has none.
            counted: tokens and FLOPs are wanted; memory alone is found from one epoch.
            processes: that train together; the memory is that of each.
        """
        steps = range(start, plan.steps if counted else min(plan.steps, start + plan.steps_an_epoch))
        size, tokens = settings.micro_batch_size, settings.micro_batch_tokens
        cut = [micro_batches(plan.step(number), size, processes, plan.row, tokens) for number in steps]
        if not cut:
            return Work()
        micros = [micro for step in cut for micro in step]
        shapes = [self.shapes(micro) for micro in micros]
        hollow = self.rehearsed(shape.values() for shape in shapes)
        stage = _Stage(self, hollow, plan, settings, objective, budget, several=max(map(len, cut)) > processes)
        measures: tuple[Callable[[Shape], int], ...] = (lambda s: s.positions, lambda s: s.scored)
        largest = {
            max(range(len(shapes)), key=lambda place: sum(measure(s) for s in shapes[place].values()))
            for measure in measures[: 2 if counted else 1]
        }
        memory = max((stage.memory(micros[place]) for place in largest), key=lambda found: found.total)
        if settings.sharding != "none":
            halved = settled(self.precision, self.hollow.device) == "bf16"
            memory = divided(memory, hollow.model, processes, halved=halved)
        work = Work(memory=memory, kept=stage.keeping.bytes if stage.keeping else 0)
        if not counted:
            return work
        looked = [
            self.shapes(micro)
            for number, step in zip(steps, cut, strict=True)
            for micro in step
            if stage.looks(number)
        ]
        done = stage.counted(shapes) + stage.probing(looked)
        # What is kept was computed before the first step.
        return replace(work + (stage.once() if start == 0 else Work()) + done, steps=len(steps))

    def shapes(self, micro: Micro) -> dict[str, Shape]:
        return {side: batch_shape(self.hollow.model, chosen) for side, chosen in micro.items() if chosen}


class _Stage:
    """A training as the engine would run it, on a hollow model."""

    def __init__(
        self,
        estimator: Estimator,
        hollow: Hollow,
        plan: Plan,
        settings: LoopFields,
        objective: Objective,
        budget: int | None,
        *,
        several: bool,
    ) -> None:
        self.estimator, self.hollow, self.model = estimator, hollow, hollow.model
        self.plan, self.settings, self.several = plan, settings, several
        # A copy: a method may count its calls.
        self.objective = copy.deepcopy(objective)
        self.keeping: Keeping | None = None
        self.reference: Reference | None = None
        self.deciding, self.terms = 0, 1
        if budget is not None:
            self._decide(budget)

    def _decide(self, budget: int) -> None:
        """What is kept, as the run decides it: by one pass over its first micro-batch."""
        found: list[Keeping] = []

        def decide() -> None:
            size, tokens = self.settings.micro_batch_size, self.settings.micro_batch_tokens
            found.append(Keeping(self.model, PAD, self.objective, self.plan, size, budget, tokens=tokens))

        self.model.eval()
        self.deciding = self.hollow.rehearse(decide).flops
        self.keeping = found[0]
        with self.hollow.open():
            self.reference = Reference(self.model, complete=self.keeping.complete)

    def once(self) -> Work:
        """Deciding what is kept, and computing it."""
        keeping = self.keeping
        if keeping is None or not keeping.wanted:
            return Work(flops=self.deciding)

        @torch.no_grad()
        def keep(given: Micro) -> None:
            for side, sequences in given.items():
                keeping.keep(Kept(), sequences, keeping.wanted[side].what)

        self.model.eval()
        found = costs(self.hollow, lambda given: lambda: keep(given), list(keeping.wanted))
        pieces = [self.estimator.shapes({side: piece}) for side in keeping.wanted for piece in keeping.pieces(side)]
        return _summed(found, pieces) + Work(flops=self.deciding)

    def counted(self, shapes: Iterable[Mapping[str, Shape]]) -> Work:
        """Tokens and FLOPs of steps."""

        def prepare(given: Micro) -> Callable[[], None]:
            kept = self.kept(given)
            return lambda: self.step(given, kept)

        self.model.train()
        with recomputing(self.model, self.settings.gradient_checkpointing):
            found = costs(self.hollow, prepare, list(self.plan.sides))
        return _summed(found, shapes)

    def looks(self, number: int) -> bool:
        """Whether the method looks for a learning rate at a step."""
        method = rating(self.objective)
        return method is not None and method.looks(number)

    def probing(self, shapes: Sequence[Mapping[str, Shape]]) -> Work:
        """FLOPs of the micro-batches with which a method looks for its learning rate: ahead and behind."""
        if not shapes:
            return Work()

        def prepare(given: Micro) -> Callable[[], None]:
            kept = self.kept(given)
            return lambda: self.probe(given, kept)

        self.model.train()
        found = costs(self.hollow, prepare, list(self.plan.sides))
        return Work(flops=_summed(found, [*shapes, *shapes]).flops)

    def memory(self, micro: Micro) -> Memory:
        """While a micro-batch is worked on that is not the first of its step, if there are several."""
        model, reference = self.model, self.reference
        model.zero_grad(set_to_none=True)
        with self.hollow.open():
            kept = self.kept(micro)
        beside = reference.tensors() if reference else ()
        model.train()
        with recomputing(model, self.settings.gradient_checkpointing):
            taken = self.hollow.rehearse(
                lambda: self.step(micro, kept), precision=self.estimator.precision, beside=beside
            )
        model.zero_grad(set_to_none=True)
        gradients = nbytes(model, trained=True)
        most = max(taken.peak_bytes + (gradients if self.several else 0), gradients)
        return Memory(
            weights=nbytes(model),
            # A method that weighs its terms' gradients holds each of them.
            gradients=gradients * (self.terms if weighing(self.objective) else 1),
            moments=self.moments(),
            reference=reference.held_bytes() if reference else 0,
            activations=most - gradients,
        )

    def moments(self) -> int:
        """Bytes of AdamW's moments on the device."""
        tensors = trained(self.model).values()
        if self.settings.optimizer == "sgd":
            return 0
        if self.settings.offload == "optimizer" and self.hollow.device.type != "cpu":
            return 0
        if self.settings.optimizer in QUANTIZED:
            return sum(
                2 * (tensor.numel() if tensor.numel() >= WHOLE else 4 * tensor.numel()) for tensor in tensors
            )
        return sum(2 * tensor.nbytes + 4 for tensor in tensors)  # and a counter of steps

    def kept(self, micro: Micro) -> Kept:
        """What was kept of these sequences, without content; made by the passes that keep it."""
        kept, model = Kept(), self.model
        if self.keeping is None:
            return kept
        training = model.training
        model.eval()
        with torch.no_grad():
            for side, wanted in self.keeping.wanted.items():
                self.keeping.keep(kept, micro[side], wanted.what)
        model.train(training)
        return kept

    def step(self, micro: Micro, kept: Kept) -> None:
        """Loss and gradients of a micro-batch."""
        terms: Mapping[str, Tensor] = self.objective.terms(self.views(micro, kept))
        self.terms = len(terms)
        torch.autograd.backward(torch.stack(list(terms.values())).sum())

    @torch.no_grad()
    def probe(self, micro: Micro, kept: Kept) -> None:
        """What a method looks at for its learning rate, of a micro-batch."""
        assert isinstance(self.objective, Unlearning)
        self.objective.probe(self.views(micro, kept))

    def views(self, micro: Micro, kept: Kept) -> dict[str, ModelView]:
        if self.reference:
            self.reference.kept = kept
        return {
            side: ModelView(
                self.model, make_batch(self.model, chosen, PAD, self.hollow.device), Totals(1, 1), self.reference
            )
            for side, chosen in micro.items()
        }


def _summed(known: Mapping[str, PassCost], shapes: Iterable[Mapping[str, Shape]]) -> Work:
    """Tokens and FLOPs of batches; the tokens of a side that nothing is run of do not count."""
    tokens, flops = 0, 0.0
    for found in shapes:
        for side, shape in found.items():
            spent = known[side].flops(shape)
            flops += spent
            tokens += shape.tokens if spent > 0.5 else 0
    return Work(tokens, 0, flops)
