"""``keywords``: what it says, and that it runs where torch is not installed."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

Medunlearn = Callable[..., Any]


@pytest.fixture
def own(bench: Path, tmp_path: Path) -> Path:
    """A copy of the benchmark that a test may write into."""
    shutil.copytree(bench, tmp_path / "bench", ignore=shutil.ignore_patterns("keywords"))
    return tmp_path / "bench"


def test_it_says_how_many_and_no_text(medunlearn: Medunlearn, own: Path) -> None:
    result = medunlearn("build", "keywords", own)
    assert "questions with keywords" in result.stdout
    assert "there is no term list for" in result.stdout
    assert "keywords/offline.parquet" in result.text.replace(" ", "")
    phrases = pd.read_parquet(own / "keywords" / "offline.parquet")["keyword"]
    assert not [phrase for phrase in phrases if " " in phrase and phrase in result.stdout]


def test_for_machines_and_in_a_file(medunlearn: Medunlearn, own: Path, tmp_path: Path) -> None:
    out = tmp_path / "k.parquet"
    facts = json.loads(medunlearn("build", "keywords", own, "--out", out, "--json").stdout)
    assert facts["path"] == str(out)
    assert facts["keywords"] == len(pd.read_parquet(out))
    assert not (own / "keywords").exists()
    assert medunlearn("build", "keywords", own, "--quiet").stdout == ""


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (("--extractor", "scispacy"), "docs/measure.md"),
        (("--extractor", "ofline"), "Did you mean 'offline'?"),
        (("--extractor", "nowhere:Nothing"), "cannot be imported"),
        (("--out", "."), "is a folder"),
    ],
)
def test_bad_input(medunlearn: Medunlearn, own: Path, words: tuple[str, ...], part: str) -> None:
    assert part in medunlearn("build", "keywords", own, *words, code=2).text


def test_a_benchmark_without_diseases(medunlearn: Medunlearn, lume: Path) -> None:
    assert "have no 'disease'" in medunlearn("build", "keywords", lume, code=2).text


def test_it_runs_where_torch_is_not_installed(own: Path) -> None:
    """scispaCy's environment holds no more than this."""
    missing = ("torch", "transformers", "tokenizers", "safetensors", "peft", "accelerate", "rapidfuzz")
    code = (
        "import sys\n"
        f"sys.modules.update(dict.fromkeys({missing!r}))\n"
        "from medunlearn.cli.main import app\n"
        f"app(['build', 'keywords', {str(own)!r}, '--json'])"
    )
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert json.loads(process.stdout)["with_keywords"] > 0


def test_evaluate_takes_the_file(
    medunlearn: Medunlearn, own: Path, target: Path, tmp_path: Path, bench: Path
) -> None:
    run = tmp_path / "target"
    shutil.copytree(target, run, ignore=shutil.ignore_patterns("evaluations", "responses", "keywords"))
    out = tmp_path / "k.parquet"
    medunlearn("build", "keywords", own, "--out", out)
    quick = ("--allow-broken", "--replicates=20", "--limit=2", "--max-new-tokens=4", "--metrics=ls", "--json")
    words = ("evaluate", run, own, "--split", "random_10", *quick)
    table = json.loads(medunlearn(*words, f"--keywords={out}").stdout)["table"]
    assert {row["measure"] for row in table if row["value"] is not None} >= {"ls"}
    assert not (own / "keywords").exists()
    assert "There is no file" in medunlearn(*words, "--keywords=nothing.parquet", code=2).text
