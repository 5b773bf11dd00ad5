"""The gradient of one optimizer step: each process's share, and their sum."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from medunlearn.errors import NonFiniteLossError
from medunlearn.methods.hooks import (
    FORGET,
    INNER,
    RETAIN,
    Grouping,
    Perturbation,
    gradient_rule_of,
    is_minimised,
    is_retained,
    perturbation_of,
)
from medunlearn.methods.protocol import Terms
from medunlearn.models.layouts import make_batch
from medunlearn.models.precision import at_least_fp32, autocast
from medunlearn.models.reference import Reference
from medunlearn.models.sequences import TokenSequence
from medunlearn.seeds import stable_seed
from medunlearn.training.batch_plan import Plan, largest, micro_batches, share
from medunlearn.training.loop_settings import LoopSettings
from medunlearn.training.micro_batch import MicroBatch, suppress_out_of_memory
from medunlearn.training.objectives import Objective, Unlearning, method_of, weighing
from medunlearn.training.processes import Processes
from medunlearn.training.sharding import hand_over_gradients, is_sharded
from medunlearn.training.term_gradients import Gradient, TermGradients, inner_products, put, weighted_sum
from medunlearn.training.trainable import trained
from medunlearn.training.views import ModelView, Totals

Micro = dict[str, list[TokenSequence]]


@dataclass(frozen=True)
class Training:
    """Model, plan, settings and optimizer of a training run.

    ``parts`` are this process's parts of the trained parameters, which the optimizer updates; with ``sharded``
    layers, every pass communicates.
    """

    model: Any
    pad: int
    objective: Objective
    plan: Plan
    settings: LoopSettings
    micro_batch: MicroBatch
    optimizer: torch.optim.Optimizer
    parts: Mapping[str, Tensor]
    reference: Reference | None
    processes: Processes
    sharded: bool


@dataclass(frozen=True)
class _Share:
    """Terms of one process's share of a step.

    Attributes:
        terms: summed over its micro-batches, up to the first non-finite one.
        reached: term -> indices of the parameters with a gradient; combined terms have the name ``""``.
    """

    terms: dict[str, float]
    reached: dict[str, list[int]] = field(default_factory=dict)


@dataclass(frozen=True)
class Gradients:
    """Terms and gradient norms of a step, equal in every process."""

    terms: dict[str, float]
    lengths: dict[str, float] = field(default_factory=dict)


def gradients(training: Training, sequences: Mapping[str, Sequence[TokenSequence]], number: int) -> Gradients:
    """Gradients of a step, left in the parameters, and its terms; both summed over all processes."""
    rests = training.plan.rests(number)
    method, weigher = (None, None) if rests else (method_of(training.objective), weighing(training.objective))
    rule, perturbation = gradient_rule_of(method), perturbation_of(method)

    def group(term: str) -> str | None:
        if not is_minimised(term):
            return None
        return term if weigher else (RETAIN if is_retained(term) else FORGET) if rule else ""

    passes = StepPasses(training, sequences, number)
    terms, by_group = passes.run(group) if perturbation is None else passes.perturbed(perturbation, group)
    if weigher is not None:
        products = inner_products(by_group, trained(training.model), training.processes)
        put(training.parts, weighted_sum(by_group, weigher.weigh(products)))
        return Gradients(terms, {name: math.sqrt(products[name, name]) for name in by_group})
    if rule is not None:
        by_side = (by_group.get(side, {}) for side in (FORGET, RETAIN))
        put(training.parts, rule.combine(SideGradients(training, number, *by_side)))
    else:
        put(training.parts, by_group.get("", {}))
    return Gradients(terms)


@dataclass(frozen=True)
class SideGradients:
    """Gradients of a step by side; implements :class:`medunlearn.methods.hooks.StepGradients`."""

    training: Training
    number: int
    forget: Gradient
    retain: Gradient

    @property
    def parts(self) -> Mapping[str, Tensor]:
        return {name: part.detach() for name, part in self.training.parts.items()}

    def dot(self, first: Gradient, second: Gradient) -> float:
        products = inner_products({"a": first, "b": second}, trained(self.training.model), self.training.processes)
        return products["a", "b"]


@dataclass(frozen=True)
class StepPasses:
    """Passes over the sequences of one step, by every process."""

    training: Training
    sequences: Mapping[str, Sequence[TokenSequence]]
    number: int

    def run(self, group: Grouping) -> tuple[dict[str, float], dict[str, Gradient]]:
        """The step's terms, and the gradients of groups of them, summed over all processes."""
        training = self.training
        tensors = list(trained(training.model).values())
        apart = TermGradients(tensors)

        def backward(terms: Terms, weight: float) -> None:
            groups: dict[str, list[Tensor]] = {}
            for name, term in terms.items():
                if (own := group(name)) is not None:
                    groups.setdefault(own, []).append(term)
            apart.backward({name: torch.stack(own).sum() * weight for name, own in groups.items()})

        def work() -> _Share:
            apart.clear()
            terms = _sum_terms(training, self.sequences, self.number, training.objective.terms, backward)
            return _Share(terms, apart.reached())

        shares = _of_all(training, self.sequences, self.number, work)
        terms = _sum_shares(shares)
        _check_finite(terms, self.number)
        by_group: dict[str, Gradient] = {}
        for name in dict.fromkeys(own for term in terms if (own := group(term)) is not None):
            reached = sorted({place for part in shares for place in part.reached.get(name, ())})
            by_group[name] = _over_all(training, tensors, apart.take(name), reached)
        return terms, by_group

    def perturbed(
        self, perturbation: Perturbation, group: Grouping
    ) -> tuple[dict[str, float], dict[str, Gradient]]:
        """Like :meth:`run`, with gradients at moved weights; the terms are those at the current weights, if they
        are computed there.
        """
        if not perturbation.needs_gradient:
            with self._moved(perturbation, {}):
                return self.run(group)
        terms, by_group = self.run(
            lambda term: INNER if perturbation.directs(term) else group(term) if is_retained(term) else None
        )
        direction = by_group.pop(INNER, {})
        with self._moved(perturbation, direction):
            _, moved = self.run(lambda term: None if is_retained(term) else group(term))
        for name, gradient in moved.items():
            by_group[name] = weighted_sum(
                {"own": by_group.get(name, {}), "moved": gradient}, {"own": 1, "moved": 1}
            )
        return terms, by_group

    @contextmanager
    def _moved(self, perturbation: Perturbation, direction: Gradient) -> Iterator[None]:
        """Context in which the trained weights are elsewhere."""
        step = SideGradients(self.training, self.number, direction, {})
        parts = self.training.parts
        with torch.no_grad():
            moved = perturbation.moved(step)
            before = {name: parts[name].detach().clone() for name in moved}
            for name, weights in moved.items():
                parts[name].copy_(weights)
        try:
            yield
        finally:
            with torch.no_grad():
                for name, weights in before.items():
                    parts[name].copy_(weights)


