"""The commands of docs/unlearn.md on what is suppressed run."""

from __future__ import annotations

from pathlib import Path

import pytest
from pages import Page, run_line

PAGE = Page.read("suppressed.md", "Look for yourself")
SMALL = {
    "train": "--epochs 1 --tiny-width 32 --tiny-layers 2",
    "unlearn": "--epochs 1",
    "attack": "--allow-broken --relearning.steps 2 --relearning.subjects 2 --relearning.max-new-tokens 4 "
    "--relearning.alternatives 9",
}


def test_commands_of_the_page_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for line in PAGE.commands:
        run_line(line, {verb: words.split() for verb, words in SMALL.items()})
    assert list(tmp_path.glob("runs/stranger/attacks/*/*_summary.parquet"))
