"""Means, composites, counts and intervals of a score table, and differences of two models' tables."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from medunlearn.errors import InputError
from medunlearn.results import summary
from medunlearn.statistics import bootstrap_mean, paired_difference
from medunlearn.statistics.intervals import UNIT, from_draws, holm

HOW: dict[str, Any] = {"composites": ("MU", "AFE", "DS"), "rollup": "kind"}
BY = ("side", "fold", "kind")


def table_of(scores: pd.DataFrame, meta: pd.DataFrame) -> pd.DataFrame:
    """A score table; a question without a row has one of the first metric, without a value."""
    names = {"question_id": "item", "metric": "measure"}
    absent = meta.loc[~meta["question_id"].isin(scores["question_id"]), ["question_id"]]
    rows = pd.concat([scores, absent.assign(metric=scores["metric"].min() if len(scores) else "em")])
    return rows.merge(meta, on="question_id", how="left").rename(columns=names).assign(reason=None)


def summarize(scores: pd.DataFrame, meta: pd.DataFrame, **how: Any) -> pd.DataFrame:
    return summary.summarize(table_of(scores, meta), BY, **HOW, **how).rename(columns={"measure": "metric"})


def compare(a: pd.DataFrame, b: pd.DataFrame, meta: pd.DataFrame, **how: Any) -> pd.DataFrame:
    tables = (table_of(scores, meta) for scores in (a, b))
    return summary.compare(*tables, BY, **HOW, **how).rename(columns={"measure": "metric"})


PARTS = ("rouge_l", "em", "cs", "te", "es")


def meta_of(rows: list[tuple[str, str, str, str, str]]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=["question_id", "subject", "side", "fold", "kind"])


def scores_of(values: dict[str, dict[str, float | None]]) -> pd.DataFrame:
    """metric -> question -> value, as a score table."""
    rows = [(q, metric, value) for metric, by in values.items() for q, value in by.items()]
    table = pd.DataFrame(rows, columns=["question_id", "metric", "value"])
    return table.astype({"value": "Float64"})


def row(table: pd.DataFrame, **where: str) -> dict[str, Any]:
    for column, value in where.items():
        table = table[table[column] == value]
    assert len(table) == 1, table
    return {str(name): None if pd.isna(value) else value for name, value in table.iloc[0].items()}


def hospital(subjects: int = 30) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Three questions a subject on each side, every part scored, subjects unlike each other."""
    rng = np.random.default_rng(0)
    meta = meta_of(
        [
            (f"{side}-{s}-{i}", f"{side}-{s}", side, "train", kind)
            for side in ("retain", "forget")
            for s in range(subjects)
            for i, kind in enumerate(("factual", "factual", "reasoning"))
        ]
    )
    level = {subject: rng.uniform(0.2, 0.8) for subject in meta["subject"].unique()}
    people = list(zip(meta["question_id"], meta["subject"], strict=True))
    draw = lambda s: float(np.clip(level[s] + rng.normal(scale=0.1), 0, 1))  # noqa: E731
    return scores_of({metric: {q: draw(s) for q, s in people} for metric in PARTS}), meta


def harmonic(values: list[float]) -> float:
    return len(values) / sum(1 / value for value in values)


def test_means_and_composites_by_hand() -> None:
    people = (("r1", "p1", "retain"), ("r2", "p2", "retain"), ("f1", "p3", "forget"), ("f2", "p4", "forget"))
    meta = meta_of([(*person, "train", "factual") for person in people])
    by_hand = {
        "rouge_l": (1, 0.5, 0, 0.5),
        "em": (0.5, 0.5, 0.5, 0.5),
        "cs": (1, 1, 0, 0),
        "te": (0.5, 1, 0, 1),
        "es": (1, 0, 1, 0),
    }
    questions = ("r1", "r2", "f1", "f2")
    scores = scores_of({name: dict(zip(questions, values, strict=True)) for name, values in by_hand.items()})
    table = summarize(scores, meta)
    assert row(table, side="retain", kind="factual", metric="rouge_l")["value"] == 0.75
    mu = row(table, side="retain", kind="factual", metric="MU")
    assert mu["value"] == pytest.approx(5 / (1 / 0.75 + 1 / 0.5 + 1 / 1 + 1 / 0.75 + 1 / 0.5))
    assert (mu["parts"], mu["n_scored"], mu["n_subjects"]) == ("rouge_l,em,cs,te,es", 2, 2)
    afe = row(table, side="forget", kind="factual", metric="AFE")
    assert afe["value"] == pytest.approx(4 / (1 / 0.75 + 1 / 0.5 + 1 / 1 + 1 / 0.5))
    assert afe["parts"] == "rouge_l,em,cs,es"
    assert row(table, side="forget", kind="factual", metric="DS")["value"] == 0.5
    assert not set(table[table["side"] == "retain"]["metric"]) & {"AFE", "DS"}
    assert "MU" not in set(table[table["side"] == "forget"]["metric"])


