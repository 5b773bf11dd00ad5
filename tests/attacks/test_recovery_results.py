"""Tables and words of recovery attacks: by hand, on a model that did nothing and on the retrained one."""

from __future__ import annotations

import pandas as pd
import pytest

from medunlearn.attacks.recovery.quantization_attack import Quantization
from medunlearn.attacks.recovery.recovery_results import (
    ABOVE,
    BELOW,
    COMES_BACK,
    DAMAGED,
    NO_POWER,
    NO_RISE,
    NOT_TOLD_APART,
    READINGS,
    RISES,
    STILL_THERE,
    compare_strengths,
    is_read,
    reading,
    reading_of,
    subject_means,
    summarize_strengths,
)
from medunlearn.attacks.recovery.relearning_attack import Relearning
from medunlearn.attacks.recovery.sampling_attack import RepeatedSampling
from medunlearn.data.facts import facts_said
from medunlearn.data.records import Question
from medunlearn.results.scores import score_table

HOW = {"replicates": 50, "seed": 0}


def scores(
    before: float, after: float, *, spread: float = 0.05, retain: float = 1.0, retained: int = 2
) -> pd.DataFrame:
    """Eight forgotten subjects with two questions each, before and after 20 steps; some retained ones before."""
    rows = [
        {
            "item": f"{side}{subject}{question}",
            "subject": f"{side}{subject}",
            "measure": "em",
            "value": min(1.0, max(0.0, value + spread * (subject % 3 - 1))),
            "reason": None,
            "side": side,
            "fold": "train",
            "kind": f"kind{question}",
            "attack": "relearning.retain",
            "strength": strength,
        }
        for side, subjects, values in (
            ("forget", 8, {"0": before, "20": after}),
            ("retain", retained, {"0": retain}),
        )
        for strength, value in values.items()
        for subject in range(subjects)
        for question in range(2)
    ]
    return score_table(pd.DataFrame(rows))


def test_the_change_is_paired_and_none_is_told_of_the_model_as_it_is() -> None:
    table = summarize_strengths(scores(0.2, 0.7), "0", **HOW).set_index(["side", "kind", "strength"])
    row = table.loc["forget", "all", "20"]
    assert (row["value"], row["change"]) == pytest.approx((table.loc["forget", "all", "0"]["value"] + 0.5, 0.5))
    assert row["change_low"] > 0
    assert row["n_scored"] == 16
    assert table.loc["forget", "all", "0"][["change", "change_low", "change_p"]].isna().all()
    # The retain side was asked before alone.
    assert ("retain", "all", "20") not in table.index
    assert table.loc["retain", "all", "0"]["n_subjects"] == 2


def words(model: pd.DataFrame, retrained: pd.DataFrame | None) -> str | None:
    gaps = pd.DataFrame() if retrained is None else compare_strengths(model, retrained, **HOW)
    rows = summarize_strengths(model, "0", **HOW).to_dict("records")
    read = {
        row["strength"]: reading_of(row, gaps, "0")
        for row in rows
        if row["side"] == "forget" and row["kind"] == "all"
    }
    assert read["0"] is None
    assert {reading_of(row, gaps, "0") for row in rows if row["side"] == "retain" or row["kind"] != "all"} == {None}
    return read["20"]


def test_words_of_models_that_did_nothing_forgot_everything_or_only_suppressed() -> None:
    retrained = scores(0.2, 0.25)
    assert words(scores(0.9, 0.9), retrained) == STILL_THERE
    assert words(retrained, retrained) == NOT_TOLD_APART
    assert words(scores(0.2, 0.8), retrained) == COMES_BACK
    assert words(scores(0.2, 0.0, spread=0.0), scores(0.2, 0.5)) == BELOW
    # Without a retrained model, one that did nothing looks like one that forgot everything: the words say so.
    assert words(scores(0.9, 0.9), None) == NO_RISE
    assert "forgot nothing" in READINGS[NO_RISE]
    assert words(scores(0.2, 0.8), None) == RISES


