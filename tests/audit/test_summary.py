"""Means and differences of an audit's score table: samples of a probe count once, and only shared probes pair."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest

import medunlearn as mu
from medunlearn.audit.probe_summary import differences, leaking_subjects, means, paper_differences, paper_summary

DRAWS = {"replicates": 20, "seed": 0}


def table(*rows: tuple[str, str, int, float | None]) -> pd.DataFrame:
    """Probe, subject, sample, value."""
    frame = pd.DataFrame(rows, columns=["item", "subject", "sample", "value"])
    reason = frame["value"].isna().map({True: "empty", False: None})
    return frame.assign(reason=reason, measure="run_30", corpus="notes", prefix_tokens=10, decoding="greedy")


OURS = table(("b", "p0", 0, 1.0), ("b", "p0", 1, 0.0), ("a", "p1", 0, 1.0), ("c", "p2", 0, None))


def test_samples_are_averaged_first() -> None:
    (row,) = means(OURS, **DRAWS).to_dict("records")
    assert row["value"] == 0.75
    assert (row["n_scored"], row["n_unscored"], row["n_subjects"]) == (2, 1, 2)
    assert paper_summary(OURS, seed=0)["n_scored"].tolist() == [2]


def test_a_subject_leaks_where_any_of_its_samples_does() -> None:
    # p0 by one of two samples, p1 by its only one; p2 has no score, p3 gives nothing away.
    rows = leaking_subjects(pd.concat([OURS, table(("d", "p3", 0, 0.0))]), "run_30").to_dict("records")
    cell = {"corpus": "notes", "decoding": "greedy", "measure": "run_30"}
    assert rows == [{**cell, "n_leaking": 2, "n_subjects": 3}]
    assert leaking_subjects(OURS, "run_50").empty


def test_only_shared_probes_pair() -> None:
    theirs = table(("a", "p1", 0, 0.25), ("d", "p4", 0, 1.0), ("c", "p2", 0, 1.0))
    (row,) = differences(OURS, theirs, **DRAWS).to_dict("records")
    assert (row["difference"], row["n_pairs"]) == (0.75, 1)
    elsewhere = theirs.assign(corpus="others")
    assert differences(OURS, elsewhere, **DRAWS).empty
    assert paper_differences(OURS, elsewhere, seed=0).empty


def test_an_audit_is_read_with_other_runs(tmp_path: Path) -> None:
    words = " ".join(f"word{n}" for n in range(60))
    row = {"record_id": "r", "prefix": "", "suffix": words, "response": words, "copies": 3}
    (tmp_path / "said.jsonl").write_text(json.dumps(row) + "\n")
    mu.audit(responses=tmp_path / "said.jsonl", out=tmp_path / "audit", replicates=20, quiet=True)
    rows = mu.scores([tmp_path / "audit"]).set_index("measure")
    assert rows.loc["run_50", ["value", "decoding", "corpus", "model"]].tolist() == [
        1.0,
        "greedy",
        "responses",
        "said",
    ]
    assert rows.loc["run_50", "copies"] == 3
    assert rows.loc["longest_run", "value"] == pytest.approx(60)
