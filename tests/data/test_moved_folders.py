"""Folders that records name are found beside a moved record, by what they hold."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from medunlearn.data.moved_folders import find_moved, recorded_path


def make(folder: Path, content: str = "") -> Path:
    folder.mkdir(parents=True)
    (folder / "content").write_text(content)
    return folder


def holds(content: str) -> Callable[[Path], bool]:
    return lambda folder: (folder / "content").read_text() == content


@pytest.mark.parametrize("recorded", ["/old/place/bench", "../../bench", "place/bench", "/bench"])
def test_a_neighbour_of_a_moved_record(tmp_path: Path, recorded: str) -> None:
    run, bench = make(tmp_path / "copy" / "runs" / "npo"), make(tmp_path / "copy" / "bench")
    found = find_moved(recorded, run)
    assert found is not None
    assert found.resolve() == bench


def test_the_content_decides_and_not_the_place(tmp_path: Path) -> None:
    """Another folder at the recorded place, and a nearer one of the same name."""
    old = make(tmp_path / "old" / "bench", "other")
    run = make(tmp_path / "copy" / "runs" / "npo")
    make(tmp_path / "copy" / "runs" / "bench", "nearer")
    right = make(tmp_path / "copy" / "bench", "right")
    assert find_moved(old, run, holds("right")) == right
    assert find_moved(old, run, holds("other")) == old
    assert find_moved(old, run, holds("none")) is None


def test_more_of_the_path_comes_first(tmp_path: Path) -> None:
    record = make(tmp_path / "sweep" / "npo-1" / "evaluations" / "a")
    make(tmp_path / "sweep" / "bench")
    right = make(tmp_path / "sweep" / "npo-1" / "probes" / "bench")
    assert find_moved("/gone/sweep/npo-1/probes/bench", record) == right


def test_paths_in_one_tree_are_relative(tmp_path: Path) -> None:
    run, bench = make(tmp_path / "runs" / "npo"), make(tmp_path / "bench")
    assert recorded_path(bench, run) == "../../bench"
    assert recorded_path(bench, Path("/nowhere/else")) == str(bench.resolve())
