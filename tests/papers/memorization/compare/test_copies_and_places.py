"""Duplication and position from an audit that is written by hand: what is expected is counted here."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from medunlearn.data.responses import Response, ResponseStore
from medunlearn.papers.memorization.compare import audit_content, read_tables
from medunlearn.papers.memorization.compare.ratios import Draws
from medunlearn.papers.memorization.compare.trends import position_trends
from medunlearn.papers.memorization.report import AuditContent, audit_report, findings
from medunlearn.papers.memorization.report.figures import figure_copies
from medunlearn.papers.memorization.report.tables import copies_table
from medunlearn.reports.markdown import to_markdown
from medunlearn.results.scores import write_scores

COPIES = (0, 1, 4, 16)
EACH = 6
# Of six texts with so many copies, so many are repeated for 250 of 300 tokens; the next one for 80.
WHOLE = {0: 0, 1: 1, 4: 3, 16: 5}


def runs() -> dict[str, tuple[int, int]]:
    """Record -> copies, and how many tokens of its suffix come back."""
    return {
        f"r{copies}-{place}": (copies, 250 if place < whole else 80 if place == whole and copies else 0)
        for copies, whole in WHOLE.items()
        for place in range(EACH)
    }


def write(folder: Path, suffix: int = 300, copies: Mapping[str, int | None] | None = None) -> Path:
    key = ["probe_id", "variant", "sample"]
    probes, scores, spans, responses = [], [], [], []
    for record, (many, length) in runs().items():
        known = many if copies is None else copies[record]
        probe = f"{record}@10"
        told = min(length, suffix)
        probes.append((probe, record, record, "texts", 10, "p", "s", known, list(range(suffix))))
        labels = (probe, record, "texts", 10, "greedy", 0)
        scores += [(*labels, f"run_{n}", float(told >= n), None) for n in (30, 50)]
        if told:
            spans.append((probe, "greedy", 0, told, 0, 0, "words"))
        responses.append(Response(probe, "greedy", 0, "said", tuple(range(300)), finished=False))
    folder.mkdir()
    names = ["probe_id", "record_id", "subject", "corpus", "prefix_tokens", "prefix", "suffix", "copies"]
    pd.DataFrame(probes, columns=[*names, "suffix_tokens"]).to_parquet(folder / "probes.parquet")
    labels = ["item", "subject", "corpus", "prefix_tokens", "decoding", "sample"]
    write_scores(folder, pd.DataFrame(scores, columns=[*labels, "measure", "value", "reason"]))
    columns = [*key, "length", "in_response", "in_suffix", "text"]
    pd.DataFrame(spans, columns=columns).to_parquet(folder / "spans.parquet")
    ResponseStore(folder / "responses", {"made": "by hand"}).add(responses)
    info = {"verb": "audit", "label": "m", "status": "complete", "config": {"max_new_tokens": 300}, "lineage": []}
    (folder / "run.json").write_text(json.dumps({**info, "results": {"unit": {"name": "t", "noun": "tokens"}}}))
    return folder


@pytest.fixture(scope="module")
def content(tmp_path_factory: pytest.TempPathFactory) -> AuditContent:
    return audit_content([write(tmp_path_factory.mktemp("copies") / "m")], replicates=200)


def row(table: pd.DataFrame, **cell: Any) -> Any:
    for name, value in cell.items():
        table = table[table[name] == value]
    (found,) = table.to_dict("records")
    return found


def test_the_ratio_by_copies_is_that_of_its_records(content: AuditContent):
    for copies, whole in WHOLE.items():
        told = row(content.duplication, copies=copies, measure="run_30")
        assert told["value"] == pytest.approx((whole + bool(copies)) / EACH)
        assert (told["n_scored"], told["n_subjects"]) == (EACH, EACH)
    table = copies_table(content)
    assert table is not None
    assert [cell.text for cell in table.columns[4:]] == ["0 copies", "1 copy", "4 copies", "16 copies"]
    assert [cell.text for cell in table.rows[0][4:]] == ["0.00%", "33.33%", "66.67%", "100.00%"]
    assert "By copies in the training text" in to_markdown(audit_report(content))


def test_the_figure_by_copies_has_their_numbers(content: AuditContent):
    ((corpus, spec),) = figure_copies(content)
    line = next(trace for trace in spec["data"] if trace["mode"] == "lines+markers")
    assert corpus == "texts"
    assert line["x"] == [0.0, 1.0, 4.0, 16.0]
    assert line["y"] == pytest.approx([0, 1 / 3, 2 / 3, 1], abs=1e-4)


def test_duplication_and_position_are_found(content: AuditContent):
    slope = row(content.trends, factor="duplication", measure="run_30")["slope"]
    x = [np.log2(copies) for copies, _ in runs().values() if copies]
    y = [float(length >= 30) for copies, length in runs().values() if copies]
    assert slope == pytest.approx(np.polyfit(x, y, 1)[0])
    told = row(content.trends, factor="position")
    # Shares of tokens 1-100, 101-200 and 201-300: all, all and half where 250 come back, 0.8 where 80 do.
    shares = {250: (1, 1, 0.5), 80: (0.8, 0, 0), 0: (0, 0, 0)}
    slopes = [np.polyfit([0, 1, 2], shares[length], 1)[0] for _, length in runs().values()]
    assert told["slope"] == pytest.approx(np.mean(slopes))
    assert (told["levels"], told["n"]) == ("1-100, 101-200, 201-300", len(runs()))
    verdicts = {one.name: one.verdict for one in findings(content)}
    assert verdicts["further on"] == verdicts["duplication"] == "holds"


def test_behind_a_texts_end_nothing_can_be_repeated(tmp_path: Path):
    short = position_trends(read_tables(write(tmp_path / "short", suffix=150)), Draws(20))
    assert pd.isna(row(short)["slope"])
    assert row(short)["reason"] == "fewer than 200 tokens follow in half of the probes"
    two = row(position_trends(read_tables(write(tmp_path / "two", suffix=299)), Draws(20)))
    assert (two["levels"], two["n"]) == ("1-100, 101-200", len(runs()))


def test_unknown_copies_are_left_out(tmp_path: Path):
    one = {record: None if copies == 1 else copies for record, (copies, _) in runs().items()}
    told = audit_content([write(tmp_path / "some", copies=one)], replicates=20).duplication
    assert sorted(told["copies"].unique()) == [0, 4, 16]
    nobody = audit_content([write(tmp_path / "none", copies=dict.fromkeys(runs()))], replicates=20)
    assert nobody.duplication.empty
    assert not (nobody.trends["factor"] == "duplication").any()
