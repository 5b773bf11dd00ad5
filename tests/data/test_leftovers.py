"""Leftovers of killed processes: part files that nobody reads and the next writer removes, and broken files."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from medunlearn.data.leftovers import (
    LOCK,
    MARK,
    OLD,
    holds_nothing,
    is_leftover,
    is_passed_over,
    part_of,
    read_whole,
    remove_stray_parts,
    set_aside,
)
from medunlearn.data.storage import read_json, write_text

DEAD = 2**22 + 1  # above the largest process id of Linux
THEIRS = (
    *(".lock", ".mybackup.2024.part", ".photos.202405-31.part", f".a.json.{DEAD}.part", "f.part", ".g.part"),
    *(f"a.{MARK}-ffffff-1.part", ".old.broken", "broken", f"{MARK}.lock"),
)
"""Files of users whose names look like ours, or like those of older versions."""


def test_part_files_of_dead_processes_are_removed(tmp_path: Path) -> None:
    own = part_of(tmp_path / "a.json").name
    host = own.split(".")[-2].split("-")[1]
    stray = [f".a.json.{MARK}-{host}-{DEAD}.part", f".c.{MARK}-ffffff-{os.getpid()}.part"]
    stays = [own, f".d.{MARK}-{host}-{os.getppid()}.part", f".e.{MARK}-ffffff-{DEAD}.part", "a.json", *THEIRS]
    below = tmp_path / "below"
    below.mkdir()
    for name in stray + stays:
        (tmp_path / name).write_text("half")
        (below / name).write_text("half")
    folder = below / f".model.{MARK}-{host}-{DEAD}.part"
    folder.mkdir()
    (folder / "weights").write_text("half")
    old = time.time() - OLD - 60
    for name in (stray[1], *THEIRS):
        os.utime(tmp_path / name, (old, old))
        os.utime(below / name, (old, old))
    remove_stray_parts(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([*stays, "below"])
    assert sorted(path.name for path in below.iterdir()) == sorted(stays)


@pytest.mark.parametrize("name", THEIRS)
def test_a_file_of_others_is_no_leftover(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text("mine")
    assert not is_leftover(tmp_path / name)
    assert not holds_nothing(tmp_path)


def test_readers_pass_over_the_leftovers_of_older_versions() -> None:
    older = (".lock", ".a.json.77.part", ".a.json.abcdef-77.part", ".step-1.broken")
    assert all(is_passed_over(Path(name)) for name in (*older, LOCK, part_of(Path("a")).name))
    assert not any(is_passed_over(Path(name)) for name in ("a.lock", ".a.part", "a.1.part", ".git"))


def test_a_write_removes_the_parts_of_the_dead_beside_it(tmp_path: Path) -> None:
    host = part_of(tmp_path).name.split(".")[-2].split("-")[1]
    (tmp_path / f".x.json.{MARK}-{host}-{DEAD}.part").write_text("half")
    write_text(tmp_path / "y.txt", "whole")
    assert [path.name for path in tmp_path.iterdir()] == ["y.txt"]


def test_a_folder_of_leftovers_holds_nothing(tmp_path: Path) -> None:
    assert holds_nothing(tmp_path / "nowhere")
    for name in (LOCK, f".run.json.{MARK}-ffffff-{DEAD}.part", f".step-1.{MARK}-broken"):
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
        assert (tmp_path / f".a.json.{MARK}-broken").read_text() == content
    assert capsys.readouterr().err.count("was set aside as .a.json.") == 2
    file.write_text("[1]")
    assert read_whole(file, read_json) == [1]
    folder = tmp_path / "step-1"
    for _ in range(2):
        folder.mkdir()
        set_aside(folder, "cut off\nand more")
    assert "and more" not in capsys.readouterr().err
    aside = [f".a.json.{MARK}-broken", f".step-1.{MARK}-broken"]
    assert sorted(path.name for path in tmp_path.iterdir()) == [*aside, "a.json"]


def test_a_file_that_the_system_refuses_to_read_stays(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError):
        read_whole(tmp_path, lambda path: path.read_text())
    assert tmp_path.exists()
