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
import on_gpu_tables
from on_gpu import Clock, OutOfTimeError, Part, Report, run_parts
from page_tables import DOCS


def _tables(report: Report) -> dict[str, list[dict[str, Any]]]:
    tables: dict[str, list[dict[str, Any]]] = json.loads((report.out / "on_gpu.json").read_text())
    return tables


def test_parts_fail_alone_and_end_in_time(tmp_path: Path) -> None:
    report, clock = Report(tmp_path), Clock(time.monotonic() + 1.5)

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


def _results(folder: Path, **tables: list[dict[str, Any]]) -> Path:
    folder.mkdir()
    file = folder / "on_gpu.json"
    file.write_text(json.dumps(tables))
    return file


def _part(name: str, state: str) -> dict[str, Any]:
    return {"part": name, "state": state, "seconds": 1.0, "trace": None}


def _timed(job: str, rate: float, plan: float | None, peak: float = 2.0) -> dict[str, Any]:
    shared = {"model": "m", "job": job, "unit": "tokens", "a second": rate, "peak GiB": peak, "plan GiB": plan}
    planned = {"MFU": 0.1234, "plan / peak": plan / peak, "plan s / s": 0.5} if plan else {}
    return shared | planned


def test_results_of_several_calls_are_put_together(tmp_path: Path) -> None:
    facts = [{"fact": "gpus", "value": ["H"]}, {"fact": "platform", "value": "of-a-host"}]
    first = _results(
        tmp_path / "1",
        machine=facts,
        parts=[
            _part("a", "done"),
            _part("b", "skipped: 3 s left"),
            _part("c", "skipped: 3 s left"),
            _part("d", "done"),
        ],
        passes=[_timed("scoring", 10.0, 1.5), _timed("generation", 9.0, 2.0)],
    )
    second = _results(
        tmp_path / "2",
        parts=[_part("a", "skipped: 1 s left"), _part("b", "done"), _part("d", "failed: E")],
        passes=[_timed("scoring", 20.0, 1.5), _timed("scoring by transformers", 5.0, None, 4.0)],
    )
    tables = on_gpu_tables.read([first, second])
    assert {row["part"]: row["state"].partition(":")[0] for row in tables["parts"]} == {
        "a": "done",
        "b": "done",
        "c": "skipped",
        "d": "done",
    }
    assert [*on_gpu_tables.rest_rows(tables)] == [{"part": "c", "state": "not run"}]
    assert "of-a-host" not in json.dumps(tables)
    # A later row takes an earlier one's place.
    rows = {row["job"]: row for row in on_gpu_tables.plan_rows("passes")(tables)}
    assert [*rows] == ["scoring", "generation"]
    assert (rows["scoring"]["a second"], rows["scoring"]["MFU"], rows["scoring"]["plan / peak"]) == (
        "20",
        "12%",
        "0.75",
    )
    (beside,) = on_gpu_tables.beside_rows(tables)
    assert (beside["work"], beside["ours / other"], beside["peak GiB, other"]) == ("scoring", "4.00", "4")
    other = _results(tmp_path / "3", machine=[{"fact": "gpus", "value": ["other"]}])
    with pytest.raises(ValueError, match="different gpus"):
        on_gpu_tables.read([first, other])


def test_a_difference_beyond_its_bound_is_shown(tmp_path: Path) -> None:
    kinds = {"family": "F", "precision": "fp32"}
    apart = {"device to fp64": 2e-6, "bound": 1e-6, "within": False}
    state = "largest differences: em 0.0e+00, rank 2.5e-03; of 320 scores 0 only on one"
    commands = [("unlearn, npo", "done"), ("evaluate, npo", state), ("attack, x", "failed: E: no")]
    file = _results(
        tmp_path / "1",
        equality=[{**kinds, "quantity": "losses of npo", **apart}],
        choices=[{**kinds, "quantity": "ranks", "other": "0 of 7", "within": True}],
        commands=[{"command": name, "state": own, "seconds": 1.0} for name, own in commands],
    )
    tables = on_gpu_tables.read([file])
    (row,) = on_gpu_tables.equality_rows(tables)
    assert (row["losses"], row["ranks"], row["all within"]) == ("2.0e-06 / 1.0e-06", "0 of 7", "no")
    unlearned, attack = on_gpu_tables.command_rows(tables)
    assert [*unlearned.values()][-1] == "2.5e-03 (rank)"
    assert (attack["state"], [*attack.values()][-1]) == ("failed: E: no", "")


def test_the_page_has_the_tables_of_the_stored_results(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stored = Path(on_gpu.__file__).parent / "results" / "on_gpu.json"
    page = tmp_path / "results.md"
    page.write_text((DOCS / "results.md").read_text())
    on_gpu_tables.write(on_gpu_tables.read([stored]), tmp_path)
    assert page.read_text() == (DOCS / "results.md").read_text()
    # What is stored again is the same.
    on_gpu.main(["--read", str(stored), "--out", str(tmp_path)])
    assert (tmp_path / "on_gpu.json").read_text() == stored.read_text()
    shown = capsys.readouterr().out
    assert all(f"## {name}\n" in shown for name in on_gpu_tables.PAGE_TABLES)


def test_results_need_a_folder_or_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        on_gpu.main(["--write"])
    assert "--out FOLDER" in capsys.readouterr().err
