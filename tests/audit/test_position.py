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


def shares(**more):
    found = positions(SPANS, RESPONSES, segment=100, limit=300, replicates=50, **more)
    return found.set_index(["segment", "measure"])


def test_shares_by_hand():
    found = shares()["value"]
    # Four runs: three start in 0-99, one in 100-199.
    assert found.xs("starts", level=1).tolist() == pytest.approx([3 / 4, 1 / 4, 0])
    # Matched tokens of a: 0-69 and 150-249; of b: 90-129. Segment 1: 70 + 10; segment 2: 50 + 30; segment 3: 50.
    assert found.xs("tokens", level=1).tolist() == pytest.approx([80 / 210, 80 / 210, 50 / 210])
    # Of the two memorized responses both have a start in segment 1, one in segment 2.
    assert found.xs("memorized", level=1).tolist() == pytest.approx([1.0, 0.5, 0.0])
    assert found.xs("ratio", level=1).tolist() == pytest.approx([2 / 3, 1 / 3, 0.0])
    # Segment 2 can hold a run of 30 in responses of 130 tokens and more (a and b), segment 3 from 230 on (a).
    assert found.xs("ratio_reached", level=1).tolist() == pytest.approx([2 / 3, 1 / 2, 0.0])


def test_matched_share_of_each_segment_by_hand():
    found = matched_by_segment(SPANS, RESPONSES, count=3)
    # a: tokens 0-69, 150-199 and 200-249; b: 90-99 and 100-129; c: nothing.
    np.testing.assert_allclose(found, [[0.7, 0.5, 0.5], [0.1, 0.3, 0.0], [0.0, 0.0, 0.0]])
    # Runs of 50 and more alone; what lies behind the last segment is left out.
    longer = matched_by_segment(SPANS, RESPONSES, at_least=50, count=2)
    np.testing.assert_allclose(longer, [[0.5, 0.5], [0, 0], [0, 0]])


def test_longer_runs_alone():
    found = shares(at_least=50)
    assert found["value"].xs("starts", level=1).tolist() == pytest.approx([0.5, 0.5, 0.0])
    assert found["n"].xs("starts", level=1).tolist() == [2, 2, 2]
    assert found["n"].xs("tokens", level=1).tolist() == [150, 150, 150]


def test_edges_count_from_one_and_end_at_the_limit():
    found = positions(SPANS, RESPONSES, segment=120, limit=300, replicates=20)
    edges = found[["first", "last"]].drop_duplicates().to_numpy().tolist()
    assert edges == [[1, 120], [121, 240], [241, 300]]


def test_intervals_hold_their_values():
    found = shares().dropna(subset=["low"])
    assert (found["low"] <= found["value"] + 1e-12).all()
    assert (found["high"] >= found["value"] - 1e-12).all()


def test_nothing_memorized_is_unscored_and_not_zero():
    found = positions(SPANS.iloc[:0], RESPONSES, segment=100, limit=300, replicates=20).set_index(
        ["segment", "measure"]
    )
    assert found.loc[(0, "starts"), "reason"] == "no run"
    assert found.loc[(0, "starts"), "value"] is None or pd.isna(found.loc[(0, "starts"), "value"])
    assert found.loc[(0, "ratio"), "value"] == 0.0


def test_mistakes():
    with pytest.raises(InputError, match="do not fit into 50"):
        positions(SPANS, RESPONSES, segment=100, limit=50)
    with pytest.raises(InputError, match="response that is not there"):
        positions(SPANS, RESPONSES.iloc[1:], segment=100, limit=300)
