"""A command that was asked for a measure that scores nothing ends with 1; what was scored is kept."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

OWN = """
from medunlearn.metrics import Measure

def _raise(items, tools):
    raise KeyError

FAILS = Measure("fails", "Fails", ("response",), "0 or 1, higher = knows more", "ours", _raise)
"""


@pytest.fixture
def fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "measure_that_raises.py").write_text(OWN)
    monkeypatch.syspath_prepend(tmp_path)
    return "measure_that_raises:FAILS"


def test_evaluate_attack_and_audit(
    medunlearn: Callable[..., Any], fails: str, bench: Path, target: Path, tmp_path: Path
) -> None:
    quick = ("--split=random_10", "--allow-broken", "--quiet")
    told = medunlearn(
        "evaluate", target, bench, *quick, "--limit=2", "--max-new-tokens=4", f"--metrics=rouge_l,{fails}", code=1
    )
    assert "fails scored none of" in told.text
    attack = ("--attacks=cumulative", "--cumulative.max_new_tokens=4", f"--more-measures={fails}")
    told = medunlearn("attack", target, bench, *quick, *attack, code=1)
    assert "fails scored none of" in told.text
    text = "On day one her count was 41 and she slept. " * 9
    file = tmp_path / "said.jsonl"
    file.write_text(json.dumps({"record_id": "r", "prefix": text[:8], "suffix": text[8:], "response": text[8:]}))
    audit = ("--responses", file, "--out", tmp_path / "audit", f"--measures=run_30,{fails}", "--quiet")
    assert "fails scored none of" in medunlearn("audit", *audit, code=1).text
