"""Folders with spaces, accents and characters of shells and patterns: every command that reads or writes them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest


@pytest.mark.parametrize("name", ["Hôpital d’été n° 2", "a [b] *c? 'd' \"e\" $f"])
def test_a_run_in_a_folder_with_a_difficult_name(
    name: str, medunlearn: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / name
    home.mkdir()
    monkeypatch.chdir(home)
    bench, run, page = "un jeu", "modèle", "le rapport"
    medunlearn("build", "amnesia", "--synthetic", 4, "--out", bench)
    tiny = ("--model=tiny", "--tiny-width=16", "--tiny-layers=1", "--epochs=1", "--precision=fp32")
    medunlearn("train", bench, *tiny, "--out", run)
    quick = ("--split=random_25", "--limit=2", "--max-new-tokens=4", "--replicates=20", "--allow-broken")
    evaluate = ("evaluate", run, bench, *quick, "--out", "les nombres.csv")
    medunlearn(*evaluate)
    assert "--overwrite" in medunlearn(*evaluate, code=2).text
    report = ("report", run, "--benchmark", bench, "--split=random_25", "--out", page)
    medunlearn(*report)
    assert json.loads(Path(page, "report.json").read_text())["title"]
    medunlearn("verify", run)
    for words in (("train", bench, *tiny, "--out", run), (*evaluate, "--overwrite"), report):
        medunlearn(*words)  # again: found complete, not refused
    assert sorted(path.name for path in home.iterdir()) == sorted([bench, run, page, "les nombres.csv"])


def test_a_name_that_is_not_utf8_is_refused_as_an_argument(medunlearn: Callable[..., Any], tmp_path: Path) -> None:
    for words in (("build", "amnesia", "--out"), ("report",), ("verify",), ("inspect",)):
        assert r"caf\xe9 is not UTF-8" in medunlearn(*words, os.fsdecode(b"caf\xe9"), code=2).text
    assert not [*tmp_path.iterdir()]


def test_a_file_whose_name_is_not_utf8_is_read(medunlearn: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    for number, name in enumerate((b"caf\xe9.txt", b"\xff.txt", b"plain.txt")):
        words = f"Patient {number} came with fever and pain. " * 9
        (tmp_path / "notes" / os.fsdecode(name)).write_text(words)
    medunlearn("build", "notes", tmp_path / "notes", "--out", tmp_path / "bench")
    ids = pd.read_parquet(tmp_path / "bench" / "records.parquet")["record_id"]
    assert any(r"caf\xe9" in name for name in ids)


def test_a_python_without_docstrings_is_refused() -> None:
    done = subprocess.run(
        [sys.executable, "-OO", "-m", "medunlearn", "list", "methods"], capture_output=True, text=True
    )
    assert done.returncode == 2
    assert "PYTHONOPTIMIZE" in done.stderr
    assert "Traceback" not in done.stderr
