"""The gradient of one optimizer step: each process's share, and their sum."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations_with_replacement
from typing import Any

import torch
from torch import Tensor

from medunlearn.errors import NonFiniteLossError
from medunlearn.methods.protocol import Terms
from medunlearn.models.layouts import make_batch
from medunlearn.models.precision import at_least_fp32, autocast
from medunlearn.models.reference import Reference
from medunlearn.models.sequences import TokenSequence
from medunlearn.seeds import stable_seed
from medunlearn.training.batch_plan import Plan, largest, micro_batches, share
from medunlearn.training.loop_settings import LoopSettings
from medunlearn.training.micro_batch import MicroBatch, suppress_out_of_memory
from medunlearn.training.objectives import Objective, Unlearning, weighing
from medunlearn.training.processes import Processes
from medunlearn.training.sharding import hand_over_gradients, is_sharded
from medunlearn.training.trainable import trained
from medunlearn.training.views import ModelView, Totals

Micro = dict[str, list[TokenSequence]]
Gradient = Mapping[str, Tensor]
"""Parameter name -> gradient of what this process holds of it; without those that nothing reaches."""


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
    tensors, method = list(trained(training.model).values()), weighing(training.objective)
    apart = TermGradients(tensors)

    def backward(terms: Terms, weight: float) -> None:
        named_terms = terms if method else {"": torch.stack(list(terms.values())).sum()}
        apart.backward({name: value * weight for name, value in named_terms.items()})

    def work() -> _Share:
        apart.clear()
        terms = _sum_terms(training, sequences, number, training.objective.terms, backward)
        return _Share(terms, apart.reached())

    shares = _of_all(training, sequences, number, work)
    terms = _sum_shares(shares)
    _check_finite(terms, number)
    by_term = {}
    for name in terms if method else [""]:
        reached = sorted({place for part in shares for place in part.reached.get(name, ())})
        by_term[name] = _over_all(training, tensors, apart.take(name), reached)
    if method is None:
        put(training.parts, by_term[""])
        return Gradients(terms)
    products = inner_products(by_term, trained(training.model), training.processes)
    put(training.parts, weighted_sum(by_term, method.weigh(products)))
    return Gradients(terms, {name: math.sqrt(products[name, name]) for name in terms})


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
        training.plan.partners,
    )
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        for place, micro, weight in _assigned_pieces(pieces, training):
            torch.manual_seed(stable_seed("dropout", settings.seed, number, place))
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


def _check_finite(terms: Mapping[str, float], number: int) -> None:
    bad = [name for name, value in terms.items() if not math.isfinite(value)]
    if bad:
        values = " and ".join(f"{name!r} became {terms[name]}" for name in bad)
        raise NonFiniteLossError(
            f"The loss term {values} at step {number}. The model is kept as it was before this step. Lower --lr, "
            "train fewer epochs, or give the term less weight."
        )


class TermGradients:
    """The gradients of several terms with respect to the same parameters, accumulated over micro-batches.

    During its backward pass a term's gradients are in the parameters, so a single term needs no extra memory.
    """

    def __init__(self, tensors: Sequence[Tensor]) -> None:
        self.tensors = tensors
        self._by_term: dict[str, dict[int, Tensor]] = {}

    def clear(self) -> None:
        """Reset, without remains of failed passes."""
        self._by_term = {}
        for tensor in self.tensors:
            tensor.grad = None

    def backward(self, terms: Mapping[str, Tensor]) -> None:
        """Add the gradient of each term of a micro-batch."""
        names = list(terms)
        for name in names:
            by_place = self._by_term.setdefault(name, {})
            if not terms[name].requires_grad:
                continue
            for place, tensor in enumerate(self.tensors):
                tensor.grad = by_place.get(place)
            # Terms may share passes, whose graph the last one lets go.
            torch.autograd.backward(terms[name], retain_graph=name != names[-1])
            self._by_term[name] = {
                place: tensor.grad for place, tensor in enumerate(self.tensors) if tensor.grad is not None
            }
        for tensor in self.tensors:
            tensor.grad = None

    def reached(self) -> dict[str, list[int]]:
        """Term -> indices of the parameters with a gradient."""
        return {name: sorted(by_place) for name, by_place in self._by_term.items()}

    def take(self, name: str) -> dict[int, Tensor]:
        """Remove and return a term's gradients by index."""
        return self._by_term.pop(name, {})


def inner_products(
    gradients: Mapping[str, Gradient], tensors: Mapping[str, Tensor], processes: Processes
) -> dict[tuple[str, str], float]:
    """Inner products of the gradients of each pair of terms, in both orders, over all parameters."""
    first = next(iter(tensors.values()))
    shares, whole = (dict[tuple[str, str], Tensor]() for _ in range(2))
    for pair in combinations_with_replacement(gradients, 2):
        # Shares of a parameter make up a product together; what is whole is the same in every process.
        shares[pair], whole[pair] = (torch.zeros((), dtype=torch.float64, device=first.device) for _ in range(2))
        ours, theirs = gradients[pair[0]], gradients[pair[1]]
        for name in tensors:
            if name not in ours or name not in theirs:
                continue
            # In the model's order: that of a set is another in each process, and sums round by it.
            to = shares if is_sharded(tensors[name]) else whole
            to[pair] += (at_least_fp32(ours[name]) * at_least_fp32(theirs[name])).sum(dtype=torch.float64)
    if any(is_sharded(tensor) for tensor in tensors.values()):
        processes.sum_(shares.values())
    products = {pair: float(shares[pair] + whole[pair]) for pair in shares}
    return products | {(b, a): value for (a, b), value in products.items()}


def weighted_sum(gradients: Mapping[str, Gradient], weights: Mapping[str, float]) -> dict[str, Tensor]:
    """The weighted sum of gradients, accumulated in place in the first gradient of each parameter."""
    sums: dict[str, Tensor] = {}
    for term, weight in weights.items():
        for name, gradient in gradients[term].items():
            if name in sums:
                sums[name].add_(gradient, alpha=weight)
            else:
                sums[name] = gradient.mul_(weight)
    return sums


def put(parts: Mapping[str, Tensor], gradient: Gradient) -> None:
    """Store a gradient in the parameters for the optimizer."""
    for name, part in parts.items():
        part.grad = gradient.get(name)