def test_columns_types_and_order_of_rows() -> None:
    scores, meta = hospital(subjects=3)
    table = summarize(scores, meta, replicates=20)
    assert table.columns.tolist() == [
        *("side", "fold", "kind", "metric", "value", "low", "high"),
        *("n_scored", "n_unscored", "n_subjects", "parts", "replicates_dropped", "n_effective"),
    ]
    assert [str(table[name].dtype) for name in ("value", "low", "high")] == ["Float64"] * 3
    groups = table[["side", "kind"]].drop_duplicates()
    assert list(groups.itertuples(index=False, name=None)) == [
        (side, kind) for side in ("forget", "retain") for kind in ("factual", "reasoning", "all")
    ]


def test_roll_up_counts_each_question_once() -> None:
    meta = meta_of(
        [
            ("1", "a", "retain", "train", "factual"),
            ("2", "a", "retain", "train", "factual"),
            ("3", "b", "retain", "train", "factual"),
            ("4", "b", "retain", "train", "reasoning"),
            ("5", "b", "retain", "holdout", "reasoning"),
        ]
    )
    table = summarize(scores_of({"em": {"1": 1.0, "2": 1.0, "3": 1.0, "4": 0.0, "5": 0.5}}), meta)
    # 3 of 4; a mean of the kinds' means would be 1/2. The holdout question stays out.
    both = row(table, fold="train", kind="all", metric="em")
    assert (both["value"], both["n_scored"], both["n_subjects"]) == (0.75, 4, 2)
    assert row(table, fold="holdout", kind="all", metric="em")["value"] == 0.5


def test_missing_parts_are_named_and_the_papers_name_is_not_used() -> None:
    scores, meta = hospital(subjects=4)
    table = summarize(scores[~scores["metric"].isin(["cs", "es"])], meta, replicates=50)
    names = set(table["metric"])
    assert {"H(rouge_l, em, te)", "H(1-rouge_l, 1-em)"} <= names
    assert not {"MU", "AFE"} & names
    assert row(table, side="retain", kind="all", metric="H(rouge_l, em, te)")["parts"] == "rouge_l,em,te"


def test_a_part_without_a_score_in_one_group_is_missing_there_only() -> None:
    scores, meta = hospital(subjects=4)
    reasoning = scores["question_id"].str.endswith("-2")
    scores.loc[reasoning & (scores["metric"] == "es"), "value"] = pd.NA
    retain = summarize(scores, meta, replicates=50).query("side == 'retain'")
    assert row(retain, kind="factual", metric="MU")["n_unscored"] == 0
    assert row(retain, kind="reasoning", metric="H(rouge_l, em, cs, te)")["n_scored"] == 4
    # Four of the twelve questions lack a part: the whole has all five, and says so.
    whole = row(retain, kind="all", metric="MU")
    assert (whole["n_scored"], whole["n_unscored"]) == (8, 4)


def test_no_part_at_all_is_unscored_and_never_zero() -> None:
    meta = meta_of([("1", "a", "forget", "train", "knowledge"), ("2", "b", "retain", "train", "knowledge")])
    table = summarize(scores_of({"exact_match": {"1": 1.0, "2": 0.0}}), meta)
    for side, name in (("forget", "AFE"), ("forget", "DS"), ("retain", "MU")):
        composite = row(table, side=side, kind="all", metric=name)
        assert (composite["value"], composite["n_scored"], composite["n_unscored"], composite["parts"]) == (
            None,
            0,
            1,
            "",
        )


