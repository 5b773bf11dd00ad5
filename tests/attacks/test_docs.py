"""The commands of docs/measure.md run as they stand but for the size of the training; its tables are complete."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner
from pages import Page

from medunlearn.attacks import ATTACKS
from medunlearn.cli.main import app

PAGE = Page.read("measure.md", "Membership inference", "Reconstruction")
SMALL = {
    "train": ["--epochs=1", "--tiny-width=32", "--tiny-layers=2"],
    "unlearn": ["--epochs=1"],
    "evaluate": ["--allow-broken", "--limit=1", "--max-new-tokens=2", "--replicates=20"],
}


def test_commands_run_in_their_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    lines = PAGE.commands
    assert len(lines) == 9
    for line in lines:
        words = shlex.split(line)
        result = CliRunner().invoke(app, [*words[1:], *SMALL.get(words[1], [])])
        assert result.exit_code == 0, f"{line}\n{result.output}"
    assert "## Membership inference" in (tmp_path / "report" / "report.md").read_text()
    kept = {path.name for path in (tmp_path / "runs" / "npo" / "attacks").glob("*/*.parquet")}
    assert kept == set(re.findall(r"`(membership_\w+\.parquet|scores\.parquet)`", PAGE.text))


def test_the_page_names_every_attack_with_its_source() -> None:
    rows = re.findall(r"^\| `([\w.]+)` \| .+ \| .+ \|$", PAGE.text, re.MULTILINE)
    assert rows == list(ATTACKS)
