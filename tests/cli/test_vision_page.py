"""Every command of docs/vision.md, with small models."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

PAGE = (Path(__file__).parents[2] / "docs" / "vision.md").read_text(encoding="utf-8")
SMALL = {
    "build": ["--synthetic=4", "--studies", "1", "--rephrase=none", "--image-size=32"],
    "train": ["--tiny-width=16", "--tiny-layers=1", "--epochs=1", "--precision=fp32"],
    "unlearn": ["--epochs=1", "--precision=fp32"],
    "evaluate": ["--max-new-tokens=2", "--replicates=5", "--limit=1"],
    "export": [],
}


def test_the_page_runs(medunlearn: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    lines = "".join(re.findall(r"```bash\n(.*?)```", PAGE, re.DOTALL)).splitlines()
    assert len(lines) == 7
    for line in lines:
        words = [word for word in shlex.split(line)[1:] if word != "--image-size=64"]
        medunlearn(*words, *SMALL[words[0]], *([] if words[0] == "export" else ["--quiet"]))
    assert (tmp_path / "hf" / "preprocessor_config.json").exists()


def test_what_the_page_names_is_there() -> None:
    for name in re.findall(r"\b(?:docs|benchmarks_perf)/[\w.-]+", PAGE):
        assert (Path(__file__).parents[2] / name).exists(), name
    for name in re.findall(r"\]\(([\w.-]+\.md)\)", PAGE):
        assert (Path(__file__).parents[2] / "docs" / name).exists(), name
