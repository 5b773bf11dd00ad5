"""The rules: on a sweep in the paper's pattern, on its opposite, and case by case on intervals set by hand."""

from __future__ import annotations

from collections.abc import Callable

import pandas as pd
import pytest

from medunlearn.data.benchmark import Benchmark
from medunlearn.papers.medforget.levels.results import gather_levels
from medunlearn.papers.medforget.report import Finding, LevelContent, Scope, findings, findings_text

from .conftest import COARSE, About, LevelSweep

NAMES = ("memorized", "deletion", "utility", "reconstruction", "rephrased", "hierarchy")
UP, DOWN, ACROSS = (0.2, 0.4), (-0.4, -0.2), (-0.1, 0.1)
Span = tuple[float, float]


def by_name(content: LevelContent) -> dict[str, Finding]:
    return {found.name: found for found in findings(content)}


def test_the_papers_pattern_is_found(content: LevelContent) -> None:
    found = by_name(content)
    assert tuple(found) == NAMES
    assert {name: one.verdict for name, one in found.items()} == dict.fromkeys(NAMES, "holds")
    # Three measures of two methods; those of reconstruction at two levels, of rephrased at four.
    assert [len(found[name].cases) for name in NAMES[1:5]] == [6, 6, 12, 24]
    text = findings_text(content)
    assert "HOLDS: Coarser levels cost more utility." in text
    assert "  MANU: 3 for, 0 against, 0 open" in text
    case = next(one for one in found["deletion"].cases if (one.method, one.measure) == ("MANU", "Cloze Acc"))
    assert case.split == "institution_25 against section_25"


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


def test_the_opposite_is_found_too(make_sweep: Callable[..., LevelSweep], wards: Benchmark) -> None:
    models = make_sweep(opposite).all(levels=("institution", "section"), methods=["NPO"])
    found = by_name(gather_levels("t", models, wards, replicates=100))
    assert {name: one.verdict for name, one in found.items()} == dict.fromkeys(NAMES, "does not hold")


def test_without_retrained_or_flat_models_what_needs_them_is_open(
    make_sweep: Callable[..., LevelSweep], wards: Benchmark
) -> None:
    sweep = make_sweep(attacked=False)
    models = sweep.all(levels=("institution", "section"), methods=["NPO"], retrained=False, flat=False)
    found = by_name(gather_levels("t", models, wards, replicates=100))
    assert found["reconstruction"].cases == found["hierarchy"].cases == ()
    assert found["reconstruction"].summary == "The sweep has no case for it."
    assert found["hierarchy"].verdict == "not measurable at this scale"
    # Whether there was something to forget is not asked where there is no retrained model.
    assert found["deletion"].verdict == "holds"


def made(contrasts: dict[tuple[str, str, str, str], Span | None], *, n_subjects: int = 9) -> LevelContent:
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
    attacked = numbers.head(0).rename(columns={"group": "identifiers"})
    return LevelContent("t", {}, scopes, ("NPO",), (0,), numbers, attacked, pd.DataFrame(rows))


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
        ("deletion", {**KNOWN, MORE: ACROSS}, "not measurable at this scale"),
        ("deletion", {**KNOWN, MORE: UP, KNOWN_FINE: ACROSS}, "not measurable at this scale"),
        ("utility", {LOST: UP}, "holds"),
        ("utility", {LOST: DOWN}, "does not hold"),
        ("utility", {LOST: None}, "not measurable at this scale"),
        ("reconstruction", {**HELPED, LEAKS: UP, LEAKS_MORE: UP}, "holds"),
        ("reconstruction", {**HELPED, LEAKS: UP, LEAKS_MORE: ACROSS}, "not measurable at this scale"),
        ("reconstruction", {**HELPED, LEAKS: UP, LEAKS_MORE: DOWN}, "does not hold"),
        ("reconstruction", {**HELPED, LEAKS: DOWN, LEAKS_MORE: UP}, "does not hold"),
        ("rephrased", {REPHRASED: DOWN}, "holds"),
        ("rephrased", {REPHRASED: UP}, "does not hold"),
        ("rephrased", {REPHRASED: ACROSS}, "not measurable at this scale"),
        ("hierarchy", {FLAT: UP}, "holds"),
        ("hierarchy", {FLAT: DOWN}, "does not hold"),
        ("hierarchy", {FLAT: ACROSS}, "not measurable at this scale"),
    ],
)
def test_a_case_is_decided_by_its_intervals(
    name: str, contrasts: dict[tuple[str, str, str, str], Span | None], verdict: str
) -> None:
    found = by_name(made(contrasts))[name]
    assert found.verdict == verdict
    assert len(found.cases) == (0 if None in contrasts.values() else 1)


def test_memorized_is_read_against_nine_tenths() -> None:
    found = by_name(made({}))["memorized"]
    (case,) = found.cases
    assert (case.verdict, case.split) == ("holds", "section_25")
    assert "+0.050 [0.020, 0.080]" in str(case.evidence[0])
    # The same number of four patients settles nothing.
    assert by_name(made({}, n_subjects=4))["memorized"].verdict == "not measurable at this scale"
