"""A few kills inside the work; ``benchmarks_perf/kills.py`` does many, of every command."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from kills import Case, content, differences, try_case

UNLEARN = ("--method=npo", "--precision=fp32", "--epochs=2", "--batch-size=8", "--checkpoint-seconds=0")
EPOCHS = ("--evaluate-every=1", "--select=best", "--evaluate.limit=1", "--evaluate.max-new-tokens=2")


@pytest.mark.parametrize("seed", [0, 1])
def test_a_killed_command_ends_where_it_would_have(bench: Path, target: Path, tmp_path: Path, seed: int) -> None:
    def words(folder: Path) -> list[object]:
        # Its first evaluation is kept in the target's folder.
        shutil.copytree(target, folder / "target", ignore=shutil.ignore_patterns("evaluations", "responses"))
        return ["unlearn", "target", bench, "--split=random_10", *UNLEARN, *EPOCHS, "--out=out", "--quiet"]

    tally = try_case(Case("unlearn", words), 3, tmp_path, seed)
    assert tally.different == ()
    assert tally.killed == 3
    assert tally.events > 30


def test_the_comparison_sees_what_differs(tmp_path: Path) -> None:
    whole, other = tmp_path / "whole", tmp_path / "other"
    for folder in (whole, other):
        folder.mkdir()
        (folder / "run.json").write_text('{"results": {"n": 1}, "seconds": 3}')
        (folder / "text").write_text(str(folder / "x"))
    assert list(differences(content(whole), content(other))) == []
    (other / "run.json").write_text('{"results": {"n": 2}, "seconds": 4}')
    (other / ".lock").touch()
    (whole / "gone").touch()
    assert list(differences(content(whole), content(other))) == [
        ".lock is too much",
        "gone is missing",
        "run.json differs at results at n: 1 became 2",
    ]
