"""The rules: on a sweep in the paper's pattern, on its opposite, and case by case on intervals set by hand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pandas as pd
import pytest
from controls import check_controls

from medunlearn.papers.amnesia.claims import CASES, findings
from medunlearn.papers.amnesia.sweep import SizeResults, Step
from medunlearn.reports.claims import Finding, findings_text

UP, DOWN, ACROSS = (0.2, 0.4), (-0.4, -0.2), (-0.1, 0.1)
HALF_WAY, KEPT = "forgetting past half-way", "utility above 0.8 of target"
Gather = Callable[..., SizeResults]


def by_name(results: SizeResults) -> dict[str, Finding]:
    return {finding.name: finding for finding in findings(results)}


def made(contrasts: dict[tuple[str, str, str], Any], *, split: str = "random_05") -> SizeResults:
    """One method on one split, with the intervals given: (name, fold, kind) -> low and high."""
    rows = [
        {"contrast": name, "context": "note", "split": split, "method": "NPO", "fold": fold, "kind": kind}
        | {"n_subjects": 9, "reason": "" if span else "no model"}
        | {"value": sum(span) / 2 if span else None, "low": span and span[0], "high": span and span[1]}
        for (name, fold, kind), span in contrasts.items()
    ]
    scope = split.partition("_")[0]
    step = Step(split, scope, 5, None if scope == "random" else "Cancer", "patient", 5, 50, 12)
    steps = (step,) if scope == "random" else (replace(step, split=f"{scope}_01", percent=1), step)
    number = {"context": "note", "role": "unlearned", "method": "NPO", "group": "all", "side": "forget"}
    number |= {"fold": "train", "kind": "all", "measure": "DS", "value": 0.0, "low": 0.0, "high": 0.0}
    numbers = pd.DataFrame([number | {"split": one.split, "n_subjects": 9} for one in steps])
    return SizeResults(
        splits=steps, numbers=numbers, contrasts=pd.DataFrame(rows), methods=("NPO",), contexts=("note",)
    )


def test_the_papers_pattern_is_found(results: SizeResults) -> None:
    found = by_name(results)
    assert found["random forgetting"].counts["holds"] == 4
    growth = {case.labels["method"]: case.verdict for case in found["growth with the set"].cases}
    assert growth["RMU"] == "holds"
    assert {case.labels["method"] for case in found["leakage and collapse"].cases} == {"KL-Min"}
    for name in ("random forgetting", "same-disease cost", "leakage and collapse"):
        assert found[name].verdict == "holds"
    text = findings_text(findings(results))
    assert text.count("Rule: ") == len(CASES) == 5
    assert "HOLDS: Forgetting patients drawn at random fails or collapses. (closed_book)" in text
    case = results.contrast(HALF_WAY, "closed_book", "random_05", "RMU", "train", "all")
    assert f"forgetting past half-way −{abs(case.value or 0):.3f} [" in text


@pytest.fixture(scope="module")
def controls(make_sweep: Callable[..., Any], gather: Gather) -> dict[str, tuple[Finding, ...]]:
    """Findings where every unlearned model gives the target's, or the retrained model's, scores."""
    splits = ("random_25", "cancer_05", "cancer_20")
    return {
        role: findings(gather(make_sweep(imitate=role).all(splits, ["rmu", "npo"]), 100))
        for role in ("target", "retrained")
    }


def test_the_opposite_is_found_too(controls: dict[str, tuple[Finding, ...]]) -> None:
    found = {finding.name: finding for finding in controls["retrained"]}
    assert found["random forgetting"].cases[0].says == "forgets and keeps utility"
    assert found["growth with the set"].verdict != "holds"
    assert found["same-disease cost"].verdict != "holds"
    for name in ("random forgetting", "questions, not notes"):
        assert found[name].verdict == "does not hold"
    assert found["leakage and collapse"].verdict == "not measurable"


FAILURE = (
    "The claim is that unlearning fails, and a model that did nothing is such a failure (issue 17 redefines it)."
)
FORCED = pytest.mark.xfail(strict=True, reason=FAILURE)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[FORCED] if name == "random forgetting" else []) for name in CASES]
)
def test_no_claim_is_forced_by_its_design(name: str, controls: dict[str, tuple[Finding, ...]]) -> None:
    nothing, everything = (
        [finding for finding in controls[role] if finding.name == name] for role in ("target", "retrained")
    )
    check_controls(nothing=nothing, everything=everything)


ALL = ("train", "all")
TO_GAIN, GAINED, GROWTH = "forgetting to gain", "forgetting gained", ("growth of forgetting", *ALL)
SAME = ("lost by same disease", "lost by same more than by other", "utility of others above 0.8 of target")
BEHIND = ("holdout gain below half of train gain", "", "all")
LEAKS, COLLAPSED = "leakage below a tenth of target", "degradation above half"


def kept(forgot: Any, kept: Any, known: Any = UP) -> Any:
    return {(TO_GAIN, *ALL): known, (HALF_WAY, *ALL): forgot, (KEPT, *ALL): kept}


def same(*spans: Any) -> Any:
    return {(name, "train", "mean of kinds"): span for name, span in zip(SAME, spans, strict=True)}


def notes(known: Any, train: Any, behind: Any) -> Any:
    return {(TO_GAIN, "holdout", "all"): known, (GAINED, *ALL): train, BEHIND: behind}


def leaks(clean: Any, collapsed: Any) -> Any:
    return {(LEAKS, *ALL): clean, (COLLAPSED, *ALL): collapsed}


@pytest.mark.parametrize(
    ("name", "split", "contrasts", "verdict", "says"),
    [
        ("random forgetting", "random_05", kept(DOWN, UP), "holds", "fails"),
        ("random forgetting", "random_05", kept(UP, DOWN), "holds", "collapses"),
        ("random forgetting", "random_05", kept(UP, UP), "does not hold", "forgets and keeps"),
        ("random forgetting", "random_05", kept(DOWN, DOWN), "does not hold", "without forgetting"),
        ("random forgetting", "random_05", kept(ACROSS, UP), "open", "an interval"),
        ("random forgetting", "random_05", kept(UP, None), "open", "an interval"),
        ("random forgetting", "random_05", kept(DOWN, UP, ACROSS), "open", "nothing to forget"),
        ("random forgetting", "cancer_05", {GROWTH: UP}, None, ""),
        ("growth with the set", "cancer_05", {GROWTH: UP}, "holds", "grows"),
        ("growth with the set", "cancer_05", {GROWTH: DOWN}, "does not hold", "shrinks"),
        ("growth with the set", "cancer_05", {GROWTH: ACROSS}, "open", "no growth"),
        ("same-disease cost", "cancer_05", same(DOWN, DOWN, UP), "holds", "others keep"),
        ("same-disease cost", "cancer_05", same(DOWN, DOWN, DOWN), "does not hold", "others lose too"),
        ("same-disease cost", "cancer_05", same(UP, DOWN, UP), "does not hold", "do not lose more"),
        ("same-disease cost", "cancer_05", same(DOWN, ACROSS, UP), "open", "not settled"),
        ("questions, not notes", "random_05", notes(UP, UP, UP), "holds", "the note is not"),
        ("questions, not notes", "random_05", notes(UP, UP, DOWN), "does not hold", "forgotten with them"),
        ("questions, not notes", "random_05", notes(UP, UP, ACROSS), "open", "not settled"),
        ("questions, not notes", "random_05", notes(UP, ACROSS, UP), "open", "nothing was forgotten"),
        ("questions, not notes", "random_05", notes(ACROSS, UP, UP), "open", "nothing to forget on holdout"),
        ("questions, not notes", "random_05", notes(None, UP, UP), "open", "no model"),
        ("leakage and collapse", "random_05", leaks(UP, UP), "holds", "collapsed"),
        ("leakage and collapse", "random_05", leaks(UP, DOWN), "does not hold", "whole output"),
        ("leakage and collapse", "random_05", leaks(ACROSS, UP), None, ""),
        ("leakage and collapse", "random_05", leaks(None, None), None, ""),
    ],
)
def test_a_case_is_decided_by_its_intervals(
    name: str, split: str, contrasts: Any, verdict: str | None, says: str
) -> None:
    cases = by_name(made(contrasts, split=split))[name].cases
    assert [case.verdict for case in cases] == ([verdict] if verdict else [])
    assert all(says in case.says for case in cases)
