"""One instrument: each paper's method, attack and audit work on another paper's benchmark, and ranks on all."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import medunlearn as mu
from medunlearn.data.benchmark import Benchmark

SMALL: dict[str, Any] = {"model": "tiny", "tiny_width": 32, "tiny_layers": 2, "epochs": 1, "precision": "fp32"}
QUICK: dict[str, Any] = {"limit": 2, "ranked": 1, "max_new_tokens": 4, "replicates": 20, "allow_broken": True}
BUILDS: dict[str, Callable[[Path], Benchmark]] = {
    "amnesia": lambda out: mu.build.amnesia(synthetic=20, nonmember_patients=4, out=out),
    "lume": lambda out: mu.build.lume(
        new=True, stories=4, personal_biographies=4, public_biographies=4, nonmembers=3, out=out
    ),
    "medforget": lambda out: mu.build.medforget(
        synthetic=8, institutions=4, studies=1, text_only=True, percents=(25,), out=out
    ),
}
CROSSED = {
    # benchmark: split, a method and an attack of other papers
    "amnesia": ("random_25", "ngdiff", "loss"),
    "lume": ("half", "chip", "reconstruction"),
    "medforget": ("patient_25", "simnpo", "relearning"),
}


@pytest.mark.parametrize("name", BUILDS)
def test_a_method_and_an_attack_of_other_papers(name: str, tmp_path: Path) -> None:
    split, method, attack = CROSSED[name]
    bench = BUILDS[name](tmp_path / "bench")
    target = mu.train(bench, **SMALL, out=tmp_path / "target", quiet=True)
    how = {"epochs": 1, "precision": "fp32"} if method != "chip" else {}
    unlearned = mu.unlearn(target, bench, split=split, method=method, **how, out=tmp_path / "unlearned", quiet=True)
    evaluated = mu.evaluate(unlearned, bench, split=split, against=[target], **QUICK, quiet=True)
    assert "ranked_first" in set(evaluated.table()["measure"])
    own = {"relearning": {"relearning.steps": 2}}.get(attack, {})
    attacked = mu.attack(
        unlearned, bench, split=split, attacks=attack, **own, allow_broken=True, replicates=20, quiet=True
    )
    assert not attacked.failed
    (model,) = attacked.models
    (scores_file,) = model.run.folder.glob("attacks/*/scores.parquet")
    assert pd.read_parquet(scores_file)["value"].notna().any()
    if name != "lume":
        return  # one audit of an unlearned model is enough
    audit = mu.audit(
        unlearned.folder, str(tmp_path / "bench"), out=tmp_path / "audit", prefixes=(8,), limit=2,
        max_new_tokens=31, shortest_suffix=8, measures=("run_30", "rouge_l"), allow_broken=True, replicates=20,
        quiet=True,
    )  # fmt: skip
    assert set(audit.table()["measure"]) >= {"rouge_l"}
