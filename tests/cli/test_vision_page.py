"""Every command of docs/vision.md, with small models."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pages import Page

PAGE = Page.read("medforget.md", "Vision-language models")
SMALL = {
    "build": ["--synthetic=4", "--studies", "1", "--rephrase=none", "--image-size=32"],
    "train": ["--tiny-width=16", "--tiny-layers=1", "--epochs=1", "--precision=fp32"],
    "unlearn": ["--epochs=1", "--precision=fp32"],
    "evaluate": ["--allow-broken", "--max-new-tokens=2", "--replicates=5", "--limit=1"],
    "export": [],
}


def test_the_page_runs(medunlearn: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    lines = PAGE.commands
    assert len(lines) == 7
    for line in lines:
        words = [word for word in shlex.split(line)[1:] if word != "--image-size=64"]
        medunlearn(*words, *SMALL[words[0]], *([] if words[0] == "export" else ["--quiet"]))
    assert (tmp_path / "hf" / "preprocessor_config.json").exists()
