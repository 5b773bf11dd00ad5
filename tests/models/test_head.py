"""The head in pieces is the head as a whole: values and every gradient, with bias, cap and autocast."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from rounding import assert_same, relative_bound
from torch import Tensor

from medunlearn.models import head as head_module
from medunlearn.models.head import Head, divergence, moments, rated, token_log_probs

N, W, V = 23, 12, 50


def drawn(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(*shape, dtype=dtype, generator=torch.Generator().manual_seed(seed))


def make(
    cap: float | None, bias: bool, trained: bool, dtype: torch.dtype = torch.float64
) -> tuple[Head, Tensor, Tensor]:
    weight = drawn(V, W, seed=1, dtype=dtype).requires_grad_(trained)
    offset = drawn(V, seed=2, dtype=dtype).requires_grad_(trained) if bias else None
    targets = torch.randint(V, (N,), generator=torch.Generator().manual_seed(3))
    return Head(weight, offset, cap), drawn(N, W, seed=4, dtype=dtype).requires_grad_(), targets


def whole(head: Head, hidden: Tensor) -> Tensor:
    logits = hidden @ head.weight.t() + (0 if head.bias is None else head.bias)
    return logits if head.cap is None else head.cap * torch.tanh(logits / head.cap)


def gradients(values: Tensor, *inputs: Tensor | None) -> list[Tensor]:
    # Unequal weights, so that a position that gets another's gradient is noticed.
    loss = (values * torch.linspace(-2, 3, len(values))).sum()
    return list(torch.autograd.grad(loss, [tensor for tensor in inputs if tensor is not None]))


@pytest.fixture(params=[1, 7 * V, 1 << 22], ids=["a row", "seven rows", "all"], autouse=True)
def piece(request: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(head_module, "PIECE", request.param)


@pytest.mark.parametrize("cap", [None, 2.0])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("trained", [False, True])
def test_log_probs(cap: float | None, bias: bool, trained: bool) -> None:
    head, hidden, targets = make(cap, bias, trained)
    inputs = [hidden, head.weight, head.bias] if trained else [hidden]
    ours = token_log_probs(head, hidden, targets)
    theirs = whole(head, hidden).log_softmax(1)[torch.arange(N), targets]
    for mine, plain in [(ours, theirs), *zip(gradients(ours, *inputs), gradients(theirs, *inputs), strict=True)]:
        assert_same({"": mine}, {"": plain}, terms=V * N)


@pytest.mark.parametrize("cap", [None, 2.0])
@pytest.mark.parametrize("trained", [False, True])
def test_divergence(cap: float | None, trained: bool) -> None:
    head, hidden, _ = make(cap, True, trained)
    before, states = Head(drawn(V, W, seed=7), drawn(V, seed=6), cap), drawn(N, W, seed=8)
    inputs = [hidden, head.weight, head.bias] if trained else [hidden]
    ours = divergence(head, hidden, before, states)
    target, now = whole(before, states).log_softmax(1), whole(head, hidden).log_softmax(1)
    theirs = (target.exp() * (target - now)).sum(1)
    for mine, plain in [(ours, theirs), *zip(gradients(ours, *inputs), gradients(theirs, *inputs), strict=True)]:
        assert_same({"": mine}, {"": plain}, terms=V * N)
    assert divergence(before, states, before, states).abs().max() < relative_bound(torch.float64)


@pytest.mark.parametrize("cap", [None, 2.0])
def test_rated_in_one_pass(cap: float | None, monkeypatch: pytest.MonkeyPatch) -> None:
    head, hidden, targets = make(cap, True, False)
    run, own = list[int](), Head.logits
    monkeypatch.setattr(Head, "logits", lambda self, part: run.append(len(part)) or own(self, part))
    log_probs, choices = rated(head, hidden, targets)
    assert sum(run) == N
    plain = whole(head, hidden)
    assert torch.equal(choices, plain.argmax(1))
    assert_same({"": log_probs}, {"": plain.log_softmax(1)[torch.arange(N), targets]})
    assert not log_probs.requires_grad


@pytest.mark.parametrize("trained", [False, True])
def test_under_autocast_as_plain_autocast(trained: bool) -> None:
    head, hidden, targets = make(None, False, trained, torch.float32)
    inputs = [hidden, head.weight] if trained else [hidden]
    with torch.autocast("cpu", torch.bfloat16):
        ours = token_log_probs(head, hidden, targets)
        logits = torch.nn.functional.linear(hidden, head.weight).float()
        theirs = logits.log_softmax(1)[torch.arange(N), targets]
    assert_same({"": ours}, {"": theirs}, terms=V, condition=1)
    for mine, plain in zip(gradients(ours, *inputs), gradients(theirs, *inputs), strict=True):
        assert (mine - plain).norm() <= 1e-2 * plain.norm()


def test_no_table_of_all_logits(monkeypatch: pytest.MonkeyPatch) -> None:
    if head_module.PIECE > N * V:
        pytest.skip("here all logits are one piece")
    rows: list[int] = []
    own = Head.logits
    monkeypatch.setattr(Head, "logits", lambda self, part: rows.append(len(part)) or own(self, part))
    head, hidden, targets = make(None, False, True)
    token_log_probs(head, hidden, targets).sum().backward()
    # Forward, and again backward since the head is trained.
    assert sum(rows) == 2 * N
    assert max(rows) == max(1, head_module.PIECE // V)


@pytest.mark.parametrize("cap", [None, 2.0])
def test_moments(cap: float | None) -> None:
    """Against the definitions, for a flat, a usual and a nearly certain distribution."""
    head, hidden, targets = make(cap, True, False)
    for scale in (0.0, 1.0, 8.0):
        states = hidden.detach() * scale
        logs = whole(head, states).log_softmax(1)
        means = (logs.exp() * logs).sum(1)
        variances = (logs.exp() * logs.square()).sum(1) - means.square()
        values = moments(head, states, targets)
        # A variance is the difference of two squares here, which may be 100 times as large.
        for ours, theirs in zip(values, (logs[torch.arange(N), targets], means, variances), strict=True):
            torch.testing.assert_close(ours, theirs, rtol=relative_bound(torch.float64), atol=1e-12)


def test_moments_where_tokens_cannot_come() -> None:
    """Logits of minus infinity: two equally likely tokens are left, whose log-probability is -log 2 for certain."""
    bias = torch.full((V,), float("-inf"))
    bias[3] = bias[8] = 0.0
    values = moments(Head(torch.zeros(V, W), bias), torch.zeros(N, W), torch.full((N,), 8))
    half = torch.tensor(0.5).log()
    assert torch.allclose(torch.stack(values), torch.stack([half, half, torch.tensor(0.0)])[:, None].expand(3, N))
