"""Stored responses are scored again without a model, and without torch."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

import medunlearn as mu
from medunlearn.config import EvaluateSettings, check
from medunlearn.data.benchmark import Benchmark
from medunlearn.errors import InputError, ModelError, UnknownNameError
from medunlearn.probes.evaluate import evaluate_one
from medunlearn.results.runs import Run


@pytest.fixture
def scored(hospital: Benchmark, copy: Callable[..., Run], tmp_path: Path) -> tuple[Run, Path]:
    """A run evaluated with ROUGE-L and token entropy, and its benchmark's folder."""
    folder, run = hospital.save(tmp_path / "bench"), copy()
    values = {"split": "random_10", "replicates": 20, "max_new_tokens": 4, "metrics": ("rouge_l", "te")}
    evaluate_one(run, Benchmark.load(folder), check(EvaluateSettings, values), quiet=True)
    return run, folder


def test_a_pattern_that_matches_nothing_is_refused(scored: tuple[Run, Path], tmp_path: Path) -> None:
    run, _ = scored
    with pytest.raises(InputError, match=r"No folder matches .*typo\*"):
        mu.scores([run.folder, tmp_path / "typo*"])


def test_measures_are_added_and_replaced(scored: tuple[Run, Path]) -> None:
    run, folder = scored
    before = mu.scores(run.folder)
    with pytest.raises(ModelError, match=r"all of its .* answers are the same"):
        mu.score(run.folder)
    how = {"allow_broken": True}  # four tokens of a model that was hardly trained
    first = set(mu.score(run.folder, **how).summary["measure"])
    pd.testing.assert_frame_equal(mu.scores(run.folder), before)
    added = mu.score(str(run.folder), measures="token_f1,answer_probability", **how).table
    assert set(added["measure"]) == {"rouge_l", "te", "token_f1", "answer_probability"}
    assert added.loc[added["measure"] == "token_f1", "value"].notna().all()
    assert first < set(mu.score(run, benchmark=folder, **how).summary["measure"])
    with pytest.raises(UnknownNameError, match="rouge_l"):
        mu.score(run, measures="rouge")
    shutil.rmtree(folder)
    with pytest.raises(InputError, match="not at its recorded place"):
        mu.score(run)


def test_nothing_heavy_is_loaded(scored: tuple[Run, Path]) -> None:
    code = (
        f"import sys, medunlearn as mu\nmu.score({str(scored[0].folder)!r}, measures='em', allow_broken=True)\n"
        "print(sorted({'torch', 'transformers', 'peft', 'scipy.stats', 'nltk'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
