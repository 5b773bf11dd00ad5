"""The script of measurements on a GPU machine, tried on the CPU with tiny shapes."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks_perf"))
import on_gpu
import on_gpu_equality
import on_gpu_speed
from on_gpu import Clock, OutOfTimeError, Part, Report, run_parts


def _tables(report: Report) -> dict[str, list[dict[str, Any]]]:
    tables: dict[str, list[dict[str, Any]]] = json.loads((report.out / "on_gpu.json").read_text())
    return tables


def test_parts_fail_alone_and_end_in_time(tmp_path: Path) -> None:
    report, clock = Report(tmp_path), Clock(time.monotonic() + 3)

    def fail(report: Report) -> None:
        report.add("numbers", value=1.5, text="a | b")
        raise RuntimeError("no such kernel")

    def hang(report: Report) -> None:
        while True:
            try:
                time.sleep(0.05)
            except Exception:
                raise AssertionError from None

    works = {
        "fails": fail,
        "is long": fail,
        "works": lambda report: report.add("numbers", value=2, more="c"),
        "hangs": hang,
    }
    seconds = {"is long": 60.0}
    run_parts([Part(name, seconds.get(name, 0.0), work) for name, work in works.items()], report, clock)
    assert clock.left < 0.5
    tables = _tables(report)
    states = {row["part"]: row["state"] for row in tables["parts"]}
    assert states["fails"] == "failed: RuntimeError: no such kernel"
    assert states["is long"].startswith("skipped: ")
    assert states["works"] == "done"
    assert states["hangs"] == f"failed: {OutOfTimeError.__name__}: the run's time is over"
    assert tables["numbers"] == [{"value": 1.5, "text": "a | b"}, {"value": 2, "more": "c"}]
    assert (
        "| value | text | more |\n|---|---|---|\n| 1.5 | a / b |  |\n| 2 |  | c |"
        in (tmp_path / "on_gpu.md").read_text()
    )


def test_a_device_is_compared_with_the_cpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(on_gpu_equality, "QUESTIONS", 1)
    report = Report(tmp_path)
    on_gpu_equality.compare("Llama", "cpu", report)
    rows = _tables(report)
    assert {(row["precision"], row["quantity"].split()[0]) for row in rows["equality"]} == {
        (precision, quantity)
        for precision in ("fp32", "bf16")
        for quantity in ("log-probs", "likelihoods", "losses", "gradients")
    }
    assert all(row["within"] and row["device to CPU"] == 0 for row in rows["equality"])
    assert [row["quantity"] for row in rows["choices"]] == ["ranks", "greedy answers"] * 2
    # bf16 rounds 65,536 times as coarsely as fp32.
    errors = {(row["precision"], row["quantity"]): row["CPU to fp64"] for row in rows["equality"]}
    assert 1e3 < errors["bf16", "log-probs"] / errors["fp32", "log-probs"] < 1e6


def test_a_wrong_device_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(on_gpu_equality, "QUESTIONS", 1)
    true_outputs, report = on_gpu_equality.outputs, Report(tmp_path)

    def damaged(material: Any, device: str, kind: Any) -> Any:
        if device == "wrong":
            # A part in ten thousand of one weight matrix.
            material.live.model.model.layers[0].mlp.up_proj.weight.data.mul_(1.0001)
        return true_outputs(material, "cpu", kind)

    monkeypatch.setattr(on_gpu_equality, "outputs", damaged)
    on_gpu_equality.compare("Llama", "wrong", report)
    within = {(row["precision"], row["quantity"].split()[0]): row["within"] for row in _tables(report)["equality"]}
    assert not within["fp32", "log-probs"]
    assert not within["fp32", "gradients"]
    assert within["bf16", "log-probs"]


def test_the_engine_is_timed_beside_transformers_and_the_plan(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(on_gpu_speed, "peak_products", lambda device: 1e10)
    report = Report(tmp_path)
    wanted = ["tiny train", "tiny npo", "tiny train by transformers", "tiny train, padded", "tiny scoring"]
    parts = {name: Part(name, seconds, work) for name, seconds, work in on_gpu_speed.speed_parts("cpu", tiny=True)}
    run_parts([parts[name] for name in wanted], report, Clock(time.monotonic() + 600))
    tables = _tables(report)
    assert [row["state"] for row in tables["parts"]] == ["done"] * len(wanted)
    rows = {row["job"]: row for row in tables["training"]}
    losses = [rows[name]["first loss"] for name in ("train", "train by transformers", "train, padded")]
    np.testing.assert_allclose(losses, losses[0], rtol=1e-5)
    assert all(
        row["tokens/s"] > 0 and row["MFU"] is None for row in rows.values() if row["job"] not in ("train", "npo")
    )
    assert rows["npo"]["plan GiB"] > 0
    assert {row["job"] for row in tables["passes"]} == {"scoring", "scoring by transformers"}


def test_the_most_valuable_parts_come_first() -> None:
    names = [part.name for part in on_gpu.all_parts("cpu", tiny=False)]
    assert names[0] == "machine"
    assert names.index("equality Gemma2") < names.index("llama3-8b train") < names.index("commands")
    assert names[-1] == "equality Bloom"
    assert len(set(names)) == len(names)
