"""What docs/measure.md shows of utility runs, as it stands but for the size of the training."""

from __future__ import annotations

import re
import shlex
from functools import partialmethod
from pathlib import Path

import pandas as pd
import pytest
from pages import Page, run_line

from medunlearn.config import UtilitySettings

PAGE = Page.read("utility.md", "General utility")
SMALL = {
    "train": ("--epochs=1", "--tiny-width=32", "--tiny-layers=2", "--precision=fp32"),
    "unlearn": ("--epochs=1", "--precision=fp32", "--evaluate.max-new-tokens=4", "--evaluate.replicates=20"),
    "evaluate": ("--max-new-tokens=4", "--replicates=20", "--allow-broken"),
    "attack": ("--replicates=20",),
    "utility": ("--replicates=20",),
}


def run(line: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> str:
    words = shlex.split(line)
    if words[0] == "lm_eval":
        from lm_eval.__main__ import cli_evaluate

        monkeypatch.setattr("sys.argv", words)
        cli_evaluate()
        return capsys.readouterr().out
    result = run_line(line, SMALL.get(words[1], ()))
    return result.output


def test_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    import datasets
    from lm_eval.tasks import TaskManager

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", str(tmp_path / "cache"))
    # The harness looks through some thousand files of its own tasks, of which the page asks for none.
    monkeypatch.setattr(TaskManager, "__init__", partialmethod(TaskManager.__init__, include_defaults=False))
    (tmp_path / "my-tasks").mkdir()
    for suffix, language in (("yaml", "yaml"), ("jsonl", "json")):
        (tmp_path / "my-tasks" / f"capitals.{suffix}").write_text(PAGE.blocks(language)[0])
    lines = PAGE.commands
    assert len(lines) == 11
    said = [run(line, monkeypatch, capsys) for line in lines]
    assert "SemEval-2025 Task 4" in said[6]
    assert "unscored" not in said[6].partition("semeval")[2]
    report = (tmp_path / "report" / "report.md").read_text()
    assert "## Utility on general tasks" in report
    assert "public biography: membership AUC, loss" in report
    table = pd.read_parquet("runs/npo/epochs.parquet")
    assert {"membership_auc", "utility", "regurgitation"} <= set(table["measure"])
    assert "medunlearn_lume_half_forget_train_story_knowledge" in said[-1]


def test_every_setting_that_the_page_names_is_one() -> None:
    named = {*re.findall(r"`--(\w+)`", PAGE.text)}
    assert named <= set(UtilitySettings.model_fields)
    assert {"include", "metric"} <= named
