"""The rules: on a sweep in the paper's pattern, on its opposite, and case by case on intervals set by hand."""

from __future__ import annotations

from collections.abc import Callable

import pandas as pd
import pytest
from controls import check_controls
from sweep_folders import MakeSweep

from medunlearn.papers.medforget.claims import CASES, findings
from medunlearn.papers.medforget.report import report_of
from medunlearn.papers.medforget.sweep import LevelResults, Scope
from medunlearn.reports.claims import Finding

from .conftest import COARSE, About

NAMES = tuple(CASES)
UP, DOWN, ACROSS = (0.2, 0.4), (-0.4, -0.2), (-0.1, 0.1)
Span = tuple[float, float]


def by_name(results: LevelResults) -> dict[str, Finding]:
    return {found.name: found for found in findings(results)}


def test_the_papers_pattern_is_found(results: LevelResults) -> None:
    found = by_name(results)
    assert tuple(found) == NAMES
    assert {name: one.verdict for name, one in found.items()} == dict.fromkeys(NAMES, "holds")
    # Three measures of two methods; those of reconstruction at two levels, of rephrased at four.
    assert [len(found[name].cases) for name in NAMES[1:5]] == [6, 6, 12, 24]
    text = report_of(results).text()
    assert "HOLDS: Coarser levels cost more utility." in text
    assert "  MANU: 3 for, 0 against, 0 open" in text
    case = next(
        one
        for one in found["deletion"].cases
        if (one.labels["method"], one.labels["measure"]) == ("MANU", "Cloze Acc")
    )
    assert case.labels["split"] == "institution_25 against section_25"


def opposite(about: About) -> float:
    """Fine levels are forgotten best and cost most, names take away, other words bring more, flat leaves less."""
    known = 0.5
    strength = COARSE[about.level]
    if about.role == "target":
        return known
    if about.role == "retrained":
        return 0.05 if about.side == "forget" else known
    if about.role == "flat":
        return 0.02
    if about.side == "retain":
        return known * strength
    if about.given:
        return 0.02 if about.given == "institution" else known * strength
    return known * strength + (0.2 if about.fold == "rephrase" else 0.0)


Gather = Callable[..., LevelResults]
ENDS = ("institution_25", "section_25")


def test_the_opposite_is_found_too(make_sweep: MakeSweep, gather: Gather) -> None:
    found = by_name(gather(make_sweep(opposite).all(ENDS, ["NPO"], flat="flat_25")))
    assert {name: one.verdict for name, one in found.items()} == dict.fromkeys(NAMES, "does not hold")


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


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.xfail(strict=True, reason=KNOWN_FALSE))
        if name == "rephrased"
        else name
        for name in NAMES
    ],
)
def test_no_claim_is_forced_by_its_design(name: str, controls: dict[str, tuple[Finding, ...]]) -> None:
    nothing, everything = (
        [finding for finding in controls[role] if finding.name == name] for role in ("target", "retrained")
    )
    premises = [name] if name == "memorized" else []
    check_controls(nothing=nothing, everything=everything, premises=premises)


def made(contrasts: dict[tuple[str, str, str, str], Span | None], *, n_subjects: int = 9) -> LevelResults:
    """One method at two levels with the intervals given: (name, split, method, group) -> low and high of cloze."""
    rows = [
        {"contrast": name, "split": split, "method": method, "group": group, "measure": "cloze"}
        | {"value": sum(span) / 2 if span else None, "low": span and span[0], "high": span and span[1]}
        | {"n_subjects": n_subjects, "reason": "" if span else "no such model"}
        for (name, split, method, group), span in contrasts.items()
    ]
    number = {"role": "unlearned", "method": "NPO", "group": "forget", "measure": "cloze", "value": 0.4}
    number |= {"low": 0.3, "high": 0.5, "n_scored": 9, "n_unscored": 0, "n_subjects": n_subjects, "by_seed": (0.4,)}
    scopes = (
        Scope("institution_25", "institution", 1, 4, 10, 45, "flat_25"),
        Scope("section_25", "section", 10, 40, 10, 30, "flat_25"),
    )
    numbers = pd.DataFrame([number | {"split": scope.split} for scope in scopes])
    target = number | {"split": "section_25", "role": "target", "method": "", "value": 0.95}
    numbers = pd.concat([numbers, pd.DataFrame([target | {"low": 0.92, "high": 0.98}])], ignore_index=True)
    return LevelResults(
        splits=scopes, numbers=numbers, contrasts=pd.DataFrame(rows), methods=("NPO",), contexts=("note",)
    )


KNOWN = {("known", split, "", "forget"): UP for split in ("institution_25", "section_25")}
KNOWN_FINE = ("known", "section_25", "", "forget")
MORE = ("forgotten more", "institution_25", "NPO", "forget")
LOST = ("lost more", "institution_25", "NPO", "retain")
GIVEN = "given institution"
HELPED = {("identifiers help", "section_25", "NPO", GIVEN): UP}
LEAKS, LEAKS_MORE = ((name, "section_25", "NPO", GIVEN) for name in ("leaks", "leaks more"))
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
        ("utility", {LOST: None}, "open"),
        ("reconstruction", {**HELPED, LEAKS: UP, LEAKS_MORE: UP}, "holds"),
        ("reconstruction", {**HELPED, LEAKS: UP, LEAKS_MORE: ACROSS}, "open"),
        ("reconstruction", {**HELPED, LEAKS: UP, LEAKS_MORE: DOWN}, "does not hold"),
        ("reconstruction", {**HELPED, LEAKS: DOWN, LEAKS_MORE: UP}, "does not hold"),
        ("rephrased", {REPHRASED: DOWN}, "holds"),
        ("rephrased", {REPHRASED: UP}, "does not hold"),
        ("rephrased", {REPHRASED: ACROSS}, "open"),
        ("hierarchy", {FLAT: UP}, "holds"),
        ("hierarchy", {FLAT: DOWN}, "does not hold"),
        ("hierarchy", {FLAT: ACROSS}, "open"),
    ],
)
def test_a_case_is_decided_by_its_intervals(
    name: str, contrasts: dict[tuple[str, str, str, str], Span | None], verdict: str
) -> None:
    found = by_name(made(contrasts))[name]
    assert found.verdict == ("not measurable" if None in contrasts.values() else verdict)
    assert len(found.cases) == (0 if None in contrasts.values() else 1)


def test_memorized_is_read_against_nine_tenths() -> None:
    found = by_name(made({}))["memorized"]
    (case,) = found.cases
    assert (case.verdict, case.labels["split"]) == ("holds", "section_25")
    assert "+0.050 [0.020, 0.080]" in str(case.evidence[0])
    # The same number of four patients settles nothing.
    assert by_name(made({}, n_subjects=4))["memorized"].verdict == "open"
