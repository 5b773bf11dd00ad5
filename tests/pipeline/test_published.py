"""TOFU's and MUSE's measures in a report: the numbers of their parts, and a reason where there is none."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest

from medunlearn.pipeline.report.papers import GatheredRuns, measures_part, paper_part
from medunlearn.reports.blocks import Prose, Report, Section, Table
from medunlearn.reports.content import Membership, PaperPart, ReportContent
from medunlearn.reports.html import to_html

NUMBERS = {"n_scored": 4, "n_unscored": 0}


def summary(value: float | None, **place: Any) -> dict[str, Any]:
    edges = {"low": value - 0.1, "high": value + 0.1} if value is not None else {"low": None, "high": None}
    return {"side": "forget", "fold": "train", "kind": "all", "value": value, **edges, **NUMBERS, **place}


def model(label: str, role: str, builder: str, rows: list[dict[str, Any]]) -> Any:
    return SimpleNamespace(
        run=SimpleNamespace(label=label, role=role),
        record=SimpleNamespace(info={"results": {"benchmark": {"builder": builder}}}),
        summary=pd.DataFrame(rows),
        groups=pd.DataFrame(rows),
    )


def areas(**of: float | None) -> Membership:
    rows = [{"model": label, "attack": "min_k", "measure": "auc", "value": value} for label, value in of.items()]
    return Membership(table=pd.DataFrame([*rows, {**rows[0], "attack": "loss", "value": 0.123}]))


def muse(label: str, role: str) -> Any:
    rows = [
        summary(0.3, measure="VerbMem", node="forget"),
        summary(0.4, measure="KnowMem", node="forget"),
        summary(0.5, measure="KnowMem", node="retain", side="retain"),
    ]
    return model(label, role, "muse", rows)


def published_measures(models: list[Any], membership: Membership) -> PaperPart:
    """The paper's part of runs without their benchmark."""
    content = ReportContent(
        title="",
        benchmark={"builder": models[0].record.info["results"]["benchmark"]["builder"]},
        split={},
        context="closed_book",
        models=(),
        comparisons=pd.DataFrame(),
        examples=(),
        metrics={},
        caveats=(),
        show_text=False,
        membership=membership,
    )
    return paper_part(GatheredRuns(tuple(models), None, content, tuple(None for _ in models), None, 10, 0))


def values(found: PaperPart) -> dict[tuple[str, str], tuple[Any, str]]:
    return {
        (row["model"], row["measure"]): (None if pd.isna(row["value"]) else row["value"], row["note"])
        for row in found.data["published"]["table"].to_dict("records")
    }


def test_muse_has_its_four_parts() -> None:
    models = [muse("GA", "unlearned"), muse("retrained", "retrained")]
    found = values(published_measures(models, areas(GA=0.9, retrained=0.6)))
    assert found["GA", "VerbMem on forget"] == (0.3, "")
    assert found["GA", "KnowMem on forget"] == (0.4, "")
    assert found["GA", "KnowMem on retain"] == (0.5, "")
    leak, note = found["GA", "PrivLeak"]
    assert (leak, note) == (pytest.approx((0.9 - 0.6) / 0.6), "")
    assert found["retrained", "PrivLeak"] == (None, "the reference")


def test_what_privacy_leakage_lacks_is_said() -> None:
    models = [muse("GA", "unlearned"), muse("retrained", "retrained")]
    for membership in (Membership(), areas(GA=0.9), areas(GA=0.9, retrained=None)):
        leak, note = values(published_measures(models, membership))["GA", "PrivLeak"]
        assert leak is None
        assert note.startswith("not attacked")
    alone = values(published_measures(models[:1], areas(GA=0.9)))
    assert alone["GA", "PrivLeak"] == (None, "no retrained model")
    zero = values(published_measures(models, areas(GA=0.9, retrained=0.0)))
    assert "AUC is 0" in zero["GA", "PrivLeak"][1]


def test_tofu_without_the_benchmark_has_truth_ratios_alone() -> None:
    rows = [
        summary(0.7, metric="truth_ratio"),
        summary(None, metric="truth_ratio", side="retain", n_scored=0, n_unscored=4),
        summary(0.2, metric="truth_ratio", kind="factual"),
        summary(0.2, metric="truth_ratio", side="retain", fold="utility"),
    ]
    found = published_measures([model("GA", "unlearned", "tofu", rows)], Membership())
    assert values(found) == {
        ("GA", "truth ratio on forget"): (0.7, ""),
        ("GA", "truth ratio on retain"): (None, "no question has one"),
    }
    assert "--benchmark" in found.data["published"]["about"][-1]
    # Other benchmarks have no such part.
    assert published_measures([model("GA", "unlearned", "amnesia", [])], Membership()) == PaperPart()


def test_the_table_says_why_a_number_is_missing() -> None:
    rows = [
        {"model": "GA", "measure": "forget quality", "value": 1.5e-7, "low": None, "high": None, "note": ""},
        {"model": "retrained", "measure": "forget quality", "value": None, "low": None, "high": None}
        | {"note": "the reference"},
        {"model": "GA", "measure": "model utility", "value": 0.25, "low": 0.2, "high": 0.3, "note": ""},
        {"model": "GA", "measure": "<i>", "value": None, "low": None, "high": None, "note": "no question"},
    ]
    part = measures_part("TOFU", ("What it means.",), rows, ("GA", "retrained"))
    (shown,) = part.blocks
    assert isinstance(shown, Section)
    about, table = shown.blocks
    assert isinstance(about, Prose)
    assert isinstance(table, Table)
    assert [[str(cell) for cell in line] for line in table.rows] == [
        ["forget quality", "1.5e-07", "reference"],
        ["model utility", "0.250 [0.200, 0.300]", "–"],
        ["<i>", "unscored no question", "–"],
    ]
    page = to_html(Report("TOFU", part.blocks))
    assert "What it means." in page
    assert "<i>" not in page.split('id="published"')[1].split("</section>")[0]