@pytest.mark.parametrize(
    ("values", "value", "scored"), [({"0": 1.0, "1": None}, 1.0, 1), ({"0": None, "1": None}, None, 0)]
)
def test_questions_without_a_value_or_a_row_count_as_unscored(
    values: dict[str, float | None], value: float | None, scored: int
) -> None:
    meta = meta_of([(str(n), f"p{n}", "retain", "train", "factual") for n in range(4)])
    em = row(summarize(scores_of({"em": values}), meta), kind="factual", metric="em")
    assert (em["value"], em["low"]) == (value, None)
    assert (em["n_scored"], em["n_unscored"], em["n_subjects"]) == (scored, 4 - scored, scored)


def test_the_interval_of_a_measure_is_that_over_subjects() -> None:
    scores, meta = hospital()
    table = summarize(scores, meta, seed=4)
    retain = meta[meta["side"] == "retain"]
    em = scores[scores["metric"] == "em"].set_index("question_id")["value"]
    direct = bootstrap_mean(em[retain["question_id"]].to_numpy(float), retain["subject"].tolist(), seed=4)
    em = row(table, side="retain", kind="all", metric="em")
    assert [em[name] for name in ("value", "low", "high")] == pytest.approx([direct.value, direct.low, direct.high])


def test_the_error_of_a_composite_is_that_of_a_slow_bootstrap() -> None:
    scores, meta = hospital()
    composite = row(summarize(scores, meta, replicates=4000), side="retain", kind="all", metric="MU")
    retain = meta[meta["side"] == "retain"]
    wide = scores.pivot(index="question_id", columns="metric", values="value").astype(float)
    wide = wide.loc[retain["question_id"], list(PARTS)]
    by_subject = [part.to_numpy() for _, part in wide.groupby(retain["subject"].to_numpy())]
    rng = np.random.default_rng(9)
    draws = []
    for _ in range(2000):
        replicate = np.concatenate([by_subject[s] for s in rng.integers(30, size=30)])
        draws.append(harmonic(replicate.mean(axis=0).tolist()))
    value = harmonic(wide.mean().tolist())
    assert composite["value"] == pytest.approx(value)
    low, high = from_draws(value, np.array(draws), 30, UNIT).limits(0.05)
    assert low is not None
    assert high is not None
    # The standard deviation of 2,000 draws is known to about 1.6%.
    assert composite["low"] == pytest.approx(low, abs=0.04 * (high - low))
    assert composite["high"] == pytest.approx(high, abs=0.04 * (high - low))


@pytest.mark.parametrize("measure", ["longest_run", "truth_ratio", "truth_ratio.geometric"])
def test_counts_that_are_all_0_have_no_bound(measure: str) -> None:
    """Of 30 subjects without a shared run the next may share a long one: unlike a share it has no bound."""
    rows = [{"item": f"q{n}", "subject": f"p{n}", "measure": name, "value": 0.0, "reason": None}
            for n in range(30) for name in (measure, "run_30")]  # fmt: skip
    scores = pd.DataFrame(rows)
    table = summary.summarize(scores).set_index("measure")
    assert pd.isna(table.loc[measure, "high"])
    assert table.loc["run_30", "high"] == pytest.approx(1 - 0.025 ** (1 / 30))
    gaps = summary.compare(scores, scores).set_index("measure")
    assert pd.isna(gaps.loc[measure, "high"])
    assert gaps.loc["run_30", "high"] == pytest.approx(1 - 0.025 ** (1 / 30))


def test_a_percentage_is_bounded_by_100() -> None:
    rows = [{"item": f"q{n}", "subject": f"p{n}", "measure": "gen_score", "value": 0.0, "reason": None}
            for n in range(30)]  # fmt: skip
    high = summary.summarize(pd.DataFrame(rows))["high"].iloc[0]
    assert high == pytest.approx(100 * (1 - 0.025 ** (1 / 30)))


