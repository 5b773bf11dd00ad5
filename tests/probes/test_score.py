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
from medunlearn.study.report.gather import metric_meanings


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


OWN = """
from medunlearn.metrics import Measure, Score

METRIC = Measure(
    name="shouting",
    title="Capital letters",
    needs=("response",),
    meaning="0-1, higher = louder",
    source="ours",
    score=lambda items, tools: [Score(float((item.response or "").isupper())) for item in items],
)
TAKEN = Measure(
    name="te", title="Other", needs=("response",), meaning="", source="", score=lambda items, tools: [],
)
"""


def test_an_own_measure_is_one_measure_by_path_and_by_name(
    scored: tuple[Run, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, _ = scored
    (tmp_path / "loud_measure.py").write_text(OWN)
    monkeypatch.syspath_prepend(tmp_path)
    path, how = "loud_measure:METRIC", {"allow_broken": True}
    first = mu.score(run, measures=path, **how)
    for measures in (path, "shouting", f"{path},shouting", f"te,medunlearn.metrics.text:TOKEN_ENTROPY,{path}", ()):
        again = mu.score(run, measures=measures, **how)
        assert len(again.table) == len(first.table)
        assert set(again.table["measure"]) == {"rouge_l", "te", "shouting"}
    assert metric_meanings([again])["shouting"] == ("Capital letters", "0-1, higher = louder")
    with pytest.raises(InputError, match=r"loud_measure:TAKEN.*name of its own"):
        mu.score(run, measures="loud_measure:TAKEN", **how)


def test_an_evaluation_with_an_own_measure_is_scored_again(
    hospital: Benchmark, copy: Callable[..., Run], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "loud_measure.py").write_text(OWN)
    monkeypatch.syspath_prepend(tmp_path)
    hospital.save(tmp_path / "bench")
    values = {"split": "random_10", "replicates": 20, "max_new_tokens": 4}
    settings = check(EvaluateSettings, {**values, "metrics": ("rouge_l", "loud_measure:METRIC")})
    made = evaluate_one(run := copy(), Benchmark.load(tmp_path / "bench"), settings, quiet=True)
    assert made.own_measures["shouting"]["path"] == "loud_measure:METRIC"
    before = mu.scores(run.folder)
    mu.score(run, allow_broken=True)
    pd.testing.assert_frame_equal(mu.scores(run.folder), before)
    # In another process the module is named by a stored file alone: it is not imported, and its scores stay.
    monkeypatch.delitem(sys.modules, "loud_measure")
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry != str(tmp_path)])
    mu.score(run, allow_broken=True)
    pd.testing.assert_frame_equal(
        mu.scores(run.folder).sort_values(["measure", "item"], ignore_index=True),
        before.sort_values(["measure", "item"], ignore_index=True),
    )
    assert "loud_measure" not in sys.modules
    with pytest.raises(InputError, match="MEDUNLEARN_PLUGINS=loud_measure:METRIC"):
        mu.score(run, measures="shouting", allow_broken=True)


def test_nothing_heavy_is_loaded(scored: tuple[Run, Path]) -> None:
    code = (
        f"import sys, medunlearn as mu\nmu.score({str(scored[0].folder)!r}, measures='em', allow_broken=True)\n"
        "print(sorted({'torch', 'transformers', 'peft', 'scipy.stats', 'nltk'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_copied_run_is_scored_with_the_benchmark_beside_it(
    scored: tuple[Run, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The copy of runs and benchmark stands elsewhere, and another benchmark lies at the recorded place."""
    run, folder = scored
    copied = tmp_path / "elsewhere" / "copy"
    shutil.copytree(run.folder, copied / "runs" / "npo")
    record = Run.open(next((copied / "runs" / "npo" / "evaluations").iterdir()))
    for recorded in (str(folder), "../../../../../old/bench"):
        record.info.results["benchmark_folder"] = recorded
        record.info.write(record.folder)
        shutil.copytree(folder, copied / "bench")
        aside = folder.rename(tmp_path / "aside")
        Benchmark.load(aside).save(folder)
        (folder / "records.parquet").unlink()
        monkeypatch.chdir(tmp_path / "elsewhere")
        again = mu.score(copied / "runs" / "npo", allow_broken=True)
        assert set(again.table["measure"]) == {"rouge_l", "te"}
        shutil.rmtree(copied / "bench")
        with pytest.raises(InputError, match="not beside the run"):
            mu.score(copied / "runs" / "npo", allow_broken=True)
        shutil.rmtree(folder)
        aside.rename(folder)
