"""Roads of docs/roads: their commands run here, or stand on a page whose commands a test runs."""

from __future__ import annotations

from pathlib import Path

import pytest
from pages import Page, run_line

ROADS = (Page.read("roads/owner.md"), Page.read("roads/auditor.md"), Page.read("roads/researcher.md"))
RUN_ELSEWHERE = (
    Page.read("forget.md")
    + Page.read("case.md")
    + Page.read("audit.md", "Run an audit")
    + Page.read("scale.md", "Sweeps")
    + Page.read("benchmarks.md", "Clinical notes of your own")
)
DEMOS = {"medunlearn demo forget --out demo-forget/", "medunlearn demo audit --out demo-audit/"}
"""Run by tests/cli/test_forget.py and tests/audit/test_docs.py."""
OWN_FILES = "medunlearn report runs/audit --out report/"


@pytest.mark.parametrize("road", ROADS[:2])
def test_a_test_runs_each_command(road: Page) -> None:
    assert {line.strip() for line in road.commands} - {*RUN_ELSEWHERE.commands} - DEMOS <= {OWN_FILES}


def test_the_sweep_is_that_of_its_page() -> None:
    lines = [line for line in ROADS[2].commands if "sweep" in line]
    assert {*lines} <= {*RUN_ELSEWHERE.commands}


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("medunlearn forget hospital/modle examples/notes.csv --patient 1 --key k --out case/", "no k"),
        ("medunlearn audit --responses said.jsonl --out runs/words", "said.jsonl"),
        ("medunlearn inspect my-notes.csv", "my-notes.csv"),
    ],
)
def test_a_wrong_path_of_the_readers_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str, named: str
) -> None:
    monkeypatch.chdir(tmp_path)
    result = run_line(line, code=2)
    assert named in result.output
    assert "Traceback" not in result.output
