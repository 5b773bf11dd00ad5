"""What docs/audit.md shows of answer options runs, small; its tables name what there is."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from fake_server import FakeServer
from pages import Page, run_line

from medunlearn.audit.options.option_audit import CHOICES_SCHEMA, OPTIONS_SCHEMA
from medunlearn.audit.options.option_prompts import read_prompts

PAGE = Page.read("options.md", "Answer options", "Semantic measures")
SMALL = {"build": ["--limit=14"], "train": ["--tiny-width=32", "--tiny-layers=2", "--precision=fp32"]}


def test_the_page_runs(
    question_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copy(question_file, "questions.jsonl")
    lines = PAGE.commands
    assert len(lines) == 3
    for line in lines:
        verb = line.split()[1]
        small = SMALL[verb] + ([] if "--epochs 0" in line or verb == "build" else ["--epochs=2"])
        run_line(line.replace("--nonmembers 100", "--nonmembers 5"), small)
    local, served, _ = PAGE.blocks("python")
    spaces: dict[str, Any] = {}
    exec(local.replace('trained_on="bench/"', 'trained_on="bench/", limit=14, max_new_tokens=4'), spaces)
    assert set(spaces["table"]["group"]) == {"all", "member", "non-member", "member - non-member"}
    with FakeServer() as server:
        exec(served.replace("http://127.0.0.1:8000/v1", server.base_url), spaces)
    assert set(spaces["served"].options["prompt"]) == {"another", "fill_in", "clinician"}
    assert "accuracy_text" in capsys.readouterr().out
    files = {path.name for path in (tmp_path / "runs" / "options").iterdir()}
    assert {"options.parquet", "choices.parquet", "options_summary.parquet", "run.json", "responses"} <= files
    assert (tmp_path / "runs" / "options").stat().st_mode & 0o077 == 0


def test_the_semantic_part_runs(
    make_pair_models: Callable[[Path], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    make_pair_models(tmp_path)
    exec(PAGE.blocks("python")[2], {})
    bert, bart = (float(line) for line in capsys.readouterr().out.split())
    assert -1 <= bert <= 1
    assert bart < 0


def test_the_page_names_prompts_measures_and_columns() -> None:
    prompts = re.findall(r"^\| `(\w+)` \| (?:text|instruction)", PAGE.text, re.MULTILINE)
    assert prompts == list(read_prompts())
    rows = dict(re.findall(r"^\| `(\w+\.parquet)` \| (.*) \|$", PAGE.text, re.MULTILINE))
    assert re.findall(r"`([\w.]+)`", rows["options.parquet"]) == OPTIONS_SCHEMA.names
    named = re.findall(r"`(\w+)`", rows["choices.parquet"])
    assert named == [name for name in CHOICES_SCHEMA.names if name not in ("question_id", "form")]


def test_every_measure_of_the_table_is_on_the_page() -> None:
    from medunlearn.audit.options.option_summary import observations

    options = pd.DataFrame(
        {"question_id": ["a"], "prompt": ["p"], "removed": ["A"], "gold": ["A"], "exact": [True], "relaxed": [True]}
    )
    choices = pd.DataFrame({"question_id": ["a"] * 2, "form": ["text", "letter"], "correct": [True, False]})
    values, _ = observations(options, choices)
    assert all(f"`{measure}`" in PAGE.text for _, measure in values.columns)
