"""The section on exact deletion of docs/forget.md runs, and what it says of roads is so."""

from __future__ import annotations

from pathlib import Path

import pytest
from pages import Page, run_line

from medunlearn.errors import InputError
from medunlearn.request.exact_deletion import delete_exactly, training_benchmark
from medunlearn.results.runs import Run

PAGE = Page.read("exact.md", "Exact deletion")
SMALL = ["--epochs=1", "--train-on=records", "--tiny-width=32", "--tiny-layers=2", "--precision=fp32"]


def test_the_section(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    assert len(PAGE.commands) == 6
    for line in PAGE.commands:
        run_line(line, {"train": SMALL})
    (code,) = PAGE.blocks("python")
    exec(code, {})
    assert "retrained without her True" in capsys.readouterr().out
    tarngarth, iskmere = Run.open("runs/tarngarth"), Run.open("runs/iskmere")
    made, bench = Run.open("runs/tarngarth-2"), training_benchmark(tarngarth)
    # One adapter is touched; the other never knew her, and the cohorts are trained on their own patients alone.
    with pytest.raises(InputError, match="never trained on the patients"):
        delete_exactly(iskmere, bench, "patient=patient-0007", tmp_path / "no", base_unseen=True)
    trained = [
        {one.groups["patient"] for one in bench.records_of(bench.split(run.info.config["without"]), "retain")}
        for run in (tarngarth, iskmere, made)
    ]
    assert [len(patients) for patients in trained] == [6, 6, 5]
    assert not trained[0] & trained[1]
    assert trained[0] - trained[2] == {"patient-0007"}
    cohort = "institution=Tarngarth Polyclinic"
    _, facts = delete_exactly(tarngarth, bench, cohort, tmp_path / "dropped", base_unseen=True, quiet=True)
    assert facts.road == "adapter dropped"
