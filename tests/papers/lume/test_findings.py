"""Each rule on tables whose verdict is plain from the numbers, on both sides of its threshold and on it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd
import pytest
from controls import check_controls

from medunlearn.papers.lume.findings import findings
from medunlearn.papers.lume.report import report_part
from medunlearn.reports.blocks import Report
from medunlearn.reports.claims import FAILS, HOLDS, NOT_MEASURABLE, OPEN, Finding, findings_text
from medunlearn.reports.content import ModelResult
from medunlearn.reports.html import to_html
from medunlearn.reports.json import to_data
from medunlearn.reports.markdown import to_markdown

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
) -> tuple[Finding, ...]:
    """LUME's findings on the four methods' runs."""
    nothing = pd.DataFrame()
    lr = {label: {"config": {"lr": (rates or {}).get(label, 1e-4)}} for label in METHODS}
    models = [
        ModelResult(name, "unlearned", method, nothing, nothing, lr[name]) for name, method in METHODS.items()
    ]
    return findings(models, pd.DataFrame(epochs), pd.DataFrame(contrasts))


START = [epoch(label, 0, "regurgitation", 0.95) for label in METHODS]
AUC = {"node": "public_biography", "metric": "loss", "side": ""}


def found(rules: tuple[Finding, ...]) -> dict[str, Finding]:
    return {one.name: one for one in rules}


def verdicts(one: Finding) -> list[tuple[str, str]]:
    return [(case.labels["run"], case.verdict) for case in one.cases]


def test_there_are_none_elsewhere() -> None:
    assert len(report(START)) == 8
    assert report([]) == ()
    assert findings_text(()) == ""


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
    assert one.counts == {HOLDS: 1, FAILS: 1, OPEN: 1, NOT_MEASURABLE: 0}
    assert (one.verdict, one.summary) == (FAILS, "Holds in 1 of 3 cases, does not hold in 1, open in 1.")


@pytest.mark.parametrize(
    ("highs", "verdict"), [((-0.05, 0.01), "holds"), ((-0.05, 0.01, 0.01), OPEN), ((0.01,), OPEN)]
)
def test_half_of_the_cases_carry_a_finding(highs: Sequence[float], verdict: str) -> None:
    rows = [contrast("zero", "GA", -0.09, high, node=f"task {n}") for n, high in enumerate(highs)]
    assert found(report(START, rows))["zero"].verdict == verdict


def test_few_documents_settle_nothing() -> None:
    one = found(report(START, [contrast("zero", "GA", -0.09, -0.05, n_subjects=4)]))["zero"]
    assert one.verdict == NOT_MEASURABLE
    assert "(4 subjects)" in str(one.cases[0].evidence[0])


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


FORGOT = [epoch("NPO", number, "regurgitation", value) for number, value in enumerate((0.95, 0.3))]


def test_membership() -> None:
    """Half-way from 1 to 0.5 is 0.75; intervals are of 0.02 on either side."""
    rows = [*START, *FORGOT, *auc("GA", 1, 0.5), *auc("GD", 1, 0.9, 0.3), *auc("KL", 1, 0.74), *auc("NPO", 1, 0.8)]
    of = found(report(rows))
    assert verdicts(of["membership falls"]) == [("GA", "holds"), ("GD", "holds"), ("KL", OPEN)]
    assert (of["membership stays"].verdict, of["over-forgotten"].verdict) == ("holds", "holds")
    assert of["over-forgotten"].cases[0].says == "first below 0.5, with its interval, after epoch 2"
    assert str(of["membership stays"].cases[0].evidence[0]) == (
        "AUC after epoch 1, minus 0.75: +0.050 [0.030, 0.070]"
    )
    of = found(report([*START, *FORGOT, *auc("GD", 1, 0.6), *auc("NPO", 1, 0.6)]))
    assert {name: of[name].verdict for name in ("membership stays", "over-forgotten")} == {
        "membership stays": FAILS,
        "over-forgotten": FAILS,
    }


def test_membership_is_that_of_public_biographies_and_of_the_loss() -> None:
    others = [epoch("NPO", number, "membership_auc", 0.2, node="story", metric="loss") for number in range(2)] + [
        epoch("NPO", number, "membership_auc", 0.2, **{**AUC, "metric": "min_k"}) for number in range(2)
    ]
    assert found(report([*START, *FORGOT, *others, *auc("NPO", 1, 0.9)]))["membership stays"].verdict == "holds"


def test_what_was_not_measured_has_no_case() -> None:
    of = found(report(START))
    assert {name for name, one in of.items() if one.cases} == {"memorized"}
    assert of["membership stays"].summary.startswith("No case: ")
    assert of["utility"].verdict == NOT_MEASURABLE


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
    """A hostile name of a task is escaped."""
    rules = report(START, [contrast("zero", "GA", -0.09, -0.05, node="<b>story</b>")])
    part = report_part(rules, {"GA": {"task aggregate": 0.411, "utility": None}})
    whole = Report("LUME", part.blocks, data=part.data)
    page, text, data = to_html(whole), to_markdown(whole), to_data(whole)
    assert 'id="findings"' in page
    assert page.count('<span class="badge') == len(rules)
    assert "&lt;b&gt;story" in page
    assert "### holds: GA, GD and KL fall to zero on both sides." in text
    assert "<b>story" not in page + text
    zero = next(one for one in data["findings"] if one["name"] == "zero")
    assert (zero["verdict"], zero["counts"][HOLDS]) == (HOLDS, 1)
    assert zero["cases"][0]["evidence"][0]["low"] == -0.09
    assert data["semeval"] == {"GA": {"task aggregate": 0.411, "utility": None}}
    assert "0.411" in page
    assert "unscored" in page


def results_of(levels: dict[str, float], steps: Sequence[Row]) -> tuple[Finding, ...]:
    """Findings where every method's epochs have one regurgitation, one AUC and one utility."""
    rows: list[Row] = []
    for label in METHODS:
        for number in (0, 1):
            at = levels if number else TARGET
            rows += [epoch(label, number, "regurgitation", at["regurgitation"])]
            rows += [epoch(label, number, "membership_auc", at["auc"], **AUC)]
            rows += [epoch(label, number, "utility", at["utility"], node="")]
    return report(rows, steps)


TARGET = {"regurgitation": 0.95, "auc": 0.98, "utility": 0.5}
RETRAINED = {"regurgitation": 0.2, "auc": 0.5, "utility": 0.5}


def test_controls() -> None:
    """Unlearned = target: its own contrasts are a part of the target's, those against others are exactly 0."""
    idle = [contrast("zero", label, 0.83, 0.88) for label in ("GA", "GD", "KL")]
    idle += [contrast("fell", "GD", -0.1, -0.09), contrast("rose", "GD", -0.1, -0.09)]
    idle += [contrast("slower", "NPO", 0.0, 0.0) for _ in range(3)]
    perfect = [contrast("zero", label, 0.08, 0.12) for label in ("GA", "GD", "KL")]
    check_controls(
        nothing=results_of(TARGET, idle),
        everything=results_of(RETRAINED, perfect),
        premises=["memorized"],
        success=["membership falls"],
    )


def test_an_auc_that_stays_says_nothing_where_nothing_was_forgotten() -> None:
    rows = [*START, epoch("NPO", 1, "regurgitation", 0.95), *auc("NPO", 1, 0.9)]
    assert found(report(rows))["membership stays"].verdict == OPEN
