"""The commands of docs/unlearn.md on methods run."""

from __future__ import annotations

from pathlib import Path

import pytest
from pages import Page, run_line

from medunlearn.methods import METHODS
from medunlearn.results.runs import Run

PAGE = Page.read("unlearn.md", "Methods")
START = (
    "medunlearn build amnesia --synthetic 20 --out bench/",
    "medunlearn train bench/ --model tiny --out runs/target --epochs 1 --tiny-width 32 --tiny-layers 2",
)


def test_commands_of_the_page_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for line in (*START, *PAGE.commands):
        run_line(line)
    assert Run.open(Path("runs/stranger")).info.label == "Counterfactual"


def test_every_method_is_on_the_page() -> None:
    """Each stands where one chooses, and with its formula in the reference, which has no other."""
    chosen, reference = PAGE.text.partition("[All methods]")[0], Page.read("reference/methods.md").text
    assert [name for name in METHODS if f"`{name}`" not in chosen or f"## {name}\n" not in reference] == []
