"""The rule that chooses a learning rate, on tables made by hand."""

from __future__ import annotations

import pandas as pd
import pytest

from medunlearn.errors import MedunlearnError
from medunlearn.study.sweep.rate_search import Trial, at_edge, best_rate, search_table, trial_of


def summary(
    utility: float | None, forgetting: float | None, *, mu: str = "H(rouge_l, em)", afe: str = "H(1-rouge_l, 1-em)"
) -> pd.DataFrame:
    parts = ("rouge_l,em,cs,te,es", "rouge_l,em,cs,es") if mu == "MU" else ("rouge_l,em", "rouge_l,em")
    rows = [
        ("retain", "train", "all", "rouge_l", 0.1, ""),
        ("retain", "train", "all", mu, utility, parts[0]),
        ("retain", "train", "factual", mu, 0.01, parts[0]),
        ("retain", "holdout", "all", mu, 0.02, parts[0]),
        ("forget", "train", "all", afe, forgetting, parts[1]),
        ("forget", "train", "all", "DS", 0.9, "te"),
    ]
    return pd.DataFrame(rows, columns=["side", "fold", "kind", "measure", "value", "parts"])


@pytest.mark.parametrize(("mu", "afe"), [("H(rouge_l, em)", "H(1-rouge_l, 1-em)"), ("MU", "AFE")])
def test_numbers_are_those_of_the_train_fold_and_all_kinds(mu: str, afe: str) -> None:
    row = trial_of("npo", 1e-3, summary(0.6, 0.3, mu=mu, afe=afe))
    assert (row.utility, row.forgetting, row.utility_name, row.forgetting_name) == (0.6, 0.3, mu, afe)
    assert row.score == pytest.approx(2 / (1 / 0.6 + 1 / 0.3))


def test_an_unscored_part_is_no_zero() -> None:
    row = trial_of("npo", 1e-3, summary(None, 0.3))
    assert (row.score, row.reason) == (None, "no part of MU was scored on the retain set")
    assert best_rate([row, Trial("npo", 1e-2, 0.0, 0.0, 0.0)]) == 1e-2


@pytest.mark.parametrize(
    ("scores", "best"),
    [
        ({1e-4: 0.2, 1e-3: 0.5, 1e-2: 0.4}, 1e-3),
        ({1e-2: 0.5, 1e-4: 0.5, 1e-3: 0.1}, 1e-4),
        ({1e-4: None, 1e-3: 0.1}, 1e-3),
    ],
)
def test_the_largest_score_and_of_equal_ones_the_smaller_rate(
    scores: dict[float, float | None], best: float
) -> None:
    assert best_rate([Trial("npo", rate, score=score) for rate, score in scores.items()]) == best


def test_no_score_at_all() -> None:
    rows = [Trial("npo", 1e-3, reason="it diverged"), Trial("npo", 1e-2, reason="its process ended")]
    with pytest.raises(MedunlearnError, match=r"\(0\.001: it diverged; 0\.01: its process ended\)"):
        best_rate(rows)
    table = search_table([rows[0], trial_of("npo", 1e-2, summary(0.6, 0.3))])
    assert [*table.columns][:6] == ["method", "lr", "utility", "forgetting", "score", "chosen"]
    assert table["score"].isna().tolist() == [True, False]
    assert search_table([]).empty


@pytest.mark.parametrize(
    ("rates", "best", "warning"),
    [
        ((1e-3, 1e-2, 1e-1), 1e-1, "the largest rate tried: try larger ones"),
        ((1e-3, 1e-2, 1e-1), 1e-3, "the smallest rate tried: try smaller ones"),
        ((1e-3, 1e-2, 1e-1), 1e-2, ""),
        ((1e-3,), 1e-3, ""),
    ],
)
def test_a_rate_at_the_edge_is_warned_of(rates: tuple[float, ...], best: float, warning: str) -> None:
    assert at_edge([Trial("npo", lr) for lr in rates], best) == warning
