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
