"""The report's section on membership: every number in every format, and nothing where nothing was attacked."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import pandas as pd
import pytest
from rendered import data_of, markdown_of, page_of

from medunlearn.reports import ReportContent
from medunlearn.reports.attacked import membership_tables, roc_figures
from medunlearn.reports.content import Membership

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
    found = Membership(pd.DataFrame(rows), comparisons, curves, {"loss": "Loss"})
    return replace(content, membership=found)


def test_numbers_stand_in_every_format(attacked: ReportContent) -> None:
    page, text = page_of(attacked), markdown_of(attacked)
    for shown in (page, text):
        for part in (
            "0.981",
            "0.507",
            "0.213",
            "over-forgotten",
            FEW,
            "−0.294",
            "24 members, 30 non-members",
        ):
            assert part in shown, part
    data = data_of(attacked)["membership"]
    assert [one["value"] for one in data["table"]] == [0.981, 0.507, 0.213, None]
    assert "threshold" not in data["curves"][0]


def test_models_that_were_not_attacked_have_no_column(attacked: ReportContent) -> None:
    (table,) = membership_tables(attacked)
    assert [cell.text for cell in table.columns] == ["Attack", "target", "retrained", "GA"]
    assert [cell.text for cell in table.rows[0]] == ["Loss", "0.981", "0.507", "0.213"]
    assert [cell.text for cell in table.rows[1]] == ["Loss", "–", "–", "unscored"]


def test_plotly_accepts_the_curves(attacked: ReportContent) -> None:
    from plotly.graph_objects import Figure

    ((title, spec),) = roc_figures(attacked)
    assert title == "Loss"
    assert [line["name"] for line in spec["data"]] == ["target", "GA"]
    Figure(
        json.loads(
            re.sub(r'"--[a-z0-9]+"', '"#123456"', json.dumps({name: spec[name] for name in ("data", "layout")}))
        )
    )


def test_without_attacks_there_is_no_section(content: ReportContent) -> None:
    assert "Membership" not in page_of(content)
    assert "Membership" not in markdown_of(content)
    assert roc_figures(content) == []
