"""Real questions (MedQA): a small model trained on a few of them regenerates their options, and no others."""

from __future__ import annotations

from pathlib import Path

import pytest

from medunlearn.experiments.audit_options import audit_options
from medunlearn.experiments.build import build
from medunlearn.experiments.presets import train_settings
from medunlearn.experiments.train import train

FILE = Path(__file__).parents[4] / "shared" / "data" / "medqa" / "questions.jsonl"


@pytest.mark.skipif(not FILE.exists(), reason="the real MedQA file (../shared/data/medqa) is not here")
def test_members_against_non_members(tmp_path: Path) -> None:
    bench = build("options", {"file": FILE, "questions": 20, "nonmembers": 10, "percents": [50]})
    small = {"model": "tiny", "tiny_width": 96, "tiny_layers": 2, "precision": "fp32", "max_length": 768}
    settings = train_settings(
        {**small, "train_on": "records", "epochs": 30, "lr": 5e-3, "batch_size": 2, "micro_batch_size": 2}
    )
    run = train(bench, settings, tmp_path / "run", quiet=True)
    audit = audit_options(
        run,
        FILE,
        out=tmp_path / "audit",
        trained_on=bench,
        questions=20,
        prompts="in_place",
        forms="none",
        quiet=True,
    )
    table = audit.table().set_index(["measure", "group"])
    members, others = (table.loc[("exact", group)] for group in ("member", "non-member"))
    assert (members["n"], others["n"]) == (10, 10)
    assert members["value"] >= 0.4
    assert others["value"] <= 0.1
    assert table.loc[("exact", "member - non-member"), "low"] > 0
