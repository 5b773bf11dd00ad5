"""A run that hardly changed what the model says of the forget set says so."""

from __future__ import annotations

import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from medunlearn.cli.output import Output
from medunlearn.data.benchmark import Benchmark
from medunlearn.results.runs import Run
from medunlearn.study.forget_loss import KEY, UNCHANGED, ForgetLoss
from medunlearn.study.presets import unlearn_settings
from medunlearn.study.report.gather import unchanged_runs
from medunlearn.study.run_views import unlearn_view
from medunlearn.study.unlearn import unlearn


def test_unchanged_is_of_probabilities() -> None:
    """A loss of .05 or 5 may move far without a word more or less; a token's probability may not."""
    assert ForgetLoss(0.05, 0.09, 8, 100).is_unchanged
    assert not ForgetLoss(0.05, 0.05 + 2 * UNCHANGED, 8, 100).is_unchanged
    # What was never known cannot be unlearned, whatever a loss does.
    assert not ForgetLoss(5.0, 5.0, 8, 100).is_unchanged
    for broken in (ForgetLoss(0.05, None, 8, 100), ForgetLoss(None, 0.05, 8, 100)):
        assert not broken.is_unchanged
        assert broken.words == ""
    assert ForgetLoss(0.0, math.log(2), 1, 2).probabilities == pytest.approx((1.0, 0.5))
    assert ForgetLoss.of({}) is None


@pytest.mark.parametrize(("method", "rate"), [("ga", 1e-6), ("ga", 5e-3), ("manu", None)])
def test_a_run_records_the_loss_before_and_after(
    knowing: Run, hospital: Benchmark, method: str, rate: float | None, tmp_path: Path
) -> None:
    values = {"method": method, "split": "random_10", "train_on": "questions", "precision": "fp32"}
    settings = unlearn_settings(values | ({} if rate is None else {"lr": rate, "epochs": 3}), tiny=True)
    run = unlearn(knowing, hospital, settings, tmp_path / "run", device="cpu", quiet=True)
    loss = ForgetLoss.of(run.info.results)
    assert loss is not None
    assert loss.probabilities is not None
    before, after = loss.probabilities
    assert before > 0.1
    assert run.info.results[KEY]["sequences"] == loss.sequences > 0
    if rate == 1e-6:
        assert loss.is_unchanged
        assert loss.after == pytest.approx(loss.before, rel=1e-3)
    elif rate is not None:
        assert not loss.is_unchanged
        assert after < before - UNCHANGED
    evaluated: Any = type("Evaluated", (), {"run": run})
    assert len(list(unchanged_runs([evaluated]))) == loss.is_unchanged


@pytest.mark.parametrize(("after", "is_warned"), [(0.11, True), (2.0, False)])
def test_the_command_names_the_next_try(
    after: float, is_warned: bool, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    results = {"steps": 3, "split": {"name": "random_10"}, KEY: ForgetLoss(0.1, after, 4, 40).to_json()}
    run: Any = SimpleNamespace(
        folder=tmp_path, info={"results": results, "config": {"method": "npo", "lr": 2e-5, "epochs": 1}}
    )
    Output().show(unlearn_view(run))
    captured = capsys.readouterr()
    assert "0.905" in captured.err
    assert ("WARNING" in captured.out) == is_warned
    assert ("--lr (now 2e-05)" in " ".join(captured.out.split())) == is_warned
