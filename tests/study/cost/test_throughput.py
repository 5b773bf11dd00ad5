"""Throughput: timed once, cached, and unknown until then."""

from __future__ import annotations

from pathlib import Path

import pytest

from medunlearn.errors import UnknownNameError
from medunlearn.study.cost.formulas import Cost
from medunlearn.study.cost.memory import Memory
from medunlearn.study.cost.throughput import Device, device_named, this_device, time_device


def test_a_device_is_timed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert this_device("cpu", "fp32") is None
    timed = time_device("cpu", "fp32")
    assert timed.products > 1e8
    assert timed.bandwidth > 1e7
    assert this_device("cpu", "fp32") == time_device("cpu", "fp32") == timed
    assert this_device("cpu", "bf16") is None
    assert [path.name for path in (tmp_path / "medunlearn").iterdir()] == ["throughput.json"]
    # As many threads as another run has are another device.
    monkeypatch.setenv("OMP_NUM_THREADS", "77")
    assert this_device("cpu", "fp32") is None


def test_a_broken_or_unwritable_cache_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (tmp_path / "medunlearn").mkdir()
    (tmp_path / "medunlearn" / "throughput.json").write_text("[")
    assert this_device("cpu", "fp32") is None
    assert time_device("cpu", "fp32") == this_device("cpu", "fp32")
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert time_device("cpu", "fp32").products > 0
    assert this_device("cpu", "fp32") is None


def test_hours_of_passes_and_of_decoding() -> None:
    device = Device(0, 1e12, 1e9, share=0.5)
    assert device.hours(Cost(flops=3600e12)) == 2
    # 100 answers of 10 tokens, 50 at a time: 20 steps that read a gigabyte of weights at half the bandwidth.
    assert device.hours(Cost(generated=1000, memory=Memory(weights=1e9)), 50) == pytest.approx(40 / 3600)


def test_a_device_by_name() -> None:
    assert device_named("h100") == device_named("H100")
    with pytest.raises(UnknownNameError, match="H100"):
        device_named("H10")
