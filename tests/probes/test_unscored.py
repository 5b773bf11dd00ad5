"""A measure that scores nothing at all ends no command well, and nothing that was scored is lost."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import medunlearn as mu
from medunlearn.data.benchmark import Benchmark
from medunlearn.errors import MedunlearnError
from medunlearn.metrics.unscored import RAISED, refuse_unscored
from medunlearn.results.evaluated import Evaluated
from medunlearn.results.runs import Run

OWN = """
from medunlearn.metrics import Measure, Score

def _fail(items, tools):
    raise KeyError("a text that no message may show")

FAILS = Measure("fails", "Fails", ("response",), "0 or 1, higher = knows more", "ours", _fail)
"""
QUIET: dict[str, Any] = {"replicates": 20, "quiet": True}
NOTE = " ".join(f"On day {day} her count was {day + 40} and she slept." for day in range(9))


@pytest.fixture
def fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "failing_measure.py").write_text(OWN)
    monkeypatch.syspath_prepend(tmp_path)
    return "failing_measure:FAILS"


def test_an_evaluation_that_a_measure_fails_on_says_so(fails: str, hospital: Benchmark, tmp_path: Path) -> None:
    file = tmp_path / "said.jsonl"
    rows = [{"question_id": q.question_id, "response": q.answer} for q in hospital.questions]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    how: dict[str, Any] = {"split": "random_10", "limit": 1, "out": tmp_path / "scores.csv", **QUIET}
    with pytest.raises(MedunlearnError) as refused:
        mu.evaluate(file, hospital, metrics=f"rouge_l,em,{fails}", **how)
    assert "fails scored none of" in str(refused.value)
    assert f"{RAISED} KeyError" in str(refused.value)
    assert "no message" not in str(refused.value)
    # A table gives no likelihoods, as was said before it was read: that refuses nothing.
    assert "em scored none" not in str(refused.value)
    (run,) = (Run.open(path.parent) for path in tmp_path.glob("*/run.json"))
    values = Evaluated.find(run).table.groupby("measure")["value"].count()
    assert values["rouge_l"] > 0
    assert values["fails"] == 0
    assert len(mu.score(run, measures="rouge_l", benchmark=hospital).table)
    with pytest.raises(MedunlearnError, match="fails scored none of"):
        mu.score(run, measures=fails, benchmark=hospital)


def test_an_audit_that_a_measure_fails_on_says_so(fails: str, tmp_path: Path) -> None:
    file = tmp_path / "said.jsonl"
    file.write_text(json.dumps({"record_id": "r", "prefix": NOTE[:8], "suffix": NOTE[8:], "response": NOTE[8:]}))
    with pytest.raises(MedunlearnError, match="fails scored none of 1 items of said"):
        mu.audit(responses=file, out=tmp_path / "a", measures=f"run_30,{fails}", **QUIET)
    assert mu.Audit.open(tmp_path / "a").scores()["value"].count() == 1
    with pytest.raises(MedunlearnError, match="fails scored none of 1 items of said"):
        mu.score(tmp_path / "a", measures=fails)


def _table(**reasons: str | None) -> pd.DataFrame:
    rows = [
        {"measure": name, "reason": why, "value": 1.0 if why is None else None} for name, why in reasons.items()
    ]
    return pd.DataFrame(rows)


@pytest.mark.parametrize(
    ("reasons", "requested", "foreseen", "refused"),
    [
        ({"rouge_l": None, "rank": "not ranked"}, (), (), False),  # a default may find nothing
        ({"rouge_l": None, "rank": "not ranked"}, ("rank",), (), True),
        ({"rouge_l": None, "rank": "not ranked"}, ("rank",), ("rank",), False),
        ({"rouge_l": "empty", "rank": "not ranked"}, (), (), True),
        ({"rouge_l": None, "mine": f"{RAISED} KeyError"}, (), (), True),
    ],
)
def test_what_counts_as_nothing_measured(
    reasons: dict[str, str | None], requested: tuple[str, ...], foreseen: tuple[str, ...], refused: bool
) -> None:
    try:
        refuse_unscored({"m": _table(**reasons)}, requested, foreseen)
    except MedunlearnError:
        assert refused
    else:
        assert not refused
