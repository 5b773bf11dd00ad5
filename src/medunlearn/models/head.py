"""The output head in chunks of positions: log-probabilities and divergences without a full table of logits.

A vocabulary of 128,000 makes the logits of 4,000 tokens two gigabytes, and autograd keeps several such tables.
Here the head is run on a chunk of positions at a time. A training step needs, per position, the value and its
derivative with respect to the hidden state, [W]. With a frozen head, both are computed in the same chunk; with a
trained head, the chunk is recomputed in the backward pass.

Notation: N positions, W width of the hidden states, V vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import linear

from medunlearn.models.precision import at_least_fp32

PIECE = 1 << 22
"""Logits in one piece: 16 MiB in fp32."""


@dataclass(frozen=True)
class Head:
    """Map from hidden states to logits: ``cap * tanh((hidden @ weight.T + bias) / cap)``; linear without a cap.

    Attributes:
        weight: [V, W].
        bias: [V] or None.
        cap: soft cap of the logits (Gemma 2), or None.
    """

    weight: Tensor
    bias: Tensor | None = None
    cap: float | None = None

    @staticmethod
    def of(model: Any) -> Head:
        """The head of a causal language model; :mod:`medunlearn.models.layouts` tests whether it gives the model's
        logits.
        """
        module = model.get_output_embeddings()
        weight, bias = module.weight, getattr(module, "bias", None)
        if hasattr(weight, "full_tensor"):  # sharded over processes
            weight, bias = weight.full_tensor(), bias if bias is None else bias.full_tensor()
        return Head(weight, bias, getattr(model.config.get_text_config(), "final_logit_softcapping", None))

    def cast(self, kind: torch.dtype) -> Head:
        """The same head in another precision."""
        return Head(self.weight.to(kind), None if self.bias is None else self.bias.to(kind), self.cap)

    def logits(self, hidden: Tensor) -> Tensor:
        """Logits, [N, W] -> [N, V] in fp32."""
        logits = at_least_fp32(linear(hidden.to(self.weight.dtype), self.weight, self.bias))
        return logits if self.cap is None else self.cap * torch.tanh(logits / self.cap)

    def pieces(self, count: int) -> Iterator[slice]:
        """Slices of ``range(count)`` whose logits fit in memory."""
        size = max(1, PIECE // len(self.weight))
        for start in range(0, count, size):
            yield slice(start, min(start + size, count))


Rule = Callable[[slice, Tensor], tuple[Tensor, Tensor]]
"""Places of a piece and its logits [n, V] (to be overwritten) -> values [n], derivatives by the logits [n, V]."""


def token_log_probs(head: Head, hidden: Tensor, targets: Tensor) -> Tensor:
    """Log-probability of each position's target: hidden [N, W], targets [N] -> [N], fp32."""

    def rule(places: slice, logits: Tensor) -> tuple[Tensor, Tensor]:
        target = targets[places, None]
        picked = logits.gather(1, target)
        total = logits.logsumexp(dim=1, keepdim=True)
        slope = logits.sub_(total).exp_().neg_()
        return (picked - total).squeeze(1), slope.scatter_add_(1, target, torch.ones_like(picked))

    return _by_pieces(head, hidden, rule)


def divergence(head: Head, hidden: Tensor, other: Head, other_hidden: Tensor) -> Tensor:
    """KL(other || this) of the distributions at each position, [N], >= 0; gradients flow only into this one."""

    def rule(places: slice, logits: Tensor) -> tuple[Tensor, Tensor]:
        with torch.no_grad():
            before = other.logits(other_hidden[places]).log_softmax(dim=1)
        now = logits.log_softmax(dim=1)
        weights = before.exp()
        values = (weights * before.sub_(now)).sum(dim=1)
        return values, now.exp_().sub_(weights)

    return _by_pieces(head, hidden, rule)


def jensen_shannon(head: Head, hidden: Tensor, other: Head, other_hidden: Tensor) -> Tensor:
    """Jensen-Shannon divergence of the distributions at each position, [N], 0 to log 2; gradients flow only into
    this one.
    """

    def rule(places: slice, logits: Tensor) -> tuple[Tensor, Tensor]:
        with torch.no_grad():
            before = other.logits(other_hidden[places]).log_softmax(dim=1)
        now = logits.log_softmax(dim=1)
        middle = torch.logaddexp(now, before) - math.log(2)
        own = now.exp()
        above = now.sub_(middle)
        half = 0.5 * (own * above).sum(dim=1, keepdim=True)
        values = half.squeeze(1) + 0.5 * (before.exp() * (before - middle)).sum(dim=1)
        return values, own.mul_(above.mul_(0.5).sub_(half))

    return _by_pieces(head, hidden, rule)


def distillation(
    head: Head, hidden: Tensor, targets: Tensor, lowered: float, teacher: Head, teacher_hidden: Tensor
) -> Tensor:
    """Cross-entropy with a teacher's distribution whose target logit is lowered, at each position, [N], >= 0.

    Args:
        targets: the true token at each position, [N].
        lowered: what is taken off its logit; infinite leaves it no probability.
        teacher_hidden: inputs of the teacher's head, [N, W]; gradients do not flow into it.
    """
    teacher_hidden = teacher_hidden.detach()

    def rule(places: slice, logits: Tensor) -> tuple[Tensor, Tensor]:
        with torch.no_grad():
            goal = lower(teacher.logits(teacher_hidden[places]), targets[places], lowered).softmax(dim=1)
        now = logits.log_softmax(dim=1)
        values = -(goal * now).sum(dim=1)
        return values, now.exp_().sub_(goal)

    return _by_pieces(head, hidden, rule)


