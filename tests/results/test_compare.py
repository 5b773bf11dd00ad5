"""Two models on the same questions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from medunlearn.errors import InputError
from medunlearn.results import summary
from medunlearn.statistics import paired_difference

HOW: dict[str, Any] = {"composites": ("MU", "AFE", "DS"), "rollup": "kind"}
BY = ("side", "fold", "kind")


def table_of(scores: pd.DataFrame, meta: pd.DataFrame) -> pd.DataFrame:
    names = {"question_id": "item", "metric": "measure"}
    return scores.merge(meta, on="question_id").rename(columns=names).assign(reason=None)


def summarize(scores: pd.DataFrame, meta: pd.DataFrame, **how: Any) -> pd.DataFrame:
    return summary.summarize(table_of(scores, meta), BY, **HOW, **how).rename(columns={"measure": "metric"})


def compare(a: pd.DataFrame, b: pd.DataFrame, meta: pd.DataFrame, **how: Any) -> pd.DataFrame:
    gaps = summary.compare(table_of(a, meta), table_of(b, meta), BY, **HOW, **how)
    return gaps.rename(columns={"measure": "metric"})


METRICS = ("rouge_l", "em", "te")


def make(subjects: int = 30) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """Two models' scores (a forgets better) and the questions' table; four questions a forget subject."""
    rng = np.random.default_rng(1)
    meta = pd.DataFrame(
        [(f"q{s}-{i}", f"p{s}", "forget", "train", "factual") for s in range(subjects) for i in range(4)],
        columns=["question_id", "subject", "side", "fold", "kind"],
    )
    hard = np.repeat(rng.uniform(0.3, 0.6, size=subjects), 4)
    tables = []
    for shift in (-0.2, 0.2):
        parts = [
            pd.DataFrame(
                {
                    "question_id": meta["question_id"],
                    "metric": metric,
                    "value": np.clip(hard + shift + rng.normal(scale=0.05, size=len(meta)), 0.0, 1.0),
                }
            )
            for metric in METRICS
        ]
        tables.append(pd.concat(parts, ignore_index=True))
    return tables[0], tables[1], meta


def row(table: pd.DataFrame, metric: str) -> dict[str, Any]:
    found = table[(table["metric"] == metric) & (table["kind"] == "all")]
    assert len(found) == 1
    return {str(name): None if pd.isna(value) else value for name, value in found.iloc[0].items()}


def column(scores: pd.DataFrame, meta: pd.DataFrame, metric: str) -> np.ndarray:
    by_question = scores[scores["metric"] == metric].set_index("question_id")["value"]
    return by_question[meta["question_id"]].to_numpy(float)


def test_metric_difference_is_the_paired_bootstrap() -> None:
    a, b, meta = make()
    direct = paired_difference(column(a, meta, "em"), column(b, meta, "em"), meta["subject"].tolist(), seed=2)
    found = row(compare(a, b, meta, seed=2), "em")
    assert (found["difference"], found["low"], found["high"], found["p"]) == (
        pytest.approx(direct.difference),
        pytest.approx(direct.low),
        pytest.approx(direct.high),
        direct.p,
    )
    assert (found["n_pairs"], found["n_dropped"], found["n_subjects"]) == (120, 0, 30)


def test_composite_difference_is_that_of_the_summaries() -> None:
    a, b, meta = make()
    name = "H(1-rouge_l, 1-em)"
    found = row(compare(a, b, meta), name)
    gap = row(summarize(a, meta), name)["value"] - row(summarize(b, meta), name)["value"]
    assert found["difference"] == pytest.approx(gap)
    assert found["parts"] == "rouge_l,em"
    assert found["low"] < gap < found["high"]
    # Model a repeats far less: the difference is not chance.
    assert found["p"] < 0.01


def test_degradation_is_compared_too() -> None:
    a, b, meta = make(subjects=10)
    a.loc[(a["metric"] == "te") & a["question_id"].str.endswith("-0"), "value"] = 0.0
    b.loc[b["metric"] == "te", "value"] = 0.5
    rest = (a["metric"] == "te") & ~a["question_id"].str.endswith("-0")
    a.loc[rest, "value"] = 0.5
    # One response in four of a has collapsed, for each subject alike; none of b.
    found = row(compare(a, b, meta), "DS")
    assert (found["difference"], found["low"], found["high"]) == (0.25, 0.25, 0.25)


def test_a_model_equals_itself() -> None:
    a, _, meta = make(subjects=5)
    table = compare(a, a, meta, replicates=100)
    assert (table["difference"] == 0.0).all()
    assert (table["p"] == 1.0).all()


def test_only_pairs_count_and_the_rest_is_dropped_and_counted() -> None:
    a, b, meta = make(subjects=5)
    a.loc[(a["question_id"] == "q0-0") & (a["metric"] == "em"), "value"] = None
    b = b[~((b["question_id"] == "q0-1") & (b["metric"] == "em"))]
    table = compare(a, b, meta, replicates=100)
    left = ~meta["question_id"].isin(["q0-0", "q0-1"])
    whole = meta[left]
    expected = column(a, whole, "em").mean() - column(b, whole, "em").mean()
    found = row(table, "em")
    assert found["difference"] == pytest.approx(expected)
    assert (found["n_pairs"], found["n_dropped"]) == (18, 2)
    assert row(table, "rouge_l")["n_pairs"] == 20
    assert row(table, "H(1-rouge_l, 1-em)")["n_pairs"] == 18


def test_a_metric_of_one_model_only_is_null_and_no_part() -> None:
    a, b, meta = make(subjects=5)
    table = compare(a, b[b["metric"] != "em"], meta, replicates=100)
    found = row(table, "em")
    assert (found["difference"], found["p"], found["n_pairs"], found["n_dropped"]) == (None, None, 0, 20)
    assert row(table, "H(1-rouge_l)")["n_pairs"] == 20


def test_no_shared_part_is_unscored() -> None:
    a, b, meta = make(subjects=3)
    table = compare(a[a["metric"] == "te"], b[b["metric"] == "em"], meta, replicates=50)
    for name in ("AFE", "DS"):
        found = row(table, name)
        assert (found["difference"], found["n_pairs"], found["n_dropped"]) == (None, 0, 12)


def test_columns_and_refusals() -> None:
    a, b, meta = make(subjects=3)
    assert compare(a, b, meta, replicates=20).columns.tolist() == [
        *("side", "fold", "kind", "metric", "difference", "low", "high", "p"),
        *("n_pairs", "n_subjects", "n_dropped", "parts", "replicates_dropped"),
    ]
    with pytest.raises(InputError, match="more than once"):
        compare(a, pd.concat([b, b.iloc[:1]]), meta)
    elsewhere = table_of(b, meta).assign(item="elsewhere").drop_duplicates("measure")
    with pytest.raises(InputError, match="scores of one model alone"):
        summary.compare(table_of(a, meta), elsewhere, BY)
