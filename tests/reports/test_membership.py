"""The report's section on membership: every number in every format, and nothing where nothing was attacked."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pandas as pd
import pytest

from medunlearn.reports import ReportContent
from medunlearn.reports.content import Membership
from medunlearn.reports.content_markdown import to_markdown
from medunlearn.reports.membership import membership_tables, roc_figures, semeval_table
from medunlearn.reports.page import plotly_source, to_html
from medunlearn.reports.payload import payload

FEW = "not measurable: a false positive rate of 1.0% takes 100 non-members, not 30"


def row(model: str, measure: str, value: float | None, **more: Any) -> dict[str, Any]:
    edges = (None, None) if value is None else (value - 0.031, value + 0.029)
    about = {"group": "all", "attack": "loss", "n_members": 24, "n_nonmembers": 30, "reading": None, "reason": None}
    return {"model": model, "measure": measure, "value": value, "low": edges[0], "high": edges[1], **about, **more}


@pytest.fixture
def attacked(content: ReportContent) -> ReportContent:
    rows = [
        row("target", "auc", 0.981),
        row("retrained", "auc", 0.507),
        row("GA", "auc", 0.213, reading="over-forgotten"),
        row("GA", "tpr_at_1pct_fpr", None, reason=FEW),
    ]
    gap = {"model": "GA", "against": "retrained", "group": "all", "attack": "loss", "difference": -0.294}
    comparisons = pd.DataFrame([gap | {"low": -0.4, "high": -0.2, "p": 0.002, "reading": "below"}])
    points = {
        "group": "all",
        "attack": "loss",
        "fpr": [0.0, 0.4, 1.0],
        "tpr": [0.0, 0.1, 1.0],
        "threshold": [9, 8, 7],
    }
    curves = pd.concat([pd.DataFrame({**points, "model": label}) for label in ("target", "GA")])
    parts = {"task aggregate": 0.411, "membership score": 0.426, "utility": None, "SemEval-2025 Task 4": None}
    found = Membership(pd.DataFrame(rows), comparisons, curves, {"loss": "Loss"}, {"GA": parts})
    return replace(content, membership=found)


def test_numbers_stand_in_every_format(attacked: ReportContent) -> None:
    page, text = to_html(attacked).replace(plotly_source(), ""), to_markdown(attacked)
    for shown in (page, text):
        for part in (
            "0.981",
            "0.507",
            "0.213",
            "over-forgotten",
            FEW,
            "−0.294",
            "24 members, 30 non-members",
            "0.426",
        ):
            assert part in shown, part
    data = payload(attacked)["membership"]
    assert [one["value"] for one in data["table"]] == [0.981, 0.507, 0.213, None]
    assert data["semeval"]["GA"]["SemEval-2025 Task 4"] is None
    assert "threshold" not in data["curves"][0]


def test_models_that_were_not_attacked_have_no_column(attacked: ReportContent) -> None:
    ((_, table),) = membership_tables(attacked)
    assert [cell.text for cell in table.columns] == ["Attack", "target", "retrained", "GA"]
    assert [cell.text for cell in table.rows[0]] == ["Loss", "0.981", "0.507", "0.213"]
    assert [cell.text for cell in table.rows[1]] == ["Loss", "–", "–", "unscored"]


def test_a_score_without_all_parts_is_unscored(attacked: ReportContent) -> None:
    table = semeval_table(attacked)
    assert table is not None
    assert [row[1].text for row in table.rows] == ["0.411", "0.426", "unscored", "unscored"]


def test_plotly_accepts_the_curves(attacked: ReportContent) -> None:
    from plotly.graph_objects import Figure

    ((title, spec),) = roc_figures(attacked)
    assert title == "Loss"
    assert [line["name"] for line in spec["data"]] == ["target", "GA"]
    text = (
        repr(spec)
        .replace("'--line'", "'#123456'")
        .replace("'--ink'", "'#123456'")
        .replace("'--muted'", "'#123456'")
    )
    text = text.replace("'--paper'", "'#123456'").replace("'--m1'", "'#123456'")
    shown = eval(text)
    Figure(data=shown["data"], layout=shown["layout"])


def test_without_attacks_there_is_no_section(content: ReportContent) -> None:
    assert "Membership" not in to_html(content).replace(plotly_source(), "")
    assert "Membership" not in to_markdown(content)
    assert roc_figures(content) == []
