"""Places of memorized runs on a case that is counted by hand."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from medunlearn.audit.position import matched_by_segment, positions
from medunlearn.errors import InputError

# a: runs at 0-39 and 20-69 (they overlap), and at 150-249 across a border. b: at 90-129. c: none, and short.
SPANS = pd.DataFrame(
    [("a", 40, 0), ("a", 50, 20), ("a", 100, 150), ("b", 40, 90)], columns=["probe_id", "length", "in_response"]
).assign(variant="greedy", sample=0)
RESPONSES = pd.DataFrame(
    [("a", "p1", 300), ("b", "p2", 140), ("c", "p3", 60)], columns=["probe_id", "subject", "tokens"]
).assign(variant="greedy", sample=0)


def shares(spans=SPANS, **more):
    table = positions(spans, RESPONSES, segment=100, limit=300, replicates=50, **more)
    return table.set_index(["measure", "segment"])


@pytest.mark.parametrize(
    ("measure", "values"),
    [
        # Four runs: three start in 0-99, one in 100-199.
        ("starts", [3 / 4, 1 / 4, 0]),
        # Matched tokens of a: 0-69 and 150-249; of b: 90-129. Segment 1: 70 + 10; segment 2: 50 + 30; 3: 50.
        ("tokens", [80 / 210, 80 / 210, 50 / 210]),
        # Of the two memorized responses both have a start in segment 1, one in segment 2.
        ("memorized", [1.0, 0.5, 0.0]),
        ("ratio", [2 / 3, 1 / 3, 0.0]),
        # Segment 2 can hold a run of 30 in responses of 130 tokens and more (a and b), segment 3 from 230 on (a).
        ("ratio_reached", [2 / 3, 1 / 2, 0.0]),
    ],
)
def test_shares_by_hand(measure, values):
    rows = shares().loc[measure]
    assert rows["value"].tolist() == pytest.approx(values)
    lengths = rows.dropna(subset=["low"])
    assert (lengths["low"] <= lengths["value"] + 1e-12).all()
    assert (lengths["high"] >= lengths["value"] - 1e-12).all()


def test_matched_share_of_each_segment_by_hand():
    # a: tokens 0-69, 150-199 and 200-249; b: 90-99 and 100-129; c: nothing.
    matched = matched_by_segment(SPANS, RESPONSES, count=3)
    np.testing.assert_allclose(matched, [[0.7, 0.5, 0.5], [0.1, 0.3, 0.0], [0.0, 0.0, 0.0]])
    # Runs of 50 and more alone; what lies behind the last segment is left out.
    longer = matched_by_segment(SPANS, RESPONSES, at_least=50, count=2)
    np.testing.assert_allclose(longer, [[0.5, 0.5], [0, 0], [0, 0]])


def test_longer_runs_alone():
    table = shares(at_least=50)
    assert table.loc["starts"]["value"].tolist() == pytest.approx([0.5, 0.5, 0.0])
    assert table.loc["starts"]["n"].tolist() == [2, 2, 2]
    assert table.loc["tokens"]["n"].tolist() == [150, 150, 150]


def test_edges_count_from_one_and_end_at_the_limit():
    table = positions(SPANS, RESPONSES, segment=120, limit=300, replicates=20)
    edges = table[["first", "last"]].drop_duplicates().to_numpy().tolist()
    assert edges == [[1, 120], [121, 240], [241, 300]]


def test_nothing_memorized_is_unscored_and_not_zero():
    table = shares(SPANS.iloc[:0])
    assert table.loc[("starts", 0), "reason"] == "no run"
    assert pd.isna(table.loc[("starts", 0), "value"])
    assert table.loc[("ratio", 0), "value"] == 0.0


def test_mistakes():
    with pytest.raises(InputError, match="do not fit into 50"):
        positions(SPANS, RESPONSES, segment=100, limit=50)
    with pytest.raises(InputError, match="response that is missing"):
        positions(SPANS, RESPONSES.iloc[1:], segment=100, limit=300)
