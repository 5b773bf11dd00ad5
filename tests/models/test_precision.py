"""bf16 is taken by itself only where a device is fast in it."""

from __future__ import annotations

from contextlib import nullcontext

import pytest
import torch

from medunlearn.models.precision import autocast, has_bf16, settled

CPU = torch.device("cpu")
PROBES = ("_is_avx512_bf16_supported", "_is_amx_tile_supported")


def able(monkeypatch: pytest.MonkeyPatch, *having: str) -> None:
    """A CPU with these instructions alone."""
    for name in PROBES:
        monkeypatch.setattr(torch.cpu, name, lambda name=name: name in having, raising=False)


@pytest.mark.parametrize("having", [(), PROBES[:1], PROBES[1:], PROBES])
def test_auto_asks_the_cpu(monkeypatch: pytest.MonkeyPatch, having: tuple[str, ...]) -> None:
    able(monkeypatch, *having)
    assert settled("auto", CPU) == ("bf16" if having else "fp32")
    assert isinstance(autocast(CPU, "auto"), torch.autocast if having else nullcontext)


def test_a_torch_that_cannot_tell_stays_in_fp32(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in PROBES:
        monkeypatch.delattr(torch.cpu, name, raising=False)
    assert not has_bf16(CPU)


@pytest.mark.parametrize("able_to", [True, False])
def test_auto_asks_the_gpu_for_more_than_emulation(monkeypatch: pytest.MonkeyPatch, able_to: bool) -> None:
    monkeypatch.setattr(
        torch.cuda, "is_bf16_supported", lambda including_emulation=True: including_emulation or able_to
    )
    assert settled("auto", torch.device("cuda")) == ("bf16" if able_to else "fp32")
    assert settled("auto", torch.device("mps")) == "fp32"