def probe(training: Training, sequences: Mapping[str, Sequence[TokenSequence]], number: int) -> dict[str, float]:
    """The terms of a step that a method probes, with the current weights; summed over all processes."""
    objective = training.objective
    assert isinstance(objective, Unlearning)

    @torch.no_grad()
    def work() -> _Share:
        return _Share(_sum_terms(training, sequences, number, objective.probe))

    return _sum_shares(_of_all(training, sequences, number, work))


def _of_all(
    training: Training,
    sequences: Mapping[str, Sequence[TokenSequence]],
    number: int,
    work: Callable[[], _Share],
) -> list[_Share]:
    """Results of every process's share of a step, by rank, equal in all processes.

    Args:
        work: this process's passes. Out of memory, all processes do it again in smaller micro-batches.
    """
    processes = training.processes
    if training.sharded:
        # Passes communicate: one that fails here ends this process, and the others see it go.
        return processes.gather(work())
    most = largest(sequences, processes.world, training.plan.row, training.settings.micro_batch_tokens)
    while True:
        own_share = None
        with processes.barrier(), suppress_out_of_memory():
            own_share = work()
        shares = processes.gather(own_share)
        results = [share for share in shares if share is not None]
        if len(results) == len(shares):
            return results
        training.micro_batch.halve(number, most)


def _sum_shares(shares: Sequence[_Share]) -> dict[str, float]:
    summed: dict[str, float] = {}
    for part in shares:
        for name, value in part.terms.items():
            summed[name] = summed.get(name, 0.0) + value
    return summed


