"""Unique, common and unique over the union, against sets that are counted by hand."""

from __future__ import annotations

import pandas as pd
import pytest

from medunlearn.audit.persistence import count_probes, count_spans, persistence
from medunlearn.errors import InputError

BEFORE = {"a": 1.0, "b": 1.0, "c": 1.0, "d": 0.0, "e": 0.0, "f": 1.0, "g": float("nan")}
AFTER = {"a": 1.0, "b": 1.0, "c": 0.0, "d": 1.0, "e": 0.0, "f": None, "g": 1.0, "h": 1.0}


def placed(counts, corpus="guidelines", prefix=50):
    return counts.assign(subject=counts["probe_id"], corpus=corpus, prefix_tokens=prefix)


def test_shares_over_the_union():
    counts = count_probes(BEFORE, AFTER)
    # f, g and h are not scored in both, so they are in neither.
    assert counts["probe_id"].tolist() == ["a", "b", "c", "d", "e"]
    found = persistence(placed(counts), replicates=200).set_index("measure")
    before = {name for name in "abcde" if BEFORE[name]}
    after = {name for name in "abcde" if AFTER[name]}
    union = before | after
    assert found.loc["only_before", "value"] == pytest.approx(len(before - after) / len(union))
    assert found.loc["common", "value"] == pytest.approx(len(before & after) / len(union))
    assert found.loc["only_after", "value"] == pytest.approx(len(after - before) / len(union))
    assert found.loc["retained", "value"] == pytest.approx(len(before & after) / len(before))
    assert found.loc["common", "n"] == 4
    assert found.loc["retained", "n"] == 3
    assert (found["low"] <= found["value"]).all()
    assert (found["value"] <= found["high"]).all()


def test_the_papers_common_is_not_what_was_retained():
    """Table 7, clinical guidelines: retained follows from the three shares that it prints."""
    for only, common, retained in ((18.97, 71.79, 0.791), (6.65, 87.16, 0.929)):
        rows = [("x", 1, 0, 0)] * round(only * 100) + [("x", 0, 1, 0)] * round(common * 100)
        counts = pd.DataFrame(rows, columns=["probe_id", "only_before", "common", "only_after"])
        found = persistence(placed(counts), replicates=5).set_index("measure")
        assert found.loc["retained", "value"] == pytest.approx(retained, abs=5e-4)


def test_groups_stand_alone():
    counts = pd.concat(
        [placed(count_probes(BEFORE, AFTER)), placed(count_probes({"z": 1.0}, {"z": 1.0}), "x", 100)]
    )
    found = persistence(counts, replicates=20).set_index(["corpus", "prefix_tokens", "measure"])
    assert found.loc[("x", 100, "common"), "value"] == 1.0
    assert found.loc[("guidelines", 50, "common"), "value"] == pytest.approx(0.5)
    # One subject says nothing of how subjects differ.
    assert pd.isna(found.loc[("x", 100, "common"), "low"])


def test_an_empty_union_is_unscored_with_a_reason():
    found = persistence(placed(count_probes({"a": 0.0}, {"a": 0.0})), replicates=20).set_index("measure")
    assert found["value"].isna().all()
    assert found.loc["common", "reason"] == "neither model memorized anything"
    assert found.loc["retained", "reason"] == "nothing was memorized before"


def spans(rows):
    return pd.DataFrame(rows, columns=["probe_id", "length", "in_suffix", "text"])


def test_by_span_and_by_token():
    before = spans([("a", 60, 0, "one"), ("a", 50, 100, "two"), ("b", 30, 0, "short")])
    after = spans([("a", 60, 0, "one"), ("a", 55, 100, "two and more"), ("c", 70, 0, "elsewhere")])
    by_span = count_spans(["a", "b"], before, after, by="span").set_index("probe_id")
    assert by_span.loc["a"].tolist() == [1, 1, 1]
    assert by_span.loc["b"].tolist() == [0, 0, 0]
    by_token = count_spans(["a", "b"], before, after, by="token").set_index("probe_id")
    assert by_token.loc["a"].tolist() == [0, 110, 5]


def test_missing_columns_are_named():
    with pytest.raises(InputError, match="needs the columns corpus, prefix_tokens, subject"):
        persistence(count_probes(BEFORE, AFTER))


def test_no_probe_in_both():
    assert persistence(placed(count_probes({"a": 1.0}, {"b": 1.0}))).empty
