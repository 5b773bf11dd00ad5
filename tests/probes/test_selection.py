"""The rule of the best epoch on tables made by hand."""

from __future__ import annotations

from statistics import harmonic_mean
from typing import Any

import pandas as pd
import pytest

from medunlearn.study.epochs.epoch_selection import (
    EpochStanding,
    best_of,
    by_forgetting,
    forgetting_rule,
    is_over,
)


def row(epoch: int, side: str, value: float | None, **more: Any) -> dict[str, Any]:
    usual = {"level": "", "node": "", "measure": "", "fold": "train", "kind": "all", "metric": "", "parts": ""}
    return {**usual, "epoch": epoch, "side": side, "value": value, **more}


def node(epoch: int, side: str, value: float | None, name: str = "Task_1", measure: str = "knowledge") -> Any:
    return row(epoch, side, value, level="task", node=name, measure=measure, metric="exact_match", kind="knowledge")


def composite(epoch: int, side: str, value: float | None, metric: str, parts: str, **more: Any) -> Any:
    return row(epoch, side, value, metric=metric, measure=metric, parts=parts, **more)


def table(*rows: Any) -> pd.DataFrame:
    return pd.DataFrame(rows).astype({"value": "Float64"})


def test_by_task() -> None:
    rows = table(
        node(0, "retain", 1.0),
        node(0, "forget", 1.0),
        node(1, "retain", 0.8),
        node(1, "forget", 0.4),
        node(1, "retain", 0.5, measure="regurgitation"),
        node(1, "forget", 0.1, name="Task_2"),
        row(1, "retain", 0.01, level="identifier", node="ssn", measure="knowledge", kind="knowledge"),
        row(1, "forget", 0.99, level="identifier", node="ssn", measure="knowledge", kind="knowledge"),
        composite(1, "retain", 0.99, "MU", "rouge_l,em,cs,te,es"),
    )
    (found,) = by_forgetting(rows, "train")
    assert found.epoch == 1
    assert found.parts == pytest.approx(
        {
            "knowledge of Task_1 on retain": 0.8,
            "1-knowledge of Task_1 on forget": 0.6,
            "regurgitation of Task_1 on retain": 0.5,
            "1-knowledge of Task_2 on forget": 0.9,
        }
    )
    assert found.value == pytest.approx(harmonic_mean([0.8, 0.6, 0.5, 0.9]))
    assert "1-knowledge of Task_2 on forget), fold train" in forgetting_rule("train").words([found])


def test_without_nodes_the_composites_of_all_kinds() -> None:
    rows = table(
        composite(1, "retain", 0.9, "H(rouge_l, em)", "rouge_l,em"),
        composite(1, "retain", 0.1, "H(rouge_l, em)", "rouge_l,em", kind="factual"),
        composite(1, "retain", 0.2, "H(rouge_l, em)", "rouge_l,em", fold="holdout"),
        composite(1, "forget", 0.6, "H(1-rouge_l, 1-em)", "rouge_l,em"),
        composite(1, "forget", 0.0, "DS", "te"),
        row(1, "forget", 0.3, metric="em", measure="em"),
    )
    (found,) = by_forgetting(rows, "train")
    assert found.parts == {"H(rouge_l, em) on retain": 0.9, "H(1-rouge_l, 1-em) on forget": 0.6}
    assert found.value == pytest.approx(0.72)
    assert by_forgetting(rows, "holdout")[0].value is None  # nothing of the forget side


def test_an_epoch_without_a_part_that_others_have_has_no_number() -> None:
    rows = table(
        *(node(epoch, side, 0.5) for epoch in (1, 2, 3) for side in ("retain", "forget")),
        node(1, "forget", 0.0, measure="regurgitation"),
        node(2, "forget", None, measure="regurgitation"),
        node(3, "forget", 0.5, measure="regurgitation"),
    )
    found = by_forgetting(rows, "train")
    assert [one.value for one in found] == [pytest.approx(harmonic_mean([0.5, 0.5, 1.0])), None, pytest.approx(0.5)]
    assert best_of(found) == found[0]
    (zero,) = by_forgetting(table(node(1, "retain", 0.0), node(1, "forget", 0.0)), "train")
    assert zero.value == 0.0


def numbered(*values: float | None) -> list[EpochStanding]:
    return [EpochStanding(epoch, {}, value) for epoch, value in enumerate(values, 1)]


@pytest.mark.parametrize(
    ("values", "best"),
    [((0.1, 0.4, 0.4), 2), ((None, 0.0, None), 2), ((0.5, 0.2), 1), ((None, None), None), ((), None)],
)
def test_the_best_is_the_first_of_the_highest(values: tuple[float | None, ...], best: int | None) -> None:
    found = best_of(numbered(*values))
    assert (found.epoch if found else None) == best


@pytest.mark.parametrize(
    ("values", "patience", "over"),
    [
        ((0.1, 0.2, 0.2), 1, True),
        ((0.1, 0.2, 0.2), 2, False),
        ((0.3, 0.2, 0.2), 2, True),
        ((0.3, 0.2, 0.2), 0, False),
        ((None, None, None), 2, True),
        ((), 1, False),
    ],
)
def test_when_a_run_is_over(values: tuple[float | None, ...], patience: int, over: bool) -> None:
    assert is_over(numbered(*values), patience) == over
