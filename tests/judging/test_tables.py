"""Counts and agreement, against the paper's own tables and by hand."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import cohen_kappa_score

from medunlearn.judging.annotators import agreement_with_people, confusion_counts
from medunlearn.judging.panel_tables import JudgePanel, agreements, criteria, distribution, ratings
from medunlearn.judging.sections import panel_words, people_words
from medunlearn.judging.tasks import JudgingCase, get_task

LETTERS = {"S": "Supported", "U": "Unsupported", "A": "Ambiguous", "V": "Valid", "I": "Invalid"}


def make_panel(
    task: str, votes: dict[str, str], groups: str = "", subjects: str = "", details: str = ""
) -> JudgePanel:
    """``votes``: judge -> a letter a case, ``-`` for none, or digits of ratings."""
    n = len(next(iter(votes.values())))
    cases = [
        JudgingCase(f"c{k}", (subjects or "c" * n)[k] + ("" if subjects else str(k)), (groups or "g" * n)[k], {})
        for k in range(n)
    ]
    rows = [
        {
            "case_id": f"c{k}",
            "judge": judge,
            "verdict": None if letters[k] == "-" else LETTERS.get(letters[k], letters[k]),
            "detail": json.dumps({"clear": details[k] == "1", "correct_category": "x"}) if details else None,
            "status": "invalid" if letters[k] == "-" else "answered",
            "reason": "No usable answer" if letters[k] == "-" else None,
        }
        for k in range(n)
        for judge, letters in votes.items()
    ]
    return JudgePanel(get_task(task), cases, list(votes), pd.DataFrame(rows), replicates=50)


def cell(table: pd.DataFrame, **where: str) -> dict[str, object]:
    for name, value in where.items():
        table = table[table[name] == value]
    (row,) = table.to_dict("records")
    return row


def test_verdicts_by_judge_and_group() -> None:
    shares = distribution(make_panel("label", {"a": "SSUA-", "b": "SSUS-", "c": "SUAU-"}, groups="xxyyy"))
    assert cell(shares, group="all", judge="a", verdict="Supported")["n"] == 2
    assert cell(shares, group="all", judge="a", verdict="Supported")["share"] == pytest.approx(2 / 5)
    assert cell(shares, group="all", judge="a", verdict="no verdict")["n"] == 1
    of_panel = {
        row["verdict"]: row["n"]
        for row in shares.to_dict("records")
        if (row["group"], row["judge"]) == ("all", "panel")
    }
    assert of_panel == {"Supported": 2, "Unsupported": 1, "Ambiguous": 0, "Disagree": 1, "no verdict": 1}
    assert cell(shares, group="y", judge="panel", verdict="Disagree")["n"] == 1
    # Every case is counted once by each judge, in all and in its group.
    sums = shares.groupby(["group", "judge"])["n"].sum()
    assert {group: set(sums[group]) for group in ("all", "x", "y")} == {"all": {5}, "x": {2}, "y": {3}}


def test_intervals_are_over_subjects() -> None:
    alone = distribution(make_panel("label", {"a": "SSSSUUUU"}))
    together = distribution(make_panel("label", {"a": "SSSSUUUU"}, subjects="aaaabbbb"))
    eight, two = (cell(shares, verdict="Supported", group="all") for shares in (alone, together))
    assert (eight["n_subjects"], two["n_subjects"]) == (8, 2)
    assert pd.isna([two["low"], two["high"]]).all()
    assert 0.0 < eight["low"] < eight["high"] < 1.0  # type: ignore[operator]


def test_agreement_on_verdicts_and_on_two_classes() -> None:
    a, b, c = "SSSSUUAS", "SSSUUAAS", "SSSSUUUS"
    agreement = agreements(make_panel("label", {"a": a, "b": b, "c": c}))
    assert cell(agreement, measure="agreement", on="verdicts", first="a", second="b")["value"] == 6 / 8
    assert cell(agreement, measure="agreement", on="two classes", first="a", second="b")["value"] == 7 / 8
    kappa = cell(agreement, measure="cohen_kappa", on="verdicts", first="a", second="c")
    assert kappa["value"] == pytest.approx(cohen_kappa_score(list(a), list(c)))
    pairs = agreement[(agreement["measure"] == "agreement") & (agreement["on"] == "verdicts")]["value"]
    mean = cell(agreement, measure="row_agreement", on="verdicts")["value"]
    # AMNESIA prints the mean of the three pairs as "average per-row agreement": one and the same number.
    assert mean == pytest.approx(pairs.mean())
    two = cell(agreement, measure="fleiss_kappa", on="two classes")
    # By hand: 7 of 8 cases unanimous on S or not, one 2-1; 14 of 24 votes are S.
    p = 14 / 24
    agreed, chance = (7 + 1 / 3) / 8, p * p + (1 - p) * (1 - p)
    assert two["value"] == pytest.approx((agreed - chance) / (1 - chance))
    assert two["words"] == "almost perfect"
    # By hand, nominal: 2 of 3 pairs differ in cases 3, 6 and 7 each, of 24 votes 14 S, 7 U and 3 A.
    observed, expected = 3 * (2 / 3) / 8, 1 - (14 * 13 + 7 * 6 + 3 * 2) / (24 * 23)
    alpha = cell(agreement, measure="krippendorff_alpha", on="verdicts")["value"]
    assert alpha == pytest.approx(1 - observed / expected)
    assert agreements(make_panel("label", {"a": a})).empty


def test_table_10_of_amnesia() -> None:
    """Its kappa, 0.726, is on two classes: with the printed verdicts of Table 8 three classes cannot give it.

    A set of 900 titles is made with Table 8's numbers of Supported, in which 95.78% of pairs of judges agree on the
    two classes.
    """
    supported = {"MedGemma": 819, "Qwen": 827, "GPT": 827}
    p = sum(supported.values()) / 2700
    chance = p * p + (1 - p) * (1 - p)
    assert (0.9578 - chance) / (1 - chance) == pytest.approx(0.726, abs=0.001)
    assert (0.9550 - chance) / (1 - chance) < 0.71  # the printed agreement, on verdicts, is another number
    # 57 of 900 titles are split 2-1, with an agreement of 1/3 each: 1 - 57 / 900 * 2 / 3 = 0.9578.
    votes = [("S", "S", "U")] * 17 + [("S", "U", "S")] * 15 + [("U", "S", "S")] * 23 + [("U", "U", "S")] * 2
    votes += [("U", "U", "U")] * 56 + [("S", "S", "S")] * (900 - 57 - 56)
    by_judge = {name: "".join(of_case[k] for of_case in votes) for k, name in enumerate(supported)}
    assert {name: letters.count("S") for name, letters in by_judge.items()} == supported
    agreement = agreements(make_panel("label", by_judge))
    assert cell(agreement, measure="fleiss_kappa", on="two classes")["value"] == pytest.approx(0.726, abs=0.002)


PAPER = {"a": (805, 64, 14, 16, 1), "panel of one": (814, 54, 12, 17, 3)}


@pytest.mark.parametrize("judge", sorted(PAPER))
def test_table_11_of_amnesia(judge: str) -> None:
    """Cells of Table 11(a) and (d), rows the human's, and how many Ambiguous or Disagree were left out."""
    both, no_judge, no_human, neither, left_out = PAPER[judge]
    letters = "S" * both + "U" * no_judge + "S" * no_human + "U" * neither + "A" * left_out
    human = ["Supported"] * (both + no_judge) + ["Unsupported"] * (no_human + neither) + ["Supported"] * left_out
    panel = make_panel("label", {judge: letters})
    people = {"student": {f"c{k}": verdict for k, verdict in enumerate(human)}}
    cells = confusion_counts(panel, people)
    assert cells["n"].tolist() == [both, no_judge, no_human, neither]
    assert cells["human"].tolist() == ["Supported", "Supported", "Unsupported", "Unsupported"]
    measured = agreement_with_people(panel, people)
    agreed = cell(measured, measure="agreement")
    assert agreed["value"] == pytest.approx((both + neither) / (900 - left_out))
    assert (agreed["n_cases"], agreed["n_excluded"], agreed["n_labelled"]) == (900 - left_out, left_out, 900)
    decided = [(h, LETTERS[s]) for h, s in zip(human, letters, strict=True) if s != "A"]
    kappa = cell(measured, measure="cohen_kappa")["value"]
    assert kappa == pytest.approx(cohen_kappa_score(*zip(*decided, strict=True)))
    assert cell(measured, measure="both_positive")["value"] == pytest.approx(both / 900)


