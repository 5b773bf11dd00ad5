"""What forget quality is read against, and what it says of questions that it leaves out."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest
from scipy import stats

from medunlearn.papers.tofu.measures import _forget_quality, _is_reference
from medunlearn.results.runs import Run, RunRecord


def evaluated(ratios: list[float | None], split: str = "forget01", without: str | None = None) -> Any:
    """A model whose questions on forget have these truth ratios; None is unscored."""
    names = [f"q{place}" for place in range(len(ratios))]
    return SimpleNamespace(
        run=Run(Path("x"), RunRecord("train", "a model", config={"without": without})),
        record=SimpleNamespace(info={"config": {"split": split}}),
        scores=pd.DataFrame({"question_id": names, "metric": "truth_ratio", "value": ratios}),
        questions=pd.DataFrame({"question_id": names, "side": "forget", "fold": "train"}),
    )


@pytest.mark.parametrize(("without", "is_one"), [("forget01", True), ("forget05", False), (None, False)])
def test_only_a_model_retrained_without_this_split_is_the_reference(without: str | None, is_one: bool) -> None:
    assert _is_reference(evaluated([0.5], without=without)) is is_one


def test_what_is_left_out_is_said() -> None:
    own, reference = [0.1, 0.4, 0.9, None], [0.2, None, None, 1.5]
    row = _forget_quality(evaluated(own), evaluated(reference, without="forget01"))
    exact = stats.ks_2samp([0.1, 0.4, 0.9], [0.2, 1.5], method="exact").pvalue
    assert row["value"] == pytest.approx(exact)
    assert row["n"] == 3
    assert row["note"] == "without truth ratio, left out: 1 here, 2 of the retrained model's"
    assert _forget_quality(evaluated([0.1]), evaluated([0.2], without="forget01"))["note"] == ""
    row = _forget_quality(evaluated([0.5, 0.7]), None)
    assert (row["value"], row["n"]) == (None, 0)
    assert row["note"].startswith("no retrained model of this split")
