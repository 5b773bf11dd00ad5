"""The commands of docs/measure.md on ranks of facts run in their order."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from pages import Page, run_line

from medunlearn.config import EvaluateSettings
from medunlearn.data.alternatives import FEWEST, USUAL
from medunlearn.data.fact_ranks import AFTER
from medunlearn.data.measurements import ENOUGH
from medunlearn.data.value_draws import SPREAD

PAGE = Page.read("ranks.md", "Ranks of facts")
START = (
    "medunlearn build amnesia --synthetic 20 --out bench/",
    "medunlearn train bench/ --model tiny --out runs/target --epochs 1 --tiny-width 32 --tiny-layers 2",
)
SMALL = ["--allow-broken", "--limit=2", "--max-new-tokens=4", "--replicates=20"]


def test_commands_of_the_page_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert len(PAGE.commands) == 3
    for line in (*START, *PAGE.commands):
        run_line(line, {"evaluate": SMALL})
    facts = [pd.read_parquet(path) for path in tmp_path.glob("runs/target/evaluations/*/facts.parquet")]
    assert sorted(int(table["of"].max()) for table in facts) == [60, 60, 100]
    assert {context for table in facts for context in table["context"]} == {"closed_book", "record"}


def test_numbers_of_the_page_are_those_of_the_code() -> None:
    fields = EvaluateSettings.model_fields
    text = " ".join(PAGE.text.split())
    assert f"Facts of {fields['ranked'].default} patients a side are ranked" in text
    assert f"about {fields['facts'].default} of a patient's questions in each fold" in text
    assert f"each among {fields['alternatives'].default} alternatives" in text
    assert f"among {fields['versions'].default} versions of itself" in text
    assert f"(log-normal, {SPREAD})" in text
    words = {9: "nine", 2: "two", 10: "ten"}
    assert f"where {words[ENOUGH]} other patients or more" in text
    assert USUAL == 1 / 5
    assert f"fewer than {words[FEWEST]} alternatives" in text
    assert "more than a fifth of the draws" in text
    assert f"fewer than {words[ENOUGH]} others to draw from" in text
    assert f"scored to {words[AFTER]} tokens behind the fact" in text
