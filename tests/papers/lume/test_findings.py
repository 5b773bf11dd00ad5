"""Each rule on tables whose verdict is plain from the numbers, on both sides of its threshold and on it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pandas as pd
import pytest

from medunlearn.papers.lume.report import Finding, findings, findings_text
from medunlearn.reports.content import ModelResult, ReportContent
from medunlearn.reports.content_markdown import to_markdown
from medunlearn.reports.page import to_html
from medunlearn.reports.payload import payload
from medunlearn.reports.verdicts import FAILS, HOLDS, OPEN

METHODS = {"GA": "ga", "GD": "graddiff", "KL": "kl_min", "NPO": "npo"}
Row = dict[str, Any]


def epoch(model: str, number: int, measure: str, value: float, **more: Any) -> Row:
    """A row of the table of epochs, with an interval of 0.02 on either side and ten documents."""
    place = {"level": "task", "node": "story", "side": "forget", "fold": "train", "kind": "completion"}
    counts = {"n_scored": 10, "n_unscored": 0, "n_subjects": 10, "metric": "rouge_l", "parts": ""}
    numbers = {"value": value, "low": value - 0.02, "high": value + 0.02}
    return {"model": model, "epoch": number, "measure": measure, **place, **counts, **numbers, **more}


def contrast(name: str, model: str, low: float, high: float, **more: Any) -> Row:
    """A row of the table of differences, at the middle of its interval."""
    place = {"node": "story", "about": f"{name} of {model}", "n_subjects": 10, "reason": ""}
    return {"contrast": name, "model": model, "value": (low + high) / 2, "low": low, "high": high, **place, **more}


def report(
    epochs: list[Row], contrasts: Sequence[Row] = (), rates: dict[str, float] | None = None
) -> ReportContent:
    """A LUME report of the four methods' runs."""
    models = tuple(
        ModelResult(
            label,
            "unlearned",
            method,
            pd.DataFrame(),
            pd.DataFrame(),
            {"config": {"lr": (rates or {}).get(label, 1e-4)}},
        )
        for label, method in METHODS.items()
    )
    return ReportContent(
        title="LUME",
        benchmark={"name": "LUME", "builder": "lume", "data_use": "open"},
        split={"name": "released", "level": "document", "forget": 10, "retain": 10},
        context="closed_book",
        models=models,
        comparisons=pd.DataFrame(),
        examples=(),
        metrics={},
        caveats=(),
        show_text=False,
        epochs=pd.DataFrame(epochs),
        contrasts=pd.DataFrame(contrasts),
    )


START = [epoch(label, 0, "regurgitation", 0.95) for label in METHODS]
AUC = {"node": "public_biography", "metric": "loss", "side": ""}


def found(content: ReportContent) -> dict[str, Finding]:
    return {one.name: one for one in findings(content)}


def verdicts(one: Finding) -> list[tuple[str, str]]:
    return [(case.run, case.verdict) for case in one.cases]


def test_there_are_none_elsewhere() -> None:
    content = report(START)
    assert len(findings(content)) == 8
    assert findings(report([])) == ()
    other = replace(content, benchmark={**content.benchmark, "builder": "amnesia"})
    assert findings(other) == ()
    assert findings_text(other) == ""


@pytest.mark.parametrize(("value", "verdict"), [(0.95, "holds"), (0.91, OPEN), (0.87, FAILS)])
def test_memorized(value: float, verdict: str) -> None:
    one = found(report([epoch("GA", 0, "regurgitation", value)]))["memorized"]
    assert verdicts(one) == [("target", verdict)]
    assert one.verdict == verdict


def test_an_epoch_of_the_run_is_no_start() -> None:
    later = [epoch("GA", 3, "regurgitation", 0.1), epoch("GA", 0, "regurgitation", 0.99, fold="holdout")]
    assert len(found(report([*START, *later]))["memorized"].cases) == 1


def test_falling_to_zero_takes_every_number_of_a_task() -> None:
    rows = [
        *(contrast("zero", "GA", -0.09, -0.05) for _ in range(4)),
        *(contrast("zero", "GD", -0.09, -0.05) for _ in range(3)),
        contrast("zero", "GD", 0.1, 0.3),
        *(contrast("zero", "KL", -0.09, -0.05) for _ in range(3)),
        contrast("zero", "KL", -0.05, 0.02),
        contrast("zero", "NPO", 0.1, 0.3),
    ]
    one = found(report(START, rows))["zero"]
    assert verdicts(one) == [("GA", "holds"), ("GD", FAILS), ("KL", OPEN)]
    assert one.cases[1].says == "stays above in 1 of 4 numbers"
    assert one.counts == {HOLDS: 1, FAILS: 1, OPEN: 1}
    assert (one.verdict, one.summary) == (FAILS, "Holds in 1 of 3 cases, does not hold in 1, open in 1.")


def test_half_of_the_cases_carry_a_finding() -> None:
    def of(*highs: float) -> str:
        rows = [contrast("zero", "GA", -0.09, high, node=f"task {n}") for n, high in enumerate(highs)]
        return found(report(START, rows))["zero"].verdict

    assert of(-0.05, 0.01) == "holds"
    assert of(-0.05, 0.01, 0.01) == OPEN
    assert of(0.01) == OPEN


def test_few_documents_settle_nothing() -> None:
    one = found(report(START, [contrast("zero", "GA", -0.09, -0.05, n_subjects=4)]))["zero"]
    assert one.verdict == OPEN
    assert "(4 documents)" in str(one.cases[0].evidence[0])


