"""Leftovers of killed processes: part files that nobody reads and the next writer removes, and broken files."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from medunlearn.data.leftovers import OLD, holds_nothing, part_of, read_whole, remove_stray_parts, set_aside
from medunlearn.data.storage import read_json, write_text

DEAD = 2**22 + 1  # above the largest process id of Linux


def test_part_files_of_dead_processes_are_removed(tmp_path: Path) -> None:
    own = part_of(tmp_path / "a.json").name
    host = own.split(".")[-2].split("-")[0]
    stray = [f".a.json.{DEAD}.part", f".b.{host}-{DEAD}.part", f".c.ffffff-{os.getpid()}.part"]
    stays = [own, f".d.{host}-{os.getppid()}.part", f".e.ffffff-{DEAD}.part", "f.part", ".g.part", "a.json"]
    below = tmp_path / "below"
    below.mkdir()
    for name in stray + stays:
        (tmp_path / name).write_text("half")
        (below / name).write_text("half")
    folder = below / f".model.{host}-{DEAD}.part"
    folder.mkdir()
    (folder / "weights").write_text("half")
    old = time.time() - OLD - 60
    os.utime(tmp_path / stray[2], (old, old))
    os.utime(below / stray[2], (old, old))
    remove_stray_parts(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([*stays, "below"])
    assert sorted(path.name for path in below.iterdir()) == sorted(stays)


def test_a_write_removes_the_parts_of_the_dead_beside_it(tmp_path: Path) -> None:
    (tmp_path / f".x.json.{DEAD}.part").write_text("half")
    write_text(tmp_path / "y.txt", "whole")
    assert [path.name for path in tmp_path.iterdir()] == ["y.txt"]


def test_a_folder_of_leftovers_holds_nothing(tmp_path: Path) -> None:
    assert holds_nothing(tmp_path / "nowhere")
    for name in (".lock", f".run.json.{DEAD}.part", ".step-1.broken"):
        (tmp_path / name).touch()
        assert holds_nothing(tmp_path)
    (tmp_path / ".hidden").touch()
    assert not holds_nothing(tmp_path)


def test_what_is_broken_is_set_aside_and_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "a.json"
    assert read_whole(file, read_json) is None
    for content in ("[1", "{"):
        file.write_text(content)
        assert read_whole(file, read_json) is None
        assert (tmp_path / ".a.json.broken").read_text() == content
    assert capsys.readouterr().err.count("was set aside as .a.json.broken") == 2
    file.write_text("[1]")
    assert read_whole(file, read_json) == [1]
    folder = tmp_path / "step-1"
    for _ in range(2):
        folder.mkdir()
        set_aside(folder, "cut off\nand more")
    assert "and more" not in capsys.readouterr().err
    assert sorted(path.name for path in tmp_path.iterdir()) == [".a.json.broken", ".step-1.broken", "a.json"]


def test_a_file_that_the_system_refuses_to_read_stays(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError):
        read_whole(tmp_path, lambda path: path.read_text())
    assert tmp_path.exists()