def lower(logits: Tensor, targets: Tensor, by: float) -> Tensor:
    """Take a number off each position's target logit in place: logits [n, V], targets [n]."""
    return logits.scatter_add_(1, targets[:, None], logits.new_full((len(logits), 1), -by))


def margin(head: Head, hidden: Tensor) -> Tensor:
    """Squared difference of the largest and the mean logit at each position, [N], >= 0; 0 = uniform."""

    def rule(places: slice, logits: Tensor) -> tuple[Tensor, Tensor]:
        most, first = logits.max(dim=1)
        gap = most - logits.mean(dim=1)
        slope = (-2 * gap / logits.shape[1])[:, None].expand_as(logits).clone()
        return gap.square(), slope.scatter_add_(1, first[:, None], 2 * gap[:, None])

    return _by_pieces(head, hidden, rule)


@torch.no_grad()
def rated(head: Head, hidden: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """Log-probability of each target, and the most likely token in its place, [N] each; the head is run once."""
    log_probs, choices = _per_position(hidden), torch.empty_like(targets)
    for places in head.pieces(len(hidden)):
        logits = head.logits(hidden[places])
        picked = logits.gather(1, targets[places, None]).squeeze(1)
        log_probs[places] = picked - logits.logsumexp(dim=1)
        choices[places] = logits.argmax(dim=1)
    return log_probs, choices


@torch.no_grad()
def moments(head: Head, hidden: Tensor, targets: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Target log-probability, and mean and variance of the log-probability at each position, [N] each.

    Mean and variance are those under the model's own distribution: of ``log p(z)`` for z drawn from p.
    """
    log_probs, means, variances = (_per_position(hidden) for _ in range(3))
    for places in head.pieces(len(hidden)):
        log_probs[places], means[places], variances[places] = moments_of(
            head.logits(hidden[places]), targets[places]
        )
    return log_probs, means, variances


def moments_of(logits: Tensor, targets: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Like :func:`moments`, from logits [n, V] (overwritten) and targets [n]."""
    logs = logits.sub_(logits.logsumexp(dim=1, keepdim=True))
    picked = logs.gather(1, targets[:, None]).squeeze(1)
    weights = logs.exp()
    # Their weights are 0 from -104 on; 0 times infinity would be NaN.
    logs = logs.clamp_(min=-1000.0)
    means = (weights * logs).sum(dim=1)
    # Of the differences: the difference of two large squares would lose every digit.
    variances = weights.mul_(logs.sub_(means[:, None]).square_()).sum(dim=1)
    return picked, means, variances


def _by_pieces(head: Head, hidden: Tensor, rule: Rule) -> Tensor:
    inputs = hidden, head.weight, head.bias, head.cap, rule
    values: Tensor = _ByPieces.apply(*inputs)  # type: ignore[no-untyped-call]
    return values


class _ByPieces(torch.autograd.Function):
    """Apply a rule to the logits chunk by chunk; see the module docstring."""

    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, weight: Tensor, bias: Tensor | None, cap: float | None, rule: Rule
    ) -> Tensor:
        head = Head(weight, bias, cap).cast(_kind_of_products(hidden))
        needs_hidden, *needs_head = ctx.needs_input_grad[:3]
        slopes = torch.empty_like(hidden) if needs_hidden and not any(needs_head) else None
        values = _per_position(hidden)
        for places in head.pieces(len(hidden)):
            values[places], slope = _slope(head, rule, places, hidden)
            if slopes is not None:
                slopes[places] = (slope.to(head.weight.dtype) @ head.weight).to(hidden.dtype)
        ctx.head, ctx.rule, ctx.kind = head, rule, weight.dtype
        ctx.save_for_backward(hidden if any(needs_head) else None, slopes)
        return values

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor | None, None, None]:
        (gradient,), (hidden, slopes) = gradients, ctx.saved_tensors
        if hidden is None:
            return gradient[:, None].to(slopes.dtype) * slopes, None, None, None, None
        head, products = ctx.head, ctx.head.weight.dtype
        by_hidden, kind = torch.empty_like(hidden), torch.promote_types(hidden.dtype, torch.float32)
        by_weight = torch.zeros_like(head.weight, dtype=kind)
        by_bias = torch.zeros(len(head.weight), dtype=kind, device=hidden.device)
        for places in head.pieces(len(hidden)):
            slope = _slope(head, ctx.rule, places, hidden)[1].mul_(gradient[places, None])
            by_bias += slope.sum(dim=0)
            slope = slope.to(products)
            by_hidden[places] = (slope @ head.weight).to(hidden.dtype)
            by_weight += slope.t() @ hidden[places].to(products)
        bias = None if head.bias is None else by_bias.to(ctx.kind)
        return by_hidden, by_weight.to(ctx.kind), bias, None, None


@torch.no_grad()
def _slope(head: Head, rule: Rule, places: slice, hidden: Tensor) -> tuple[Tensor, Tensor]:
    """Values of a chunk, and their derivatives with respect to the products ``hidden @ weight.T``."""
    logits = head.logits(hidden[places])
    by_cap = None if head.cap is None else 1 - (logits / head.cap).square()
    values, slope = rule(places, logits)
    return values, slope if by_cap is None else slope.mul_(by_cap)


def _per_position(hidden: Tensor) -> Tensor:
    """Buffer of one value per position, [N], in fp32 or wider."""
    return hidden.new_empty(len(hidden), dtype=torch.promote_types(hidden.dtype, torch.float32))


def _kind_of_products(hidden: Tensor) -> torch.dtype:
    device = hidden.device.type
    return torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else hidden.dtype
