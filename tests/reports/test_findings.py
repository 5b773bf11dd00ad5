"""The claim machine: what settles a case, how many comparisons were made, and Holm's correction for them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from medunlearn.reports.claims import (
    FAILS,
    HOLDS,
    OPEN,
    Case,
    Evidence,
    Finding,
    comparisons,
    corrected,
    findings_data,
    without_broken,
)
from medunlearn.reports.formatting import interval_note, p_text, share_of_subjects, subjects_for_bounds


def above(p: float | None, **more: object) -> Evidence:
    return Evidence("gain", 0.2, 0.1, 0.3, 30, p=p, **more)  # type: ignore[arg-type]


def found(*cases: Case) -> Finding:
    return Finding("gain", "It gains", "the gain is above 0", cases)


@pytest.mark.parametrize(
    ("evidence", "settled"),
    [
        (Evidence("gain", 0.2, 0.1, 0.3, 5), True),
        (Evidence("gain", 0.2, 0.1, 0.3, 4), None),
        (Evidence("gain", 0.2, -0.1, 0.3, 30), None),
        (Evidence("gain", 0.2, 0.1, 0.3, 30, n_seeds=2), True),
        (Evidence("gain", 0.2, 0.1, 0.3, 30, n_seeds=1), None),
        (Evidence("gain", 0.2, 0.1, 0.3, 19, least_subjects=20), None),
        (Evidence("gain", -0.2, -0.3, -0.1, 30), False),
    ],
)
def test_few_subjects_and_one_training_seed_settle_nothing(evidence: Evidence, settled: bool | None) -> None:
    assert evidence.above is settled
    assert evidence.below is (None if settled is None else not settled)


def test_a_broken_model_decides_nothing_but_what_is_about_collapse() -> None:
    cases = [Case({"run": run}, verdict, "") for run in ("GA", "NPO") for verdict in (HOLDS, FAILS, OPEN)]
    plain = found(*cases)

    def reason(case: Case, context: str) -> str:
        return "GA: all of its answers are empty" if case.labels["run"] == "GA" else ""

    opened, collapse = without_broken([plain, replace(plain, of_collapse=True)], reason)
    assert [case.verdict for case in opened.cases] == [OPEN, OPEN, OPEN, HOLDS, FAILS, OPEN]
    assert opened.cases[0].says == "a broken model decides nothing: GA: all of its answers are empty"
    assert collapse.cases == plain.cases


def test_holms_correction_opens_what_chance_explains() -> None:
    """P-values .01, .02 and .04 of three comparisons become .03, .04 and .04; of 0.03, twice, .06."""
    settled = [found(Case({}, HOLDS, "", (above(p),))) for p in (0.01, 0.02, 0.04)]
    assert [finding.verdict for finding in corrected(settled)] == [HOLDS] * 3
    lost = [found(Case({}, HOLDS, "", (above(0.03),))), found(Case({}, FAILS, "", (above(0.04),)))]
    assert [finding.verdict for finding in corrected(lost)] == [OPEN, OPEN]
    assert [row["verdict_holm"] for row in findings_data(lost)] == [OPEN, OPEN]
    assert [row["verdict"] for row in findings_data(lost)] == [HOLDS, FAILS]


def test_a_settled_case_needs_all_of_its_settled_numbers() -> None:
    weak, strong = above(0.04), above(0.001)
    both = [found(Case({}, HOLDS, "", (strong, weak, above(0.6)))), found(Case({}, FAILS, "", (strong, weak)))]
    # Of three p-values .001, .04 and .6 the second becomes .08. The strong number may be a premise of both.
    assert [finding.verdict for finding in corrected(both)] == [OPEN, OPEN]
    assert [finding.verdict for finding in corrected([found(Case({}, FAILS, "", (strong,)))])] == [FAILS]


def test_numbers_without_a_p_value_stay_as_they_are() -> None:
    mixed = [found(Case({}, HOLDS, "", (above(None),))), found(Case({}, HOLDS, "", (above(0.04), above(0.04))))]
    assert [finding.verdict for finding in corrected(mixed)] == [HOLDS, OPEN]
    text = comparisons(mixed)
    assert "3 comparisons" in text
    assert "(1 have no p-value and stay as they are)" in text
    assert "“It gains” is then open" in text
    assert comparisons([found()]) == ""


@pytest.mark.parametrize(
    ("hits", "text"),
    [
        (0, "0 of 30 patients; at most 11.6% (95%)"),
        (3, "3 of 30 patients; 2.1% to 26.5% (95%)"),
        (30, "30 of 30 patients; at least 88.4% (95%)"),
    ],
)
def test_a_clean_result_is_told_as_a_bound(hits: int, text: str) -> None:
    """1 - 0.025^(1/30) is 11.57%; 3 of 30 as SciPy's binomtest has it."""
    assert share_of_subjects(hits, 30) == text


def test_words_of_few_subjects_and_of_wanted_bounds() -> None:
    assert share_of_subjects(0, 4) == "0 of 4 patients; too few for an interval"
    assert interval_note(None, None, 3) == "3 subjects (too few for an interval)"
    assert interval_note(0.1, 0.2, 30) == "[0.100, 0.200], 30 subjects"
    # (1 - 0.05)^72 is 0.0249, and (1 - 0.01)^368 0.0248; one fewer is above 0.025.
    assert "at most 5% needs 72 patients of whom none leaks, at most 1% needs 368" in subjects_for_bounds()


@pytest.mark.parametrize(
    ("p", "text"), [(0.0421, "0.042"), (0.0009, "9.0e-04"), (1e-12, "< 1e-12"), (1.0, "1.000"), (None, "–")]
)
def test_a_p_value_is_never_shown_as_0(p: float | None, text: str) -> None:
    assert p_text(p) == text