def test_order_of_rows_changes_nothing() -> None:
    scores, meta = hospital(subjects=6)
    first = summarize(scores, meta, replicates=100)
    shuffled = meta.sample(frac=1, random_state=1)
    second = summarize(scores.sample(frac=1, random_state=2), shuffled, replicates=100)
    keys = ["side", "fold", "kind", "metric"]
    both = first.merge(second, on=keys, suffixes=("_1", "_2"), validate="1:1")
    assert len(both) == len(first)
    for name in ("value", "low", "high"):
        assert both[f"{name}_1"].to_numpy(float) == pytest.approx(both[f"{name}_2"].to_numpy(float))


def test_no_questions_is_an_empty_table() -> None:
    table = summarize(scores_of({}), meta_of([]))
    assert table.empty
    assert "n_unscored" in table.columns


ROWS = table_of(
    scores_of({"em": {"1": 1.0, "2": 0.0}}),
    meta_of([("1", "a", "retain", "train", "factual"), ("2", "b", "forget", "train", "factual")]),
)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (pd.concat([ROWS, ROWS.iloc[:1]]), "em of '1' occurs more than once"),
        (ROWS.assign(subject=pd.Series(["a", None])), "has no subject"),
        (ROWS.assign(subject=["a", ""]), "no cluster id"),
        (ROWS.assign(kind=["all", "factual"]), "cannot be called 'all'"),
        (ROWS.drop(columns="subject"), "lacks the column subject"),
        (ROWS.drop(columns="fold"), "lacks the column fold"),
        (ROWS.drop(columns="value"), "lacks the column value"),
        (ROWS.assign(measure="MU"), "name of a composite"),
        (ROWS.assign(measure=None), "has no measure"),
        (ROWS.assign(value=[float("inf"), 0.0]), "em of '1' is infinite"),
        (ROWS.assign(value=["high", "low"]), "no number"),
        (ROWS.assign(value=[85.0, 3.0]), "between 0 and 1"),
    ],
)
def test_what_would_make_a_number_wrong_is_refused(rows: pd.DataFrame, message: str) -> None:
    with pytest.raises(InputError, match=message):
        summary.summarize(rows, BY, **HOW)


def test_a_subject_belongs_to_its_item() -> None:
    twice = pd.concat([ROWS, ROWS.iloc[:1].assign(measure="te", subject="b")])
    with pytest.raises(InputError, match="'1' has more than one subject"):
        summary.summarize(twice, BY)


def test_tables_read_back_from_parquet_give_the_same(tmp_path: Any) -> None:
    scores, meta = hospital(subjects=3)
    scores.to_parquet(tmp_path / "scores.parquet")
    meta.to_parquet(tmp_path / "meta.parquet")
    again = summarize(
        pd.read_parquet(tmp_path / "scores.parquet"), pd.read_parquet(tmp_path / "meta.parquet"), replicates=50
    )
    pd.testing.assert_frame_equal(again, summarize(scores, meta, replicates=50))


# Two models on the same questions.


def models(subjects: int = 30) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """Two models' scores (a forgets better) and the questions' table; four questions a forget subject."""
    rng = np.random.default_rng(1)
    meta = meta_of(
        [(f"q{s}-{i}", f"p{s}", "forget", "train", "factual") for s in range(subjects) for i in range(4)]
    )
    hard = np.repeat(rng.uniform(0.3, 0.6, size=subjects), 4)
    a, b = (
        pd.concat(
            pd.DataFrame(
                {
                    "question_id": meta["question_id"],
                    "metric": metric,
                    "value": np.clip(hard + shift + rng.normal(scale=0.05, size=len(meta)), 0.0, 1.0),
                }
            )
            for metric in ("rouge_l", "em", "te")
        ).reset_index(drop=True)
        for shift in (-0.2, 0.2)
    )
    return a, b, meta


def column(scores: pd.DataFrame, meta: pd.DataFrame, metric: str) -> np.ndarray:
    by_question = scores[scores["metric"] == metric].set_index("question_id")["value"]
    return by_question[meta["question_id"]].to_numpy(float)