@pytest.mark.parametrize(
    ("fell", "rose", "verdict"),
    [
        ((0.3, 0.5), (0.2, 0.4), "holds"),
        ((0.3, 0.5), (-0.09, -0.01), FAILS),
        ((0.3, 0.5), (-0.1, 0.2), OPEN),
        ((-0.1, 0.1), (0.2, 0.4), OPEN),
        ((-0.3, -0.1), (-0.2, -0.1), OPEN),
    ],
)
def test_what_did_not_fall_cannot_recover(fell: Any, rose: Any, verdict: str) -> None:
    one = found(report(START, [contrast("fell", "GD", *fell), contrast("rose", "GD", *rose)]))["recovery"]
    assert verdicts(one) == [("GD", verdict)]


def test_only_the_measures_that_fell_are_asked_whether_they_rose() -> None:
    rows = [
        contrast("fell", "GD", 0.3, 0.5), contrast("rose", "GD", 0.2, 0.4),
        contrast("fell", "GD", -0.1, 0.1), contrast("rose", "GD", -0.2, -0.1),
    ]  # fmt: skip
    assert found(report(START, rows))["recovery"].verdict == "holds"


def test_slower_than_each_of_the_others() -> None:
    rows = [contrast("slower", "NPO", 0.1, 0.3) for _ in range(6)]
    one = found(report(START, rows, {"NPO": 3e-4}))["slower"]
    assert one.verdict == "holds"
    assert one.cases[0].says == (
        "slower than each; learning rates differ: NPO 0.0003, GA 0.0001, GD 0.0001, KL 0.0001"
    )
    one = found(report(START, [*rows[1:], contrast("slower", "NPO", -0.3, -0.1)]))["slower"]
    assert (one.verdict, one.cases[0].says) == (FAILS, "faster in 1 of 6 comparisons")


def auc(label: str, *values: float) -> list[Any]:
    return [epoch(label, number, "membership_auc", value, **AUC) for number, value in enumerate(values)]


def test_membership() -> None:
    """Half-way from 1 to 0.5 is 0.75; intervals are of 0.02 on either side."""
    rows = [*START, *auc("GA", 1, 0.5), *auc("GD", 1, 0.9, 0.3), *auc("KL", 1, 0.74), *auc("NPO", 1, 0.8)]
    of = found(report(rows))
    assert verdicts(of["membership falls"]) == [
        ("GA", "holds"),
        ("GD", "holds"),
        ("KL", OPEN),
    ]
    assert (of["membership stays"].verdict, of["over-forgotten"].verdict) == ("holds", "holds")
    assert of["over-forgotten"].cases[0].says == "first below 0.5, with its interval, after epoch 2"
    assert str(of["membership stays"].cases[0].evidence[0]) == (
        "AUC after epoch 1, minus 0.75: +0.050 [0.030, 0.070]"
    )
    of = found(report([*START, *auc("GD", 1, 0.6), *auc("NPO", 1, 0.6)]))
    assert {name: of[name].verdict for name in ("membership stays", "over-forgotten")} == {
        "membership stays": FAILS,
        "over-forgotten": FAILS,
    }


def test_membership_is_that_of_public_biographies_and_of_the_loss() -> None:
    others = [epoch("NPO", number, "membership_auc", 0.2, node="story", metric="loss") for number in range(2)] + [
        epoch("NPO", number, "membership_auc", 0.2, **{**AUC, "metric": "min_k"}) for number in range(2)
    ]
    assert found(report([*START, *others, *auc("NPO", 1, 0.9)]))["membership stays"].verdict == "holds"


def test_what_was_not_measured_has_no_case() -> None:
    of = found(report(START))
    assert {name for name, one in of.items() if one.cases} == {"memorized"}
    assert of["membership stays"].summary == "These runs have no case for it."
    assert of["utility"].verdict == OPEN


@pytest.mark.parametrize(("last", "verdict"), [(0.3, "holds"), (0.36, OPEN), (0.39, FAILS)])
def test_utility(last: float, verdict: str) -> None:
    """0.9 of 0.4 is 0.36."""
    rows = [epoch("NPO", number, "utility", value, node="") for number, value in enumerate((0.4, last))]
    assert found(report([*START, *rows]))["utility"].verdict == verdict


def test_the_text_has_every_number() -> None:
    said = findings_text(report(START, [contrast("zero", "GA", -0.09, -0.05)]))
    assert "HOLDS: GA, GD and KL fall to zero on both sides." in said
    assert "  GA, story: holds; falls to zero on both sides; zero of GA −0.070 [−0.090, −0.050]" in said
    assert "Rule: " in said


def test_they_are_in_all_three_files() -> None:
    """A hostile name of a task is escaped; a report of another benchmark has no section for them."""
    content = report(START, [contrast("zero", "GA", -0.09, -0.05, node="<b>story</b>")])
    page, text, data = to_html(content), to_markdown(content), payload(content)
    assert 'id="findings"' in page
    assert page.count('<span class="badge') == len(findings(content))
    assert "&lt;b&gt;story" in page
    assert "### holds: GA, GD and KL fall to zero on both sides." in text
    assert "<b>story" not in page + text
    zero = next(one for one in data["findings"] if one["name"] == "zero")
    assert (zero["verdict"], zero["counts"]) == (
        "holds",
        {HOLDS: 1, FAILS: 0, OPEN: 0},
    )
    assert zero["cases"][0]["evidence"][0]["low"] == -0.09
    other = replace(content, benchmark={**content.benchmark, "builder": "amnesia"})
    assert 'id="findings"' not in to_html(other)
    assert "LUME's findings" not in to_markdown(other)
    assert payload(other)["findings"] == []
