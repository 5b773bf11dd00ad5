"""Factuality and Gen Score: read from judgements, checked against rouge-score and the paper's own table."""

from __future__ import annotations

import pytest
from rouge_score.rouge_scorer import RougeScorer

from medunlearn.metrics import Item, Judgement, get_metric
from medunlearn.metrics.item_scoring import score
from medunlearn.metrics.judged import rouge_l_f, scaled

PAIRS = [
    ("The lungs are clear.", "Lungs clear, no effusion."),
    ("Pneumonia of the left lower lobe", "pneumonia in the lower left lobe"),
    ("", "Heart size is normal."),
    ("Nothing shared", "Heart size is normal."),
    ("heart heart heart heart", "Heart size is normal."),
]


def item(rating: float | None, reason: str | None = None, pair: tuple[str, str] = PAIRS[0]) -> Item:
    return Item("q", "forget", "?", pair[1], response=pair[0], judgement=Judgement(rating, reason))


@pytest.mark.parametrize("pair", PAIRS)
def test_rouge_is_the_f_measure_of_rouge_score(pair: tuple[str, str]) -> None:
    theirs = RougeScorer(["rougeL"], use_stemmer=True).score(pair[1], pair[0])["rougeL"].fmeasure
    assert rouge_l_f(*pair) == pytest.approx(theirs, abs=1e-12)


@pytest.mark.parametrize("rating", [1, 5.5, 10])
def test_gen_score_is_three_quarters_factuality(rating: float) -> None:
    table = score([item(rating)], [get_metric("factuality"), get_metric("gen_score")])
    assert table["value"].tolist() == pytest.approx([rating / 10, 75 * rating / 10 + 25 * rouge_l_f(*PAIRS[0])])


@pytest.mark.parametrize(
    ("rouge", "factuality", "printed"),
    [
        (97.33, 98, 97.91),
        (98.02, 97, 97.48),
        (0.80, 10, 7.70),
        (5.59, 11, 9.35),
        (54.71, 72, 67.75),
        (8.08, 13, 11.84),
    ],
)
def test_the_weights_give_table_5_of_medforget(rouge: float, factuality: float, printed: float) -> None:
    """Its columns are in percent and rounded; its lowest factuality, 10, is a rating of 1 on our scale."""
    from medunlearn.metrics.judged import FACTUALITY_SHARE, ROUGE_SHARE

    # The paper rounds factuality to whole percents, which is up to 0.5 * 0.75 of Gen Score.
    assert FACTUALITY_SHARE * factuality + ROUGE_SHARE * rouge == pytest.approx(printed, abs=0.4)
    assert scaled(1) == 0.1


@pytest.mark.parametrize("name", ["factuality", "gen_score"])
@pytest.mark.parametrize(
    ("unrated", "reason"),
    [
        (
            item(None, "1 of 2 judges gave a rating (b: failed, HTTP 500)"),
            "1 of 2 judges gave a rating (b: failed, HTTP 500)",
        ),
        (item(None), "the judges gave no rating and no reason"),
        (item(0.0), "a rating of 0.0 is outside 1 to 10"),
        (item(11.0), "a rating of 11.0 is outside 1 to 10"),
        (
            Item("q", "forget", "?", "a", response="b"),
            "no judge has rated the response: `medunlearn judge` asks one",
        ),
    ],
)
def test_without_a_rating_there_is_a_reason_and_no_score(name: str, unrated: Item, reason: str) -> None:
    (row,) = score([unrated], [get_metric(name)]).to_dict("records")
    assert row["reason"] == reason
    assert row["value"] is None or row["value"] != row["value"] or str(row["value"]) == "<NA>"


def test_a_reference_without_a_word_has_no_gen_score() -> None:
    (row,) = score([item(9, pair=("x", "?!"))], [get_metric("gen_score")]).to_dict("records")
    assert "no letter" in row["reason"]
