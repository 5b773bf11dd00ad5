"""The commands of docs/benchmarks.md on diagnoses run, as they stand but for the size of the training."""

from __future__ import annotations

from pathlib import Path

import pytest
from pages import Page, run_line

from medunlearn.config import DiagnoseSettings, TrainSettings, WatchSettings
from medunlearn.papers.memorization.diagnosis.settings import DiagnosisSettings

PAGE = Page.read("papers/memorization.md", "Diagnosis")
SMALL = {
    "train": ["--epochs=1", "--tiny-width=32", "--tiny-layers=2", "--watch.limit=2", "--watch.new-tokens=50"],
    "build": ["--synthetic", "16", "--validation=2", "--test=3"],
}


def test_the_commands_run_in_their_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    lines = PAGE.commands
    assert len(lines) == 3
    for line in lines:
        run_line(f"{line} --quiet", SMALL)
    assert list((tmp_path / "runs" / "diagnosis" / "diagnosis").glob("test-*/report.html"))


def test_every_setting_that_the_page_names_is_one() -> None:
    watched = {name.partition(".")[2] for name in PAGE.flags if name.startswith("watch.")}
    named = {name.partition(".")[0] for name in PAGE.flags} - {"preset", "against"}
    settings = {*TrainSettings.model_fields, *DiagnosisSettings.model_fields, *DiagnoseSettings.model_fields}
    assert watched <= set(WatchSettings.model_fields)
    assert len(watched) >= 4
    assert named <= settings