def test_a_difference_is_paired() -> None:
    a, b, meta = models()
    table = compare(a, b, meta, seed=2)
    direct = paired_difference(column(a, meta, "em"), column(b, meta, "em"), meta["subject"].tolist(), seed=2)
    em = row(table, kind="all", metric="em")
    numbers = [direct.value, direct.low, direct.high, direct.p]
    assert [em[name] for name in ("difference", "low", "high", "p")] == pytest.approx(numbers)
    assert (em["n_pairs"], em["n_dropped"], em["n_subjects"]) == (120, 0, 30)
    name = "H(1-rouge_l, 1-em)"
    whole = row(table, kind="all", metric=name)
    ours, theirs = (row(summarize(scores, meta), kind="all", metric=name)["value"] for scores in (a, b))
    assert whole["difference"] == pytest.approx(ours - theirs)
    assert whole["parts"] == "rouge_l,em"
    assert whole["low"] < ours - theirs < whole["high"]
    # Model a repeats far less: the difference is not chance.
    assert whole["p"] < 0.01


def test_degradation_is_compared_too() -> None:
    """One response in four of a has collapsed, for each subject alike; none of b."""
    a, b, meta = models(subjects=10)
    for scores in (a, b):
        scores.loc[scores["metric"] == "te", "value"] = 0.5
    a.loc[(a["metric"] == "te") & a["question_id"].str.endswith("-0"), "value"] = 0.0
    table = compare(a, b, meta)
    assert table["p_holm"].tolist() == pytest.approx(holm(table["p"].tolist()))
    ds = row(table, kind="all", metric="DS")
    assert ds["difference"] == 0.25
    # A gain of 1/4 that does not differ over 10 subjects; no loss in any.
    others = 1 - 0.025 ** (1 / 10)
    ends = [0.25 - np.hypot(others * 0.25, others), 0.25 + others * 0.75]
    assert [ds["low"], ds["high"]] == pytest.approx(ends)


def test_a_model_equals_itself() -> None:
    a, _, meta = models(subjects=5)
    table = compare(a, a, meta, replicates=100)
    assert (table["difference"] == 0.0).all()
    assert (table["p"] == 1.0).all()


def test_only_pairs_count_and_the_rest_is_dropped_and_counted() -> None:
    a, b, meta = models(subjects=5)
    a.loc[(a["question_id"] == "q0-0") & (a["metric"] == "em"), "value"] = None
    b = b[~((b["question_id"] == "q0-1") & (b["metric"] == "em"))]
    table = compare(a, b, meta, replicates=100)
    pairs = meta[~meta["question_id"].isin(["q0-0", "q0-1"])]
    em = row(table, kind="all", metric="em")
    assert em["difference"] == pytest.approx(column(a, pairs, "em").mean() - column(b, pairs, "em").mean())
    assert (em["n_pairs"], em["n_dropped"]) == (18, 2)
    assert row(table, kind="all", metric="rouge_l")["n_pairs"] == 20
    assert row(table, kind="all", metric="H(1-rouge_l, 1-em)")["n_pairs"] == 18


def test_what_one_model_lacks_is_null_and_no_part() -> None:
    a, b, meta = models(subjects=5)
    table = compare(a, b[b["metric"] != "em"], meta, replicates=100)
    em = row(table, kind="all", metric="em")
    assert (em["difference"], em["p"], em["n_pairs"], em["n_dropped"]) == (None, None, 0, 20)
    assert row(table, kind="all", metric="H(1-rouge_l)")["n_pairs"] == 20
    apart = compare(a[a["metric"] == "te"], b[b["metric"] == "em"], meta, replicates=50)
    for name in ("AFE", "DS"):
        none = row(apart, kind="all", metric=name)
        assert (none["difference"], none["n_pairs"], none["n_dropped"]) == (None, 0, 20)


def test_columns_and_refusals_of_differences() -> None:
    a, b, meta = models(subjects=3)
    assert compare(a, b, meta, replicates=20).columns.tolist() == [
        *("side", "fold", "kind", "metric", "difference", "low", "high", "p", "p_holm"),
        *("n_pairs", "n_subjects", "n_dropped", "parts", "replicates_dropped", "n_effective"),
    ]
    with pytest.raises(InputError, match="more than once"):
        compare(a, pd.concat([b, b.iloc[:1]]), meta)
    elsewhere = table_of(b, meta).assign(item="elsewhere").drop_duplicates("measure")
    with pytest.raises(InputError, match="scores of only one model"):
        summary.compare(table_of(a, meta), elsewhere, BY)
