"""The report of a tuning: what its first screen says of models that did nothing, everything right, or broke."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pandas as pd
import pytest

from medunlearn.reports.blocks import tables_of
from medunlearn.reports.markdown import to_markdown
from medunlearn.reports.tune_report import TuneContent, headline, ranking, spread, tuning_report

SUBJECTS = {"choosing": {"forget": 3, "retain": 8}, "reporting": {"forget": 2, "retain": 7}}


def results(values: dict[tuple[str, str], list[float | None]], broken: str = "") -> pd.DataFrame:
    """(model, setting) -> its objective by seed."""
    rows = [
        {
            "model": model,
            "setting": setting,
            "seed": seed,
            "fold": "train",
            "utility": 0.9,
            "forgetting": 0.5,
            "ranks": 0.1,
            "value": value,
            "problem": "it repeats one token" if model == broken else "",
        }
        for (model, setting), by_seed in values.items()
        for seed, value in enumerate(by_seed)
    ]
    return pd.DataFrame(rows).astype({"value": "Float64"})


def content(table: pd.DataFrame, **more: Any) -> TuneContent:
    methods = [model for model in table["model"].unique() if model not in ("target", "retrained")]
    best = [
        {
            "method": method, "trial": 1, "settings": "lr 0.001", "untuned": "lr 0.01", "edges": "lr (lowest)",
            "value": 0.2, "untuned_value": 0.4, "trials": 2, "complete": 1, "pruned": 0, "failed": 1, "broken": 0,
            "flops": 1e9, "seconds": 3.0,
        }
        for method in methods
    ]  # fmt: skip
    trials = [
        {
            "method": method, "number": number, "state": state, "params": "{}", "value": value, "utility": 0.9,
            "forgetting": 0.5, "ranks": 0.1, "epochs": 1, "planned": 2, "reason": "", "problem": problem,
        }
        for method in methods
        for number, (state, value, problem) in enumerate(
            [("complete", 0.4, ""), ("failed", None, ""), ("complete", 0.1, "broken"), ("pruned", 0.2, ""),
             ("complete", 0.3, "")]
        )
    ]  # fmt: skip
    return TuneContent(
        title="T",
        best=pd.DataFrame(best),
        trials=pd.DataFrame(trials),
        results=table,
        spaces={method: {"lr": "0.001 to 0.1, log"} for method in methods},
        objective="distance",
        caveats=["Mind this."],
        subjects=SUBJECTS,
        budget="2 trials a method",
        benchmark={"name": "B", "data_use": "open"},
        **more,
    )


REFERENCES: dict[tuple[str, str], list[float | None]] = {("target", ""): [0.5, 0.6], ("retrained", ""): [0.0, 0.0]}


def answer(values: dict[tuple[str, str], list[float | None]], broken: str = "", **more: Any) -> str:
    answer = headline(content(results({**REFERENCES, **values}, broken), **more))
    return answer.answer if answer else ""


def test_the_closest_method_is_named_with_its_spread() -> None:
    values = {("a", "best"): [0.2, 0.4], ("a", "untuned"): [0.5, 0.5], ("b", "best"): [0.25, 0.25]}
    tuning = content(results({**REFERENCES, **values}))
    assert [(method, value.mean) for method, value in ranking(tuning)] == [("b", 0.25), ("a", pytest.approx(0.3))]
    value = spread(tuning.results, "a", "best", "train", "value")
    assert value is not None
    assert (value.least, value.greatest, value.seeds) == (0.2, 0.4, 2)
    assert answer(values) == "b"


def test_a_model_that_did_nothing_is_never_named() -> None:
    assert answer({("a", "best"): [0.5, 0.6]}) == "none"
    assert answer({("a", "best"): [0.9, 0.9]}) == "none"
    assert answer({("a", "best"): [0.0, 0.0]}) == "a"  # as the retrained model


def test_a_broken_model_is_never_named() -> None:
    values = {("a", "best"): [0.1, 0.1], ("b", "best"): [0.3, 0.3]}
    assert answer(values, broken="a") == "b"
    assert answer({("a", "best"): [0.1, 0.1]}, broken="a") == ""


def test_nothing_is_decided_against_a_retrained_model_that_is_no_reference() -> None:
    assert answer({("a", "best"): [0.1, 0.1]}, refused=["It did not learn."]) == "not decided"


def test_a_seed_without_a_number_leaves_no_mean() -> None:
    assert answer({("a", "best"): [0.1, None]}) == ""


def test_the_page_and_its_curve() -> None:
    tuning = content(results({**REFERENCES, ("a", "best"): [0.2, 0.4], ("a", "untuned"): [0.5, 0.5]}))
    report = tuning_report(tuning)
    page = to_markdown(report)
    for part in (
        "Mind this.",
        "0.300",
        "0.200 to 0.400",
        "at an end: lr (lowest)",
        "1 failed",
        "1e+09 FLOPs",
    ):
        assert part in page, part
    (figure,) = [block for part in report.blocks for block in getattr(part, "blocks", ()) if hasattr(block, "spec")]
    (trace,) = figure.spec["data"]
    # Neither a failed, a broken nor a stopped trial lowers the line.
    assert (trace["x"], trace["y"]) == ([0, 1, 2, 3, 4], [0.4, 0.4, 0.4, 0.4, 0.3])
    assert [table.title for table in tables_of(filter(None, tuning.view().blocks))] == [
        "Reporting half, fold train",
        "Best settings and budget, choosing half",
    ]


def test_a_tuning_without_any_result_has_a_page() -> None:
    tuning = content(results({**REFERENCES, ("a", "best"): [0.2, 0.4]}))
    empty = replace(
        tuning,
        results=tuning.results.iloc[:0],
        trials=tuning.trials.iloc[:0],
        missing=[("tune a", "its model is broken")],
    )
    page = to_markdown(tuning_report(empty))
    assert "tune a: its model is broken" in page
    assert headline(empty) is None
