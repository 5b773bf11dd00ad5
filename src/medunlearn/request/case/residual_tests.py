"""Tests of single patients: the ways of asking that found a patient before, and those that still find one.

Every test compares one patient in one way of asking with single patients whom no model saw, so that one who is
remembered cannot hide among others who are forgotten. One family of tests says whether there is anything to forget
and whether anything is left: a way of asking counts for a patient if it found the patient in the model before.
Ways that did not, and patients of earlier requests, are tested all the same, with a small share of the level each.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from medunlearn.request.case.evidence import BatteryCheck, PatientTest
from medunlearn.statistics.intervals import holm

FOUND, BLIND, EARLIER = "found before", "not found before", "earlier requests"
LEVEL_SHARES: Mapping[str, float] = {FOUND: 0.8, BLIND: 0.1, EARLIER: 0.1}
"""Share of the level for each group of tests, so that all of them together keep it (Bonferroni)."""


class ResidualTest(NamedTuple):
    """One patient in one way of asking."""

    check: BatteryCheck
    patient: PatientTest

    @property
    def key(self) -> tuple[str, str]:
        return self.check.name, self.patient.patient


def patient_tests(checks: Iterable[BatteryCheck]) -> Iterator[ResidualTest]:
    """Every test of a patient, without the means over several checks."""
    for check in checks:
        if not check.mean_of:
            yield from (ResidualTest(check, patient) for patient in check.patients)


def found_before(checks: Iterable[BatteryCheck], alpha: float) -> frozenset[tuple[str, str]]:
    """Check and patient of every test of this request that found the patient in the model before, after Holm's
    correction over all of them.
    """
    tests = [test for test in patient_tests(checks) if test.check.concerns == "this request"]
    tested = [(test, test.patient.p_before) for test in tests if test.patient.p_before is not None]
    corrected = holm([p for _, p in tested])
    return frozenset(test.key for (test, _), p in zip(tested, corrected, strict=True) if p < alpha)


def residuals(checks: Sequence[BatteryCheck], alpha: float) -> list[ResidualTest]:
    """The tests that find more of a patient than of one whom no model saw, by more than the margin.

    Holm's correction over the tests of each group, at its share of the level.
    """
    before = found_before(checks, alpha)
    groups: dict[str, list[tuple[ResidualTest, float]]] = {}
    for test in patient_tests(checks):
        group = FOUND if test.key in before else BLIND
        if test.check.concerns == "earlier requests":
            group = EARLIER
        if test.patient.p is not None:
            groups.setdefault(group, []).append((test, test.patient.p))
    total = sum(LEVEL_SHARES[group] for group in groups)
    findings = []
    for group, tests in groups.items():
        corrected = holm([p for _, p in tests])
        level = alpha * LEVEL_SHARES[group] / total
        findings += [test for (test, _), p in zip(tests, corrected, strict=True) if p < level and is_above(test)]
    return findings


def is_above(test: ResidualTest) -> bool:
    """True for an excess above the margin, or one without a value."""
    comparison, excess = test.check.comparison, test.patient.excess
    return comparison is None or excess is None or excess > comparison.margin