def _seed(device: torch.device, seed: int) -> None:
    """Seed what a model draws from; ``torch.manual_seed`` keeps a formatted stack for each absent device."""
    if device.type == "cpu":
        torch.default_generator.manual_seed(seed)
    else:
        torch.manual_seed(seed)


def _sum_terms(
    training: Training,
    sequences: Mapping[str, Sequence[TokenSequence]],
    number: int,
    forward: Callable[[Mapping[str, ModelView]], Terms],
    backward: Callable[[Terms, float], None] = lambda terms, weight: None,
) -> dict[str, float]:
    """Terms of this process's share of a step, summed over its micro-batches, up to the first non-finite one."""
    model, settings, processes = training.model, training.settings, training.processes
    device = next(model.parameters()).device
    totals = {side: Totals.of(members) for side, members in sequences.items()}
    summed: dict[str, float] = {}
    pieces = micro_batches(
        sequences,
        training.micro_batch.size,
        processes.world,
        training.plan.row,
        settings.micro_batch_tokens,
        [side for side in training.plan.partners if side in sequences],
    )
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        for place, micro, weight in _assigned_pieces(pieces, training):
            _seed(device, stable_seed("dropout", settings.seed, number, place))
            with autocast(device, settings.precision):
                views = {
                    side: ModelView(
                        model, make_batch(model, members, training.pad, device), totals[side], training.reference
                    )
                    for side, members in micro.items()
                }
                terms = forward(views)
            for name, value in terms.items():
                summed[name] = summed.get(name, 0.0) + weight * float(value.detach())
            if not training.sharded and not all(math.isfinite(value) for value in summed.values()):
                break
            backward(terms, weight)
    return summed


def _over_all(
    training: Training, tensors: Sequence[Tensor], gradient_at: Mapping[int, Tensor], reached: Sequence[int]
) -> dict[str, Tensor]:
    """A term's gradient, summed over all processes, by the names of this process's parts."""
    for place in reached:
        # 0 if only other processes' shares reach a parameter.
        tensors[place].grad = gradient_at[place] if place in gradient_at else torch.zeros_like(tensors[place])
    gradients_reached = (tensors[place].grad for place in reached if not is_sharded(tensors[place]))
    training.processes.sum_(gradient for gradient in gradients_reached if gradient is not None)
    hand_over_gradients(trained(training.model), training.parts, training.processes.world)
    own_gradients = {name: part.grad for name, part in training.parts.items() if part.grad is not None}
    for part in training.parts.values():
        part.grad = None
    return own_gradients


def _assigned_pieces(pieces: list[Micro], training: Training) -> list[tuple[int, Micro, float]]:
    """This process's micro-batches: index, content, weight.

    If passes communicate, each process runs the same number, padded by pieces of weight 0.
    """
    rank, world = training.processes.rank, training.processes.world
    assigned = [(place, piece, 1.0) for place, piece in share(pieces, rank, world)]
    if training.sharded:
        assigned += [(0, pieces[0], 0.0)] * (-(-len(pieces) // world) - len(assigned))
    return assigned


def _check_finite(terms: Mapping[str, float], number: int) -> None:
    bad = [name for name, value in terms.items() if not math.isfinite(value)]
    if bad:
        values = " and ".join(f"{name!r} became {terms[name]}" for name in bad)
        raise NonFiniteLossError(
            f"The loss term {values} at step {number}. The model is kept as it was before this step. Lower --lr, "
            "train fewer epochs, or give the term less weight."
        )


def clip(training: Training, most: float) -> Tensor:
    """Scale the gradients to a norm of at most ``most`` over all parameters; returns the norm before."""
    parts, tensors = training.parts, trained(training.model)
    if not training.sharded:
        return torch.nn.utils.clip_grad_norm_(parts.values(), most)
    gradients_held = {name: part.grad for name, part in parts.items() if part.grad is not None}
    # The shares of a parameter make up its norm together; what is whole is the same in every process.
    first = at_least_fp32(next(iter(parts.values())))
    shares, whole = (first.new_zeros(()) for _ in range(2))
    for name, gradient in gradients_held.items():
        (shares if is_sharded(tensors[name]) else whole).add_(at_least_fp32(gradient).square().sum())
    training.processes.sum_([shares])
    norm = (shares + whole).sqrt()
    for gradient in gradients_held.values():
        gradient.mul_((most / (norm + 1e-6)).clamp(max=1.0).to(gradient.dtype))
    return norm
