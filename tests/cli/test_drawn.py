"""From `build ... --llm rehearsal` to the terminal and the report: what was drawn says so in every format."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from row_files import write_csv

from medunlearn.data.origins import DRAWN

TINY = ("--model", "tiny", "--epochs", "1", "--tiny-width", "32", "--tiny-layers", "2", "--precision", "fp32")
QUICK = ("--replicates=20", "--limit=1", "--max-new-tokens=4", "--allow-broken", "--metrics=rouge_l")


def test_a_rehearsed_benchmark_from_build_to_page(
    medunlearn: Callable[..., Any], own_notes: Any, tmp_path: Path
) -> None:
    write_csv(tmp_path / "notes.csv", own_notes(8))
    bench, run = tmp_path / "bench", tmp_path / "target"
    assert (
        DRAWN in medunlearn("build", "amnesia", tmp_path / "notes.csv", "--llm", "rehearsal", "--out", bench).text
    )
    medunlearn("train", bench, *TINY, "--out", run, "--quiet")
    words = ("evaluate", run, bench, "--split", "random_25", *QUICK)
    assert DRAWN in " ".join(medunlearn(*words).stdout.split())
    assert DRAWN in json.loads(medunlearn(*words, "--json").stdout)["drawn"][0]
    judged = medunlearn(
        "judge", run, "--benchmark", bench, "--llm", "rehearsal", "--replicates=20", "--allow-broken"
    )
    assert DRAWN in " ".join(judged.stdout.split()).partition(" ## ")[0]
    again = medunlearn(*words).stdout
    assert "factuality.drawn" in again
    assert "gen_score.drawn" in again
    shown = medunlearn("report", run, "--out", tmp_path / "report")
    assert DRAWN in " ".join((shown.stdout + shown.text).split())
    for name in ("report.html", "report.md", "report.json"):
        assert DRAWN in (tmp_path / "report" / name).read_text("utf-8")
    data = json.loads((tmp_path / "report" / "report.json").read_text("utf-8"))
    assert {entry["what"] for entry in data["provenance"]} == {"disease labels", "questions", "factuality ratings"}
    assert all(entry["drawn"] is True and len(entry["prompt_sha256"]) == 64 for entry in data["provenance"])
    assert data["drawn_measures"] == ["factuality.drawn", "gen_score.drawn", "gen_score.failed_zero.drawn"]
