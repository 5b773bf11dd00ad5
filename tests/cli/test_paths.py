"""Folders with spaces, accents and characters of shells and patterns: every command that reads or writes them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

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
    medunlearn("report", run, "--benchmark", bench, "--out", page)
    assert json.loads(Path(page, "report.json").read_text())["title"]
    assert "nothing to do" not in medunlearn("inspect", run).text
    assert medunlearn("verify", run).text
    for words in (("train", bench, *tiny, "--out", run), ("report", run, "--benchmark", bench, "--out", page)):
        medunlearn(*words)  # again: found complete, not refused
    assert sorted(path.name for path in home.iterdir()) == sorted([bench, run, page])
