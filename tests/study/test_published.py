"""TOFU's and MUSE's measures in a report: the numbers of their parts, and a reason where there is none."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pandas as pd

from medunlearn.attacks.membership.likelihood_attacks import MuseMinK
from medunlearn.metrics.likelihood import TRUTH_RATIO_GEOMETRIC
from medunlearn.papers.paper_files import paper_yaml
from medunlearn.reports.blocks import Prose, Report, Section, Table
from medunlearn.reports.content import PaperPart, ReportContent
from medunlearn.reports.html import to_html
from medunlearn.study.report.papers import GatheredRuns, measures_part, paper_part, published_numbers

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


def leaks(**of: float | None) -> Any:
    """Attacks on these models, with MUSE's PrivLeak in percent against ``retrained``; None has none."""
    row = {"against": "retrained", "n_pairs": 7, "value": 0.5, "low": 0.4, "high": 0.6}
    rows = [
        {**row, "attack": attack, "model": label, "muse_value": value, "muse_low": None, "muse_high": None}
        for label, value in of.items()
        for attack in ("loss", "min_k", "min_k.muse")
    ]
    return SimpleNamespace(privacy_leaks=pd.DataFrame(rows))


def muse(label: str, role: str) -> Any:
    rows = [
        summary(0.3, measure="VerbMem", node="forget"),
        summary(0.4, measure="KnowMem", node="forget"),
        summary(0.5, measure="KnowMem", node="retain", side="retain"),
    ]
    return model(label, role, "muse", rows)


def published_measures(models: list[Any], attacks: Any = None, context: str = "note") -> PaperPart:
    """The paper's part of runs without their benchmark."""
    content = ReportContent(
        title="",
        benchmark={"builder": models[0].record.info["results"]["benchmark"]["builder"]},
        split={},
        context=context,
        models=(),
        comparisons=pd.DataFrame(),
        examples=(),
        metrics={},
        caveats=(),
        show_text=False,
    )
    return paper_part(GatheredRuns(tuple(models), None, content, tuple(None for _ in models), attacks, 10, 0))


def values(found: PaperPart) -> dict[tuple[str, str], tuple[Any, str]]:
    return {
        (row["model"], row["measure"]): (None if pd.isna(row["value"]) else row["value"], row["note"])
        for row in found.data["published"]["table"].to_dict("records")
    }


def test_muse_has_its_four_parts() -> None:
    models = [muse("GA", "unlearned"), muse("retrained", "retrained")]
    found = values(published_measures(models, leaks(GA=-99.6)))
    assert found["GA", "VerbMem on forget"] == (0.3, "")
    assert found["GA", "KnowMem on forget"] == (0.4, "")
    assert found["GA", "KnowMem on retain"] == (0.5, "")
    assert found["GA", "PrivLeak, %"] == (-99.6, "")
    bare = values(published_measures(models, context="closed_book"))
    assert bare["GA", "KnowMem on retain without in-context examples"] == (0.5, "")
    assert found["retrained", "PrivLeak, %"] == (None, "the reference")


def test_what_privacy_leakage_lacks_is_said() -> None:
    models = [muse("GA", "unlearned"), muse("retrained", "retrained")]
    for attacks in (None, leaks(other=1.0)):
        leak, note = values(published_measures(models, attacks))["GA", "PrivLeak, %"]
        assert leak is None
        assert note.startswith("not attacked: `medunlearn attack RUN BENCH --split forget --attacks min_k.muse")
    alone = values(published_measures(models[:1], leaks(GA=1.0)))
    assert alone["GA", "PrivLeak, %"] == (None, "no retrained model")
    certain = values(published_measures(models, leaks(GA=None)))
    assert certain["GA", "PrivLeak, %"][1].startswith("the retrained model's AUC is 1")


def test_published_numbers_stand_under_their_variant() -> None:
    for paper, key, row in (
        ("tofu", "forget10", ["GA", "1.06e-239", "0", "2.21e-32"]),
        ("muse", "MUSE-News", ["trained on everything", "-99.81"]),
    ):
        shown = published_numbers(paper_yaml(paper, "published"), key)
        assert shown is not None
        (table,) = shown.blocks
        assert isinstance(table, Table)
        variant = {"tofu": TRUTH_RATIO_GEOMETRIC.variant, "muse": MuseMinK.variant}[paper]
        assert {cell.note for cell in table.columns[1:]} == {variant}
        assert row in [[cell.text for cell in line] for line in table.rows]
        assert published_numbers(paper_yaml(paper, "published"), "another") is None


def test_tofu_without_the_benchmark_has_truth_ratios_alone() -> None:
    rows = [
        summary(0.7, measure="truth_ratio"),
        summary(None, measure="truth_ratio", side="retain", n_scored=0, n_unscored=4),
        summary(0.2, measure="truth_ratio", kind="factual"),
        summary(0.2, measure="truth_ratio", side="retain", fold="utility"),
    ]
    found = published_measures([model("GA", "unlearned", "tofu", rows)])
    assert values(found) == {
        ("GA", "truth ratio on forget"): (0.7, ""),
        ("GA", "truth ratio on retain"): (None, "no question has one"),
    }
    assert "--benchmark" in found.data["published"]["about"][-1]
    # Other benchmarks have no such part.
    assert published_measures([model("GA", "unlearned", "amnesia", [])]) == PaperPart()


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
