"""The rules: on a sweep in the paper's pattern, on its opposite, and case by case on intervals set by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd
import pytest
from controls import check_controls

from medunlearn.papers.amnesia.claims import findings
from medunlearn.papers.amnesia.sweep import Step, SweepResults
from medunlearn.papers.sweeps.report import SweepFacts
from medunlearn.reports.claims import Finding, findings_text

NAMES = (
    "random forgetting",
    "growth with the set",
    "same-disease cost",
    "questions, not notes",
    "leakage and collapse",
)
UP, DOWN, OPEN_ = (0.2, 0.4), (-0.4, -0.2), (-0.1, 0.1)
HALF_WAY, KEPT = "forgetting past half-way", "utility above 0.8 of target"


def by_name(results: SweepResults) -> dict[str, Finding]:
    return {found.name: found for found in findings(results)}


def made(
    contrasts: dict[tuple[str, str, str], tuple[float, float] | None], *, split: str = "random_05"
) -> SweepResults:
    """One method on one split, with the intervals given: (name, fold, kind) -> low and high."""
    rows = [
        {"contrast": name, "context": "note", "split": split, "method": "NPO", "fold": fold, "kind": kind}
        | {
            "measure": "AFE",
            "n_subjects": 9,
            "n_seeds": 1,
            "by_seed": (),
            "reason": "" if span else "no model",
        }
        | {"value": sum(span) / 2 if span else None, "low": span and span[0], "high": span and span[1]}
        for (name, fold, kind), span in contrasts.items()
    ]
    number = {"context": "note", "split": split, "role": "unlearned", "method": "NPO", "group": "all"}
    number |= {
        "side": "forget",
        "fold": "train",
        "kind": "all",
        "measure": "DS",
        "value": 0.0,
        "low": 0.0,
        "high": 0.0,
    }
    number |= {"n_scored": 9, "n_unscored": 0, "n_subjects": 9, "parts": "te", "n_seeds": 1, "by_seed": (0.0,)}
    scope = split.partition("_")[0]
    small = Step(f"{scope}_01", scope, 1, "Cancer", "patient", 5, 50, 20)
    step = Step(split, scope, 5, None if scope == "random" else "Cancer", "patient", 5, 50, 12)
    steps = (step,) if scope == "random" else (small, step)
    numbers = pd.DataFrame([number | {"split": one.split} for one in steps])
    return SweepResults(SweepFacts("t", {}, ("NPO",)), steps, ("note",), numbers, pd.DataFrame(rows))


def test_the_papers_pattern_is_found(results: SweepResults) -> None:
    found = by_name(results)
    assert tuple(found) == NAMES
    assert found["random forgetting"].verdict == "holds"
    assert found["random forgetting"].counts["holds"] == 4
    growth = {case.labels["method"]: case.verdict for case in found["growth with the set"].cases}
    assert growth["RMU"] == "holds"
    assert found["same-disease cost"].verdict == "holds"
    assert {case.labels["method"] for case in found["leakage and collapse"].cases} == {"KL-Min"}
    assert found["leakage and collapse"].verdict == "holds"


def perfect(role: str, method: str, side: str, fold: str, same: bool, scope: str, percent: int) -> float:
    """Every unlearned model is like the retrained one."""
    known = 0.93 if fold == "train" else 0.6
    return 0.25 if side == "forget" and role != "target" else known


def test_the_opposite_is_found_too(make_sweep: Callable[..., Any], gather: Callable[..., SweepResults]) -> None:
    splits = ("random_25", "cancer_05", "cancer_20")
    found = by_name(gather(make_sweep(known=perfect).all(splits, ["rmu"]), 100))
    assert found["random forgetting"].verdict == "does not hold"
    assert found["random forgetting"].cases[0].says == "forgets and keeps utility"
    assert found["growth with the set"].verdict != "holds"
    assert found["same-disease cost"].verdict != "holds"
    assert found["questions, not notes"].verdict == "does not hold"
    assert found["leakage and collapse"].verdict == "not measurable"


@pytest.fixture(scope="module")
def controls(make_sweep: Callable[..., Any], gather: Callable[..., SweepResults]) -> dict[str, tuple[Finding, ...]]:
    """Findings where every unlearned model gives the target's, or the retrained model's, scores."""
    splits = ("random_25", "cancer_05", "cancer_20")
    return {
        role: findings(gather(make_sweep(imitate=role).all(splits, ["rmu", "npo"]), 100))
        for role in ("target", "retrained")
    }


FAILURE = (
    "The claim is that unlearning fails, and a model that did nothing is such a failure (issue 17 redefines it)."
)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.xfail(strict=True, reason=FAILURE))
        if name == "random forgetting"
        else name
        for name in NAMES
    ],
)
def test_no_claim_is_forced_by_its_design(name: str, controls: dict[str, tuple[Finding, ...]]) -> None:
    nothing, everything = (
        [finding for finding in controls[role] if finding.name == name] for role in ("target", "retrained")
    )
    check_controls(nothing=nothing, everything=everything)


@pytest.mark.parametrize(
    ("forgot", "kept", "verdict"),
    [
        (DOWN, UP, "holds"),
        (UP, DOWN, "holds"),
        (UP, UP, "does not hold"),
        (DOWN, DOWN, "does not hold"),
        (OPEN_, UP, "open"),
        (UP, None, "open"),
    ],
)
def test_random_forgetting(forgot: Any, kept: Any, verdict: str) -> None:
    spans = {(HALF_WAY, "train", "all"): forgot, (KEPT, "train", "all"): kept}
    results = made({("forgetting to gain", "train", "all"): UP, **spans})
    assert by_name(results)["random forgetting"].cases[0].verdict == verdict


@pytest.mark.parametrize(
    ("grown", "verdict"),
    [(UP, "holds"), (DOWN, "does not hold"), (OPEN_, "open")],
)
def test_growth(grown: Any, verdict: str) -> None:
    found = by_name(made({("growth of forgetting", "train", "all"): grown}, split="cancer_05"))
    assert found["growth with the set"].verdict == verdict
    assert found["random forgetting"].cases == ()


@pytest.mark.parametrize(
    ("lost", "more", "kept", "verdict"),
    [
        (DOWN, DOWN, UP, "holds"),
        (DOWN, DOWN, DOWN, "does not hold"),
        (UP, DOWN, UP, "does not hold"),
        (DOWN, OPEN_, UP, "open"),
    ],
)
def test_same_disease(lost: Any, more: Any, kept: Any, verdict: str) -> None:
    names = ("lost by same disease", "lost by same more than by other", "utility of others above 0.8 of target")
    spans = {(name, "train", "mean of kinds"): span for name, span in zip(names, (lost, more, kept), strict=True)}
    assert by_name(made(spans, split="cancer_05"))["same-disease cost"].verdict == verdict


@pytest.mark.parametrize(
    ("known", "train", "behind", "verdict", "says"),
    [
        (UP, UP, UP, "holds", "the note is not"),
        (UP, UP, DOWN, "does not hold", "forgotten with them"),
        (UP, UP, OPEN_, "open", "not settled"),
        (UP, OPEN_, UP, "open", "nothing was forgotten"),
        (OPEN_, UP, UP, "open", "nothing to forget on holdout"),
        (None, UP, UP, "open", "no model"),
    ],
)
def test_questions_not_notes(known: Any, train: Any, behind: Any, verdict: str, says: str) -> None:
    results = made(
        {
            ("forgetting to gain", "holdout", "all"): known,
            ("forgetting gained", "train", "all"): train,
            ("holdout gain below half of train gain", "", "all"): behind,
        }
    )
    (case,) = by_name(results)["questions, not notes"].cases
    assert case.verdict == verdict
    assert says in case.says


@pytest.mark.parametrize(
    ("clean", "collapsed", "verdicts"),
    [(UP, UP, ["holds"]), (UP, DOWN, ["does not hold"]), (OPEN_, UP, []), (None, None, [])],
)
def test_leakage(clean: Any, collapsed: Any, verdicts: list[str]) -> None:
    spans = {
        ("leakage below a tenth of target", "train", "all"): clean,
        ("degradation above half", "train", "all"): collapsed,
    }
    cases = by_name(made(spans))["leakage and collapse"].cases
    assert [case.verdict for case in cases] == verdicts


def test_nothing_to_forget_is_open() -> None:
    spans = {(HALF_WAY, "train", "all"): DOWN, (KEPT, "train", "all"): UP}
    nothing = by_name(made({("forgetting to gain", "train", "all"): OPEN_, **spans}))["random forgetting"]
    assert nothing.verdict == "open"
    assert nothing.cases[0].says.startswith("nothing to forget")


def test_the_text_says_verdict_numbers_and_rule(results: SweepResults) -> None:
    text = findings_text(findings(results))
    assert text.count("Rule: ") == 5
    assert "HOLDS: Forgetting patients drawn at random fails or collapses. (closed_book)" in text
    case = results.contrast(HALF_WAY, "closed_book", "random_05", "RMU", "train", "all")
    assert case.value is not None
    assert f"forgetting past half-way −{abs(case.value):.3f} [" in text