def test_a_model_that_says_nothing_of_anybody_is_not_read_as_one_that_forgot() -> None:
    """It only refuses: 0 for everybody, as a retrained model that guesses nothing of the forgotten patients."""
    retrained = scores(0.0, 0.0, spread=0.0, retained=8)
    assert words(scores(0.0, 0.0, spread=0.0, retain=0.0, retained=8), retrained) == DAMAGED
    assert words(scores(0.0, 0.0, spread=0.0, retain=0.4, retained=8), retrained) == DAMAGED
    assert words(scores(0.0, 0.0, spread=0.0, retained=8), retrained) == NOT_TOLD_APART
    # What is above the retrained model is still there, whatever else was lost.
    assert words(scores(0.9, 0.9, retain=0.0, retained=8), retrained) == STILL_THERE


def test_an_attack_that_erases_what_the_target_knows_tells_nothing() -> None:
    """A model that did nothing is never read as one that forgot, because relearning wiped it."""
    retrained, wiped = scores(0.2, 0.2), scores(0.9, 0.2)
    gaps = compare_strengths(wiped, retrained, **HOW)
    rows = summarize_strengths(wiped, "0", **HOW).to_dict("records")
    (row,) = [row for row in rows if is_read(row, "0")]
    assert reading_of(row, gaps, "0") == NOT_TOLD_APART
    assert reading_of(row, gaps, "0", gaps) == NO_POWER
    assert reading_of(row, gaps, "0", compare_strengths(scores(0.9, 0.9), retrained, **HOW)) == NOT_TOLD_APART


def test_a_side_that_is_not_known_is_not_read() -> None:
    assert reading(1, 1, None, retrained=True) is None
    assert reading(None, None, None, retrained=False) is None
    assert reading(0, 0, 1, retrained=True) == ABOVE
    few = scores(0.2, 0.8)
    few = few[few["subject"].isin(["forget0", "forget1"])]
    assert words(few, few) is None, "two subjects have no interval"


def test_differences_are_of_questions_that_both_were_asked() -> None:
    ours, theirs = scores(0.5, 0.8), scores(0.5, 0.5)
    gaps = compare_strengths(ours[ours["item"] != "forget00"], theirs, **HOW)
    row = gaps[(gaps["strength"] == "20") & (gaps["kind"] == "all")].iloc[0]
    assert (row["difference"], row["n_pairs"]) == (pytest.approx(0.3), 15)
    assert compare_strengths(ours, theirs.iloc[:0], **HOW).empty


def test_subjects_and_the_chance_that_any_answer_of_theirs_is_said() -> None:
    table = scores(0.5, 0.5, spread=0.0).assign(measure="extraction", attack="sampling", strength="8")
    table = table[table["side"] == "forget"].drop_duplicates("item")
    rows = subject_means(table)
    assert len(rows) == 8
    assert (rows["value"] == 0.5).all()
    assert (rows["any"] == 0.75).all()
    assert subject_means(scores(0.5, 0.5))["any"].isna().all()


def test_a_fact_is_said_where_its_value_stands_by_itself() -> None:
    question = Question("q", "r", "train", "factual", "patient", "What is her pulse?", "Her pulse is 72")
    assert facts_said(question, (), ["72", "It is 172", "a pulse of 72.", "7.2"]) == [2]


def test_strengths_of_the_settings() -> None:
    assert Relearning().points == (5, 10, 20)
    assert Relearning(steps=1).points == (1,)
    assert Relearning().variants == ("relearning.retain", "relearning.forget_half")
    assert Relearning(data="forget_half").variants == ("relearning.forget_half",)
    assert Quantization().strengths == ("int8", "int4", "nf4")
    assert RepeatedSampling().numbers == (1, 8, 32)
    assert RepeatedSampling(samples=1).numbers == (1,)