def test_people_among_themselves_and_partial_labels() -> None:
    panel = make_panel("question", {"a": "VVVI"})
    people = {
        "anna": {"c0": "Valid", "c1": "Valid", "c2": "Invalid"},
        "bob": {"c1": "Valid", "c2": "Valid", "c3": "Invalid"},
        "cleo": {"c1": "Valid", "c2": "Invalid"},
    }
    measured = agreement_with_people(panel, people)
    pair = cell(measured, measure="agreement", annotator="anna", other="bob")
    assert (pair["value"], pair["n_cases"], pair["n_excluded"]) == (0.5, 2, 1)
    assert cell(measured, measure="agreement", annotator="anna", other="a")["n_cases"] == 3
    fleiss = cell(measured, measure="fleiss_kappa")
    # c1: all Valid; c2: one Valid of three.
    p = 4 / 6
    assert fleiss["value"] == pytest.approx(
        ((1 + 1 / 3) / 2 - (p * p + (1 - p) ** 2)) / (1 - (p * p + (1 - p) ** 2))
    )
    assert fleiss["n_cases"] == 2


def test_ratings() -> None:
    panel = make_panel("factuality", {"a": "9731", "b": "973-"}, groups="xxyy")
    means = ratings(panel)
    assert cell(means, group="all", judge="a")["mean"] == 5.0
    assert (cell(means, group="all", judge="b")["mean"], cell(means, group="all", judge="b")["n_unscored"]) == (
        19 / 3,
        1,
    )
    # The panel's rating of the last case is missing, neither b's 0 nor a's 1.
    row = cell(means, group="y", judge="panel")
    assert (row["mean"], row["n_scored"], row["n_unscored"]) == (3.0, 1, 1)
    measured = agreements(panel)
    assert cell(measured, measure="agreement")["value"] == 1.0
    weighted = agreements(make_panel("factuality", {"a": "97311", "b": "86421"}))
    theirs = cohen_kappa_score([9, 7, 3, 1, 1], [8, 6, 4, 2, 1], labels=range(1, 11), weights="quadratic")
    assert cell(weighted, measure="weighted_kappa")["value"] == pytest.approx(theirs)
    assert cell(weighted, measure="cohen_kappa")["value"] < theirs
    # By hand: squared differences within cases, and among all ten ratings.
    values = np.array([[9, 7, 3, 1, 1], [8, 6, 4, 2, 1]], dtype=float)
    observed = 2 * ((values[0] - values[1]) ** 2).sum() / 10
    expected = ((values.ravel()[:, None] - values.ravel()) ** 2).sum() / (10 * 9)
    assert cell(weighted, measure="krippendorff_alpha")["value"] == pytest.approx(1 - observed / expected)
    human = agreement_with_people(panel, {"anna": {"c0": "9", "c1": "5"}})
    assert cell(human, measure="agreement", other="a")["value"] == 0.5
    assert set(human["measure"]) == {"agreement", "cohen_kappa", "weighted_kappa"}


