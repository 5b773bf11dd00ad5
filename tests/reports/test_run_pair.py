"""Two unlearned runs of one report are compared with each other, paired and corrected."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd
import pytest

from medunlearn.reports.content import ReportContent
from medunlearn.reports.models_screen import ModelsScreen
from medunlearn.reports.run_pair import pair_data, pair_of, pair_section
from medunlearn.reports.unlearning import unlearning_report


@pytest.fixture
def two(content: ReportContent) -> ReportContent:
    """Target, retrained model, NPO and RMU; RMU keeps .08 more and forgets .09 less."""
    models = [model for model in content.models if model.label in ("target", "retrained", "NPO", "RMU")]
    place = {"fold": "train", "kind": "all", "model": "RMU", "against": "NPO", "n_pairs": 200, "n_subjects": 24}
    rows = [
        place | {"side": side, "measure": measure, "difference": gap, "low": gap - 0.05, "high": gap + 0.05, "p": p}
        for side, measure, gap, p in (
            ("retain", "H(rouge_l, em, te)", 0.08, 0.004),
            ("forget", "H(1-rouge_l, 1-em)", -0.09, 0.02),
            ("forget", "ranked_first", 0.01, 0.9),
            ("forget", "te", 0.3, 1e-6),
        )
    ]
    return replace(
        content, models=tuple(models), comparisons=pd.DataFrame([*content.comparisons.to_dict("records"), *rows])
    )


def test_second_minus_first_with_holm(two: ReportContent) -> None:
    rows = {row["number"]: row for row in pair_data(two, ModelsScreen(two).where)}
    assert {name: row["difference"] for name, row in rows.items()} == {
        "Utility": 0.08,
        "Forgetting": -0.09,
        "Facts ranked first": 0.01,
    }
    assert [rows[name]["p_holm"] for name in rows] == pytest.approx([0.012, 0.04, 0.9])


def test_page_names_what_differs(two: ReportContent) -> None:
    report = unlearning_report(two)
    assert len(report.data["pair"]) == 3
    part = pair_section(two, ModelsScreen(two).where)
    assert part is not None
    assert "2 of 3 numbers differ" in str(part)


def test_no_verdict_on_a_benchmark_that_was_drawn(two: ReportContent) -> None:
    drawn = replace(
        two,
        benchmark={**two.benchmark, "provenance": [{"what": "labels", "drawn": True}]},
    )
    part = pair_section(drawn, ModelsScreen(drawn).where)
    assert part is not None
    assert "numbers differ" not in str(part)


@pytest.mark.parametrize("kept", [("NPO",), ("NPO", "RMU", "GA")])
def test_only_of_two(content: ReportContent, kept: tuple[str, ...]) -> None:
    models = tuple(model for model in content.models if model.label in ("target", "retrained", *kept))
    assert pair_of(replace(content, models=models)) is None


def test_a_broken_run_is_not_compared(two: ReportContent) -> None:
    models = tuple(
        replace(model, problems=("weights are not finite",)) if model.label == "RMU" else model
        for model in two.models
    )
    assert pair_section(replace(two, models=models), ModelsScreen(two).where) is None
