"""The commands of docs/forget.md on adoption run in their order, and its numbers are those of the code."""

from __future__ import annotations

from pathlib import Path

import pytest
from pages import Page, run_line

from medunlearn.config import AdoptSettings
from medunlearn.results.runs import Run

PAGE = Page.read("adopt.md", "Adopt a model")
SMALL = {
    "train": ["--epochs=1", "--train-on=records", "--tiny-width=32", "--tiny-layers=2"],
    "unlearn": ["--epochs=1"],
    "evaluate": ["--allow-broken", "--limit=2", "--max-new-tokens=4", "--replicates=20"],
}


def test_commands_of_the_page_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert len(PAGE.commands) == 7
    for line in PAGE.commands:
        run_line(line, SMALL)
    assert Run.open(tmp_path / "runs" / "npo").info.lineage[0] == str(tmp_path / "hospital" / "model")


def test_numbers_of_the_page_are_those_of_the_code() -> None:
    sample = AdoptSettings.model_fields["sample"].default
    assert f"on {sample} training records and {sample} training questions" in " ".join(PAGE.text.split())
