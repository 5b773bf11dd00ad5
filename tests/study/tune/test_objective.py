"""The objective: golden numbers, and models that did nothing, did everything right, or are broken."""

from __future__ import annotations

import pandas as pd
import pytest

from medunlearn.results.summary import EVALUATION
from medunlearn.study.tune.objective import AxisValues, TuneObjective, level_of_unseen

AXES = ("utility", "forgetting", "ranks")
RETRAINED, TARGET = AxisValues(0.9, 0.6, 0.1), AxisValues(0.9, 0.0, 0.9)


def test_distance_to_the_retrained_model() -> None:
    objective = TuneObjective("train", AXES, RETRAINED)
    assert objective.of(RETRAINED) == 0.0
    # Gaps 0.3, 0.4 and 0.5.
    assert objective.of(AxisValues(0.6, 0.2, 0.6)) == pytest.approx(((0.09 + 0.16 + 0.25) / 3) ** 0.5)
    # Ranked lower than a stranger's counts as much as ranked higher.
    assert objective.of(AxisValues(0.9, 0.6, 0.0)) == pytest.approx(objective.of(AxisValues(0.9, 0.6, 0.2)) or 0)
    done_nothing, collapsed = objective.of(TARGET), objective.of(AxisValues(0.0, 1.0, 0.0))
    assert done_nothing == pytest.approx(((0.36 + 0.64) / 3) ** 0.5)
    assert collapsed is not None
    assert collapsed > 0.5
    assert TuneObjective("train", ("utility",), RETRAINED).of(AxisValues(0.4)) == pytest.approx(0.5)


def test_ranks_under_a_floor_of_utility() -> None:
    objective = TuneObjective("train", AXES, None, floor=0.85, level=0.1)
    assert objective.needs == ("utility", "ranks")
    assert objective.of(AxisValues(0.86, None, 0.1)) == pytest.approx(0.0)
    assert objective.of(TARGET) == pytest.approx(0.8)
    # A model below the floor is worse than all above it, the more so the lower.
    broken, worse = objective.of(AxisValues(0.8, 1.0, 0.1)), objective.of(AxisValues(0.0, 1.0, 0.1))
    assert broken == pytest.approx(1.05)
    assert worse == pytest.approx(1.85)


def test_a_number_that_is_missing_leaves_no_objective() -> None:
    objective = TuneObjective("train", AXES, RETRAINED)
    assert objective.of(AxisValues(0.9, 0.6, None)) is None
    assert AxisValues(0.9).missing(AXES) == ["forgetting", "ranks"]


def summary(values: dict[tuple[str, str], float | None]) -> pd.DataFrame:
    """(side, measure) -> value on the train fold, as an evaluation's summary has it."""
    parts = {"H(rouge_l, em)": "rouge_l,em", "H(1-rouge_l, 1-em)": "rouge_l,em"}
    rows = [
        dict(zip(EVALUATION, (side, fold, kind), strict=True))
        | {"measure": measure, "value": value if fold == "train" and kind == "all" else 0.123}
        | {"parts": parts.get(measure, "")}
        for (side, measure), value in values.items()
        for fold in ("train", "holdout")
        for kind in ("all", "factual")
    ]
    return pd.DataFrame(rows).astype({"value": "Float64"})


def test_a_standing_is_read_from_one_fold_and_all_kinds() -> None:
    table = summary(
        {
            ("retain", "H(rouge_l, em)"): 0.9,
            ("forget", "H(1-rouge_l, 1-em)"): 0.4,
            ("forget", "ranked_first"): 0.7,
            ("retain", "ranked_first"): 0.95,
        }
    )
    assert AxisValues.of(table, "train") == AxisValues(0.9, 0.4, 0.7)
    # Rows of a node in the table of epochs are no rows of the whole split.
    assert AxisValues.of(table.assign(node="a"), "train") == AxisValues()
    assert AxisValues.of(table.assign(node=""), "train") == AxisValues(0.9, 0.4, 0.7)
    assert AxisValues.of(summary({("forget", "ranked_first"): None}), "train") == AxisValues()


def test_the_level_of_unseen_subjects_is_that_of_chance() -> None:
    facts = pd.DataFrame(
        {
            "item": ["a", "a", "b", "c", "d", "e"],
            "side": ["forget"] * 4 + ["retain", "forget"],
            "fold": ["train"] * 5 + ["holdout"],
            "p": [0.1, 0.5, 0.25, None, 0.1, 0.1],
            "rank": [1, 10, 1, None, 1, 1],
            "of": [10, 20, 4, 10, 10, 10],
        }
    )
    # Question a: the mean of 1/10 and 1/20; question b: 1/4; c has no ranked fact.
    assert level_of_unseen(facts, "train") == pytest.approx((0.075 + 0.25) / 2)
    assert level_of_unseen(facts[facts["item"] == "c"], "train") is None
