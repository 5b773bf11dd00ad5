"""Gradients of several terms with respect to the same parameters, and their combinations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations_with_replacement

import torch
from torch import Tensor

from medunlearn.models.precision import at_least_fp32
from medunlearn.training.processes import Processes
from medunlearn.training.sharding import is_sharded

Gradient = Mapping[str, Tensor]
"""Parameter name -> gradient of what this process holds of it; without those that nothing reaches."""


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