def test_criteria() -> None:
    shares = criteria(make_panel("question", {"a": "VIV-"}, details="1011"))
    assert shares.to_dict("records")[0]["share"] == pytest.approx(3 / 4)
    assert shares["criterion"].tolist() == ["clear"]
    assert criteria(make_panel("label", {"a": "SS"})).empty


def squeezed(text: str) -> str:
    return " ".join(text.split())


def test_the_words_hold_counts_and_the_missing() -> None:
    words = squeezed(panel_words(make_panel("label", {"a|x": "SSU-", "b": "SSUS"}, groups="xxyy")))
    assert "| Supported | 2 (50.0%) | 3 (75.0%) | 2 (50.0%) |" in words
    assert "a\\|x and b" in words
    assert "| a\\|x | invalid | No usable answer | 1 |" in words
    assert "every judge gave a verdict" in panel_words(make_panel("question", {"a": "VV"}))
    assert "| all | panel | 5.000 |" in squeezed(panel_words(make_panel("factuality", {"a": "46", "b": "46"})))
    panel = make_panel("label", {"a": "SSUA"})
    people = {"anna": {"c0": "Supported", "c1": "Unsupported", "c2": "Unsupported", "c3": "Supported"}}
    words = squeezed(people_words(panel, confusion_counts(panel, people), agreement_with_people(panel, people)))
    assert "## anna (rows) and a (columns)" in words
    assert "| Unsupported | 1 | 1 |" in words
    assert "neither Supported nor Unsupported" in words
