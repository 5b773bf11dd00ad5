"""The rules: on a sweep in the paper's pattern, on its opposite, and case by case on intervals set by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd
import pytest
from controls import check_controls
from sweep_folders import MakeSweep

from medunlearn.papers.medforget.claims import CASES, findings
from medunlearn.papers.medforget.report import report_of
from medunlearn.papers.medforget.sweep import LevelResults, Scope
from medunlearn.reports.claims import Finding

from .conftest import COARSE, About

UP, DOWN, ACROSS = (0.2, 0.4), (-0.4, -0.2), (-0.1, 0.1)
ENDS = ("institution_25", "section_25")
Gather = Callable[..., LevelResults]


def by_name(results: LevelResults) -> dict[str, Finding]:
    return {finding.name: finding for finding in findings(results)}


def test_the_papers_pattern_is_found(results: LevelResults) -> None:
    found = by_name(results)
    assert {name: one.verdict for name, one in found.items()} == dict.fromkeys(CASES, "holds")
    # Three measures of two methods; those of reconstruction at two levels, of rephrased at four.
    assert [len(found[name].cases) for name in list(CASES)[1:5]] == [6, 6, 12, 24]
    assert {case.labels["split"] for case in found["deletion"].cases} == {"institution_25 against section_25"}
    text = report_of(results).text()
    assert "HOLDS: Coarser levels cost more utility." in text
    assert "  MANU: 3 for, 0 against, 0 open" in text


def opposite(about: About) -> float:
    """Fine levels are forgotten best and cost most, names take away, other words bring more, flat leaves less."""
    known, strength = 0.5, COARSE[about.level]
    if about.role == "target":
        return known
    if about.role == "retrained":
        return 0.05 if about.side == "forget" else known
    if about.role == "flat" or about.given == "institution":
        return 0.02
    return known * strength + (0.2 if about.fold == "rephrase" and about.side == "forget" else 0.0)


def test_the_opposite_is_found_too(make_sweep: MakeSweep, gather: Gather) -> None:
    found = by_name(gather(make_sweep(opposite).all(ENDS, ["NPO"], flat="flat_25")))
    assert {name: one.verdict for name, one in found.items()} == dict.fromkeys(CASES, "does not hold")


def test_without_retrained_or_flat_models_what_needs_them_is_not_measurable(
    make_sweep: MakeSweep, gather: Gather
) -> None:
    found = by_name(gather(make_sweep(attacked=False).all(ENDS, ["NPO"], retrained=False)))
    assert found["reconstruction"].cases == found["hierarchy"].cases == ()
    assert found["hierarchy"].verdict == "not measurable"
    # Whether there was something to forget is not asked where there is no retrained model.
    assert found["deletion"].verdict == "holds"


@pytest.fixture(scope="module")
def controls(make_sweep: MakeSweep, gather: Gather) -> dict[str, tuple[Finding, ...]]:
    """Findings where every unlearned model gives the target's, or the retrained model's, scores."""
    return {
        role: findings(gather(make_sweep(imitate=role).all(ENDS, ["NPO"], flat="flat_25")))
        for role in ("target", "retrained")
    }


KNOWN_FALSE = (
    "A model that did nothing answers rephrased questions worse too; the rule is to be read against the target."
)
FORCED = pytest.mark.xfail(strict=True, reason=KNOWN_FALSE)


@pytest.mark.parametrize("name", [pytest.param(n, marks=[FORCED] if n == "rephrased" else []) for n in CASES])
def test_no_claim_is_forced_by_its_design(name: str, controls: dict[str, tuple[Finding, ...]]) -> None:
    nothing, everything = (
        [finding for finding in controls[role] if finding.name == name] for role in ("target", "retrained")
    )
    check_controls(nothing=nothing, everything=everything, premises={name} & {"memorized"})


def made(contrasts: dict[tuple[str, str, str, str], Any], *, n_subjects: int = 9) -> LevelResults:
    """One method at two levels with the intervals given: (name, split, method, group) -> low and high of cloze."""
    rows = [
        {"contrast": name, "split": split, "method": method, "group": group, "measure": "cloze"}
        | {"value": sum(span) / 2 if span else None, "low": span and span[0], "high": span and span[1]}
        | {"n_subjects": n_subjects, "reason": "" if span else "no such model"}
        for (name, split, method, group), span in contrasts.items()
    ]
    number = {"split": "section_25", "role": "target", "method": "", "group": "forget", "measure": "cloze"}
    number |= {"value": 0.95, "low": 0.92, "high": 0.98, "n_subjects": n_subjects}
    unlearned = [number | {"split": split, "role": "unlearned", "method": "NPO", "value": 0.4} for split in ENDS]
    scopes = (
        Scope("institution_25", "institution", 1, 4, 10, 45, "flat_25"),
        Scope("section_25", "section", 10, 40, 10, 30, "flat_25"),
    )
    numbers = pd.DataFrame([number, *unlearned])
    return LevelResults(
        splits=scopes, numbers=numbers, contrasts=pd.DataFrame(rows), methods=("NPO",), contexts=("note",)
    )


KNOWN_FINE = ("known", "section_25", "", "forget")
KNOWN = {("known", "institution_25", "", "forget"): UP, KNOWN_FINE: UP}
MORE = ("forgotten more", "institution_25", "NPO", "forget")
LOST = ("lost more", "institution_25", "NPO", "retain")
LEAKS, LEAKS_MORE, HELP = (
    (name, "section_25", "NPO", "given institution") for name in ("leaks", "leaks more", "identifiers help")
)
REPHRASED = ("rephrased over original", "section_25", "NPO", "rephrase")
FLAT = ("flat over hierarchical", "section_25", "NPO", "forget")


@pytest.mark.parametrize(
    ("name", "contrasts", "verdict"),
    [
        ("deletion", {**KNOWN, MORE: UP}, "holds"),
        ("deletion", {**KNOWN, MORE: DOWN}, "does not hold"),
        ("deletion", {**KNOWN, MORE: ACROSS}, "open"),
        ("deletion", {**KNOWN, MORE: UP, KNOWN_FINE: ACROSS}, "open"),
        ("utility", {LOST: UP}, "holds"),
        ("utility", {LOST: DOWN}, "does not hold"),
        ("utility", {LOST: None}, "not measurable"),
        ("reconstruction", {HELP: UP, LEAKS: UP, LEAKS_MORE: UP}, "holds"),
        ("reconstruction", {HELP: UP, LEAKS: UP, LEAKS_MORE: ACROSS}, "open"),
        ("reconstruction", {HELP: UP, LEAKS: UP, LEAKS_MORE: DOWN}, "does not hold"),
        ("reconstruction", {HELP: UP, LEAKS: DOWN, LEAKS_MORE: UP}, "does not hold"),
        ("rephrased", {REPHRASED: DOWN}, "holds"),
        ("rephrased", {REPHRASED: UP}, "does not hold"),
        ("rephrased", {REPHRASED: ACROSS}, "open"),
        ("hierarchy", {FLAT: UP}, "holds"),
        ("hierarchy", {FLAT: DOWN}, "does not hold"),
        ("hierarchy", {FLAT: ACROSS}, "open"),
    ],
)
def test_a_case_is_decided_by_its_intervals(name: str, contrasts: Any, verdict: str) -> None:
    found = by_name(made(contrasts))[name]
    assert found.verdict == verdict
    assert len(found.cases) == (verdict != "not measurable")


def test_memorized_is_read_against_nine_tenths() -> None:
    (case,) = by_name(made({}))["memorized"].cases
    assert (case.verdict, case.labels["split"]) == ("holds", "section_25")
    assert "+0.050 [0.020, 0.080]" in str(case.evidence[0])
    # The same number of four patients settles nothing.
    assert by_name(made({}, n_subjects=4))["memorized"].verdict == "open"
