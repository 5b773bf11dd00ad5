"""Unique, common and unique over the union, against sets that are counted by hand."""

from __future__ import annotations

import pandas as pd
import pytest

from medunlearn.audit.persistence import COUNTS, count_probes, count_spans, persistence
from medunlearn.errors import InputError

BEFORE = {"a": 1.0, "b": 1.0, "c": 1.0, "d": 0.0, "e": 0.0, "f": 1.0, "g": float("nan")}
AFTER = {"a": 1.0, "b": 1.0, "c": 0.0, "d": 1.0, "e": 0.0, "f": None, "g": 1.0, "h": 1.0}


def placed(counts, corpus="guidelines", prefix=50):
    return counts.assign(subject=counts["probe_id"], corpus=corpus, prefix_tokens=prefix)


def table7(counts, **more):
    return persistence(placed(counts), **{"replicates": 20, **more}).set_index("measure")


def test_shares_over_the_union():
    counts = count_probes(BEFORE, AFTER)
    # f, g and h are not scored in both, so they are in neither.
    assert counts["probe_id"].tolist() == ["a", "b", "c", "d", "e"]
    table = table7(counts, replicates=200)
    # Before: a, b, c; after: a, b, d.
    assert table["value"].to_dict() == pytest.approx(
        {"only_before": 1 / 4, "common": 2 / 4, "only_after": 1 / 4, "retained": 2 / 3}
    )
    assert table["n"].to_dict() == {"only_before": 4, "common": 4, "only_after": 4, "retained": 3}
    # At most four subjects.
    assert table[["low", "high"]].isna().all(axis=None)


@pytest.mark.parametrize(("only", "common", "retained"), [(18.97, 71.79, 0.791), (6.65, 87.16, 0.929)])
def test_the_papers_common_is_not_what_was_retained(only, common, retained):
    """Table 7, clinical guidelines: retained follows from the three shares that it prints."""
    rows = [("x", 1, 0, 0)] * round(only * 100) + [("x", 0, 1, 0)] * round(common * 100)
    table = table7(pd.DataFrame(rows, columns=["probe_id", *COUNTS]), replicates=5)
    assert table.loc["retained", "value"] == pytest.approx(retained, abs=5e-4)


def test_groups_stand_alone():
    single = placed(count_probes({"z": 1.0}, {"z": 1.0}), "x", 100)
    counts = pd.concat([placed(count_probes(BEFORE, AFTER)), single])
    table = persistence(counts, replicates=20).set_index(["corpus", "prefix_tokens", "measure"])
    assert table.loc[("x", 100, "common"), "value"] == 1.0
    assert table.loc[("guidelines", 50, "common"), "value"] == pytest.approx(0.5)
    # One subject says nothing of how subjects differ.
    assert pd.isna(table.loc[("x", 100, "common"), "low"])


def test_an_empty_union_is_unscored_with_a_reason():
    table = table7(count_probes({"a": 0.0}, {"a": 0.0}))
    assert table["value"].isna().all()
    assert table.loc["common", "reason"] == "neither model memorized anything"
    assert table.loc["retained", "reason"] == "nothing was memorized before"
    assert persistence(placed(count_probes({"a": 1.0}, {"b": 1.0}))).empty


@pytest.mark.parametrize(("by", "of_a"), [("span", [1, 1, 1]), ("token", [0, 110, 5])])
def test_by_span_and_by_token(by, of_a):
    columns = ["probe_id", "length", "in_suffix", "text"]
    before = [("a", 60, 0, "one"), ("a", 50, 100, "two"), ("b", 30, 0, "short")]
    after = [("a", 60, 0, "one"), ("a", 55, 100, "two and more"), ("c", 70, 0, "elsewhere")]
    tables = (pd.DataFrame(rows, columns=columns) for rows in (before, after))
    counts = count_spans(["a", "b"], *tables, by=by).set_index("probe_id")
    assert (counts.loc["a"].tolist(), counts.loc["b"].tolist()) == (of_a, [0, 0, 0])


def test_missing_columns_are_named():
    with pytest.raises(InputError, match="needs the columns corpus, prefix_tokens, subject"):
        persistence(count_probes(BEFORE, AFTER))
