"""Real questions (MedQA): a small model trained on a few of them regenerates their options, and no others."""

from __future__ import annotations

from pathlib import Path

import pytest

from medunlearn.audit.options.option_audit import audit_options
from medunlearn.study.benchmark_builds import build
from medunlearn.study.presets import train_settings
from medunlearn.study.train import train

FILE = Path(__file__).parents[4] / "shared" / "data" / "medqa" / "questions.jsonl"


@pytest.mark.skipif(not FILE.exists(), reason="the real MedQA file (../shared/data/medqa) is not here")
def test_members_against_non_members(tmp_path: Path) -> None:
    # The shortest ones, so that a few seconds are enough to learn them by heart.
    short = tmp_path / "short.jsonl"
    short.write_text("".join(sorted(FILE.read_text().splitlines(keepends=True), key=len)[:12]))
    bench = build("options", {"file": short, "nonmembers": 6, "percents": [50]})
    small = {"model": "tiny", "tiny_width": 96, "tiny_layers": 2, "precision": "fp32", "train_on": "records"}
    settings = train_settings({**small, "epochs": 50, "lr": 4e-3, "batch_size": 2, "micro_batch_size": 2})
    run = train(bench, settings, tmp_path / "run", quiet=True)
    audit = audit_options(
        run, short, out=tmp_path / "audit", trained_on=bench, prompts="in_place", forms="none", quiet=True
    )
    table = audit.table().set_index(["measure", "group"])
    members, others = (table.loc[("exact", group)] for group in ("member", "non-member"))
    assert (members["n"], others["n"]) == (6, 6)
    assert members["value"] >= 0.5
    assert others["value"] == 0.0
    assert table.loc[("exact", "member - non-member"), "low"] > 0
