"""Duplication and position from an audit that is written by hand: what is expected is counted here."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from medunlearn.data.responses import Response
from medunlearn.papers.memorization.compare import audit_content, read_tables
from medunlearn.papers.memorization.compare.trends import position_trends
from medunlearn.papers.memorization.report import AuditContent, audit_report, findings
from medunlearn.papers.memorization.report.figures import figure_copies
from medunlearn.papers.memorization.report.tables import crossed
from medunlearn.reports.markdown import to_markdown

from .conftest import store_audit

COPIES = (0, 1, 4, 16)
EACH = 6
# Of six texts with so many copies, so many are repeated for 250 of 300 tokens; the next one for 80.
WHOLE = {0: 0, 1: 1, 4: 3, 16: 5}
# Record -> copies, and how many tokens of its suffix come back.
RUNS = {
    f"r{copies}-{place}": (copies, 250 if place < whole else 80 if place == whole and copies else 0)
    for copies, whole in WHOLE.items()
    for place in range(EACH)
}
DRAWS = {"replicates": 20, "seed": 0}


def write(
    folder: Path, suffix: int = 300, copies: Mapping[str, int | None] | None = None, *, silent: bool = False
) -> Path:
    counts = {record: many for record, (many, _) in RUNS.items()} if copies is None else copies
    runs = {f"{record}@10": 0 if silent else min(length, suffix) for record, (_, length) in RUNS.items()}
    return store_audit(
        folder,
        folder.name,
        [(f"{record}@10", record, record, "texts", 10, list(range(suffix))) for record in RUNS],
        [(probe, "greedy", f"run_{n}", float(runs[probe] >= n), None) for probe in runs for n in (30, 50)],
        [(probe, "greedy", length, 0, "words") for probe, length in runs.items() if length],
        [Response(probe, "greedy", 0, "said", tuple(range(300)), finished=False) for probe in runs],
        copies=[counts[record] for record in RUNS],
    )


@pytest.fixture(scope="module")
def content(tmp_path_factory: pytest.TempPathFactory) -> AuditContent:
    return audit_content([write(tmp_path_factory.mktemp("copies") / "m")], replicates=200)


def test_the_ratio_by_copies_is_that_of_its_records(content: AuditContent):
    for copies, whole in WHOLE.items():
        (row,) = content.rows("duplication", copies=copies, measure="run_30")
        assert row["value"] == pytest.approx((whole + bool(copies)) / EACH)
        assert (row["n_scored"], row["n_subjects"]) == (EACH, EACH)
    table = crossed(content, "duplication")[""]
    assert [cell.text for cell in table.columns[4:]] == ["0 copies", "1 copy", "4 copies", "16 copies"]
    assert [cell.text for cell in table.rows[0][4:]] == ["0.00%", "33.33%", "66.67%", "100.00%"]
    assert "By copies in the training text" in to_markdown(audit_report(content))
    ((corpus, spec),) = figure_copies(content)
    line = next(trace for trace in spec["data"] if trace["mode"] == "lines+markers")
    assert (corpus, line["x"]) == ("texts", [0, 1, 4, 16])
    assert line["y"] == pytest.approx([0, 1 / 3, 2 / 3, 1], abs=1e-4)


def test_duplication_and_position_are_found(content: AuditContent):
    (row,) = content.rows("trends", factor="duplication", measure="run_30")
    x = [np.log2(copies) for copies, _ in RUNS.values() if copies]
    y = [float(length >= 30) for copies, length in RUNS.values() if copies]
    assert row["slope"] == pytest.approx(np.polyfit(x, y, 1)[0])
    assert row["levels"] == "1, 4, 16"
    (row,) = content.rows("trends", factor="position")
    # Shares of tokens 1-100, 101-200 and 201-300: all, all and half where 250 come back, 0.8 where 80 do.
    shares = {250: (1, 1, 0.5), 80: (0.8, 0, 0), 0: (0, 0, 0)}
    slopes = [np.polyfit([0, 1, 2], shares[length], 1)[0] for _, length in RUNS.values()]
    assert row["slope"] == pytest.approx(np.mean(slopes))
    assert (row["levels"], row["n"]) == ("1-100, 101-200, 201-300", len(RUNS))


def test_claims_of_duplication_and_position_rest_on_a_baseline(tmp_path: Path):
    folders = [write(tmp_path / "m"), write(tmp_path / "silent", silent=True)]
    content = audit_content(folders, {"baselines": {"m": ["silent"]}}, replicates=200)
    verdicts = {finding.name: finding.verdict for finding in findings(content)}
    assert verdicts["further on"] == verdicts["duplication"] == "holds"


def test_behind_a_texts_end_nothing_can_be_repeated(tmp_path: Path):
    (short,) = position_trends(read_tables(write(tmp_path / "short", suffix=150)), DRAWS)
    assert short["slope"] is None
    assert short["reason"] == "fewer than 200 tokens follow in half of the probes"
    (two,) = position_trends(read_tables(write(tmp_path / "two", suffix=299)), DRAWS)
    assert (two["levels"], two["n"]) == ("1-100, 101-200", len(RUNS))


@pytest.mark.parametrize(("unknown", "remaining"), [((1,), [0, 4, 16]), (COPIES, [])])
def test_unknown_copies_are_left_out(tmp_path: Path, unknown: tuple[int, ...], remaining: list[int]):
    copies: dict[str, Any] = {name: None if many in unknown else many for name, (many, _) in RUNS.items()}
    tables = audit_content([write(tmp_path / "m", copies=copies)], replicates=20).tables
    assert sorted(pd.unique(tables["duplication"]["copies"])) == remaining
    assert (tables["trends"]["factor"] == "duplication").any() == bool(remaining)
