"""Ranks of facts as p-values of subjects, and their calibration."""

from __future__ import annotations

from math import e

import numpy as np
import pandas as pd
import pytest

from medunlearn.data.fact_ranks import FactRank, p_value
from medunlearn.metrics import get_metric
from medunlearn.metrics.measure import Item, Tools
from medunlearn.metrics.ranks import exposure
from medunlearn.results.fact_table import calibration, combined_p, fact_table, subject_table


def facts(ranks: dict[str, list[int]], of: int = 20) -> pd.DataFrame:
    """Facts of subjects by their ranks."""
    every = {f"q-{subject}": [FactRank("number", rank, of) for rank in own] for subject, own in ranks.items()}
    labels = pd.DataFrame({"item": list(every), "subject": list(ranks), "side": "forget"})
    return fact_table(every, labels, "closed_book")


def uniform(seed: int, subjects: int, each: int, of: int = 20) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    return facts({f"s{n}": rng.integers(1, of + 1, each).tolist() for n in range(subjects)}, of)


def test_measures_of_an_answer_by_hand() -> None:
    unscored = FactRank("statement", None, 0, "none of its kind")
    item = Item("q", "forget", "?", "!", fact_ranks=[FactRank("number", 1, 16), FactRank("date", 4, 16), unscored])
    values = {n: get_metric(n).score([item], Tools())[0].value for n in ("ranked_first", "rank", "exposure")}
    assert values == {"ranked_first": 0.5, "rank": (0.5 / 16 + 3.5 / 16) / 2, "exposure": (4.0 + 2.0) / 2}
    lonely = Item("q", "forget", "?", "!", fact_ranks=[unscored])
    assert get_metric("rank").score([lonely], Tools())[0].reason == "none of its kind"
    assert (p_value(unscored), exposure(unscored)) == (None, None)


def test_a_subjects_p_by_hand() -> None:
    assert combined_p([0.01, 0.04]) == pytest.approx(e * 0.02)
    assert combined_p([0.9, 0.9]) == 1.0
    # One fact needs no correction: it is her p.
    assert combined_p([0.02]) == 0.02
    with pytest.raises(ValueError, match="no p-value"):
        combined_p([])


def test_a_subjects_p_holds_where_all_her_facts_are_one() -> None:
    # The same fact five times over: the plain geometric mean would be too small by nothing but e.
    p = np.random.default_rng(0).integers(1, 101, 4000) / 100
    combined = np.array([combined_p([value] * 5) for value in p])
    assert all(np.mean(combined <= level) <= level + 0.01 for level in (0.01, 0.05, 0.1, 0.5))


def test_subjects_are_read_beside_unseen_ones() -> None:
    target, unseen = facts({"a": [1, 1, 1], "b": [20, 9, 14]}), uniform(0, 39, 3)
    table = subject_table(target, unseen).set_index("subject")
    assert table.loc["a", ["facts", "first"]].tolist() == [3, 3]
    assert table.loc["a", "p"] == pytest.approx(e / 20)
    assert table.loc["a", "p_unseen"] == pytest.approx(1 / 40)
    assert table.loc["b", "p_unseen"] > 0.3
    assert subject_table(target)["p_unseen"].isna().all()


def test_uniform_ranks_are_called_so() -> None:
    checks = [calibration(uniform(seed, 40, 3)) for seed in range(60)]
    assert all(check is not None and check.facts == 120 and check.subjects == 40 for check in checks)
    # The test is conservative: no more than its 5%, with room for sixty tries.
    assert sum(not check.uniform for check in checks if check) <= 8


def test_ranks_of_a_model_that_knows_are_not() -> None:
    checks = calibration(facts({f"s{n}": [1, 2, 1] for n in range(20)}))
    assert checks is not None
    assert not checks.uniform
    assert checks.first == pytest.approx(2 / 3)
    # All p-values are at most 0.1, where a tenth of them ought to be.
    assert checks.distance == pytest.approx(0.9)


def test_the_distance_is_0_where_every_rank_comes_once() -> None:
    checks = calibration(facts({f"s{n}": [n + 1] for n in range(20)}))
    assert checks is not None
    assert checks.distance == pytest.approx(0.0, abs=1e-9)
    assert calibration(facts({})) is None
