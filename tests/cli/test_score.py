"""``score``: stored responses are scored again, without a model and without torch."""

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

QUICK = ("--replicates=20", "--limit=2", "--max-new-tokens=4", "--allow-broken")


@pytest.fixture
def evaluated(medunlearn: Callable[..., Any], bench: Path, target: Path, tmp_path: Path) -> Path:
    """A copy of the target run, evaluated by token F1 alone."""
    run = tmp_path / "target"
    shutil.copytree(target, run, ignore=shutil.ignore_patterns("evaluations", "responses"))
    medunlearn("evaluate", run, bench, "--split", "random_10", "--metrics", "token_f1", *QUICK)
    return run


def scores(run: Path) -> pd.DataFrame:
    (path,) = run.glob("evaluations/*/scores.parquet")
    return pd.read_parquet(path)


def test_another_measure_is_added_without_torch(evaluated: Path) -> None:
    before = scores(evaluated)
    code = (
        "import sys; from medunlearn.cli.main import app\n"
        "try: app(sys.argv[1:])\n"
        "except SystemExit as end: assert not end.code, end.code\n"
        "assert 'torch' not in sys.modules"
    )
    words = ["score", str(evaluated), "--measures", "rouge_l,exact_match", "--allow-broken", "--json"]
    process = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stderr
    assert {row["measure"] for row in json.loads(process.stdout)["table"]} >= {"token_f1", "rouge_l"}
    after = scores(evaluated)
    assert set(after["measure"]) == {"token_f1", "rouge_l", "exact_match"}
    assert len(after) == 3 * len(before)
    token_f1 = after[after["measure"] == "token_f1"].reset_index(drop=True)
    pd.testing.assert_frame_equal(token_f1[list(before.columns)], before, check_dtype=False)


def test_scoring_again_changes_no_number(medunlearn: Callable[..., Any], evaluated: Path) -> None:
    before = scores(evaluated)
    medunlearn("score", evaluated, "--allow-broken")
    pd.testing.assert_frame_equal(scores(evaluated), before)


def test_a_run_without_responses_is_refused(medunlearn: Callable[..., Any], target: Path, tmp_path: Path) -> None:
    run = tmp_path / "target"
    shutil.copytree(target, run, ignore=shutil.ignore_patterns("evaluations", "responses"))
    medunlearn("score", run, code=2)
