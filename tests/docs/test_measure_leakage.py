"""The commands of docs/measure.md on leakage run in their order; a stand-in takes the place of scispaCy."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pages import Page, run_line

from medunlearn.metrics.leakage.extractors import Offline

PAGE = Page.read("leakage.md", "Leakage score")
START = (
    "medunlearn build amnesia --synthetic 20 --out bench/",
    "medunlearn train bench/ --model tiny --out runs/target --epochs 1 --tiny-width 32 --tiny-layers 2",
)
# Appended to keep a command short; nothing that it says is changed.
SMALL = {"medunlearn evaluate": ["--limit=2", "--max-new-tokens=4", "--replicates=20", "--allow-broken"]}


class Pipeline:
    """What the extractor uses of spaCy's pipeline; its entities are the phrases of ours."""

    pipe_names = ("parser", "ner")
    max_length = 10**6

    def pipe(self, texts: list[str]) -> Any:
        for phrases in Offline().phrases(texts):
            spans = [SimpleNamespace(start=place, end=place + 1, text=one) for place, one in enumerate(phrases)]
            yield SimpleNamespace(ents=spans, noun_chunks=iter(spans))


def test_commands_of_the_page_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "spacy", SimpleNamespace(load=lambda name: Pipeline()))
    lines = PAGE.commands
    assert len(lines) == 6
    for line in (*START, *lines):
        words = shlex.split(line)
        assert words[0] == "medunlearn"
        extra = next((more for start, more in SMALL.items() if line.startswith(start)), [])
        run_line(line, extra)
    assert (tmp_path / "bench" / "keywords" / "offline.parquet").exists()
    assert (tmp_path / "scispacy.parquet").exists()
