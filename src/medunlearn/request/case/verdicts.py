"""The verdict of a case, computed from its battery by one function.

| verdict | when |
|---|---|
| deleted | exact deletion only: the same training without the patient gives the same model, bit for bit |
| no baseline | nothing was compared with patients that no model saw, or these are none that can be believed |
| residual found | one test of one patient finds an excess above its margin (:mod:`.residual_tests`) |
| inconclusive | a broken model; a patient whom no check found before; or something that may be above the margin |
| no residual found | identifiers, values and answers are each below the margin, and no single patient stands out |

The worst patient decides. *Below the margin* is a test at 5% (a one-sided bound) on the mean over the probes of the
ways of asking that found a patient before, for each subject by itself: identifiers never pay for values. Far below
strangers is no success either: whoever has the model can tell by it that somebody was removed.

A check *can tell* if its probes were held out from the choice of settings, and it found the patient in the model
before. What was not found before is no evidence of forgetting, and a model that answers nothing shows nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from medunlearn.reports.formatting import count, decimal, p_text, signed
from medunlearn.request.case.evidence import (
    Battery,
    BatteryCheck,
    Bound,
    CaseDecision,
    Comparison,
    CostReading,
    ExactDeletion,
    OthersKept,
    PatientDecision,
    Verdict,
)
from medunlearn.request.case.residual_tests import ResidualTest, found_before, is_above, residuals

RULES, OLDER_RULES = "5", ("1", "2", "3", "4")
"""Version of the rules below, which a battery names; and those of older versions, which decided otherwise."""
UNCHANGED = 0.8
"""Share of the number before from which a way of asking counts as unchanged."""
LEAST_FACTS = 4
"""Facts of a patient that a verdict needs to have been tested."""


def decide(
    battery: Battery,
    costs: Sequence[CostReading] = (),
    *,
    exact: ExactDeletion | None = None,
    models: tuple[str, str] = ("", ""),
    patients: Sequence[str] = (),
    earlier: int = 0,
) -> CaseDecision:
    """The verdict of a battery.

    Args:
        costs: for others.
        exact: for a deletion without unlearning, the result of a second training without the patient.
        models: fingerprints of the models before and after.
        patients: pseudonyms of the request's patients; of whom no check says anything, nothing is known.
        earlier: requests in the ledger before this one; the verdict mentions untested ones.
    """
    findings = residuals(battery.checks, battery.alpha)
    decision = _apply_rules(battery, findings, patients, exact, models)
    more: dict[str, object] = {"others": others_kept(costs)}
    if earlier and not any(check.concerns == "earlier requests" for check in battery.checks):
        reason = f"{count(earlier, 'earlier request')}: nobody looked whether their patients came back."
        more["reasons"] = (*decision.reasons, reason)
    return decision.model_copy(update=more)


def others_kept(costs: Sequence[CostReading]) -> OthersKept:
    """The verdict on others: kept if every cost with a floor is within it; one without a number shows nothing."""
    within = [cost.within for cost in costs if cost.floor is not None]
    if False in within:
        return "not kept"
    return "kept" if within and None not in within else "not measured"


def _apply_rules(
    battery: Battery,
    findings: Sequence[ResidualTest],
    patients: Sequence[str],
    exact: ExactDeletion | None,
    models: tuple[str, str],
) -> CaseDecision:
    if exact is not None and exact.reproduced == models[1] != models[0]:
        return _deletion_decision(exact, findings)
    if battery.problems:
        return _decision("inconclusive", [f"The model is broken: {'; '.join(battery.problems)}."])
    if not any(check.comparison is not None for check in battery.checks):
        return _decision(
            "no baseline",
            [
                "Nothing was compared with a retrained model, or with patients that no model saw: what the model "
                "says of the patient cannot be told from what it would say of anybody."
            ],
        )
    if battery.baseline_fault is not None:
        reason = f"The patients that no model saw are no baseline: {battery.baseline_fault}."
        return _decision("no baseline", [reason])
    single = [*_patient_decisions(battery, findings, patients)]
    if findings:
        checks = [*dict.fromkeys(test.check.name for test in findings)]
        shown = [check for check in battery.checks if check.name in checks]
        return _decision("residual found", [_finding(check, findings) for check in shown], shown, single)
    return _without_residual(battery, single, exact)


def _deletion_decision(exact: ExactDeletion, findings: Sequence[ResidualTest]) -> CaseDecision:
    reasons = ["The same training without the patient, run again, gives this model bit for bit."]
    if exact.road == "adapter dropped":
        reasons = [
            "The adapter that was trained on the patient was dropped; what is left is bit for bit what was there "
            "before it."
        ]
    if exact.base == "stated":
        reasons.append(
            "That the base under it never saw the patient is what the model's owner states; nobody recorded it."
        )
    checks = {test.check.name: test.check for test in findings}
    if checks:
        names = ", ".join(map(_check_title, checks.values()))
        reasons.append(f"Found all the same: {names}. Records of others may repeat what the patient's said.")
    return _decision("deleted", reasons, [*checks.values()])


def _patient_decisions(
    battery: Battery, findings: Sequence[ResidualTest], patients: Sequence[str]
) -> Iterator[PatientDecision]:
    """The verdict on each patient of the request, from this patient's own numbers."""
    checks = [check for check in battery.checks if check.concerns == "this request"]
    before = found_before(checks, battery.alpha)
    people = dict.fromkeys([*patients, *(test.patient for check in checks for test in check.patients)])
    for patient in people:
        titles = [test.check.title for test in findings if test.patient.patient == patient and test.check in checks]
        if titles:
            reason = f"the model still answers as one that knows the patient: {', '.join(titles)}"
            yield PatientDecision(patient=patient, verdict="residual found", reason=reason)
            continue
        able = [check for check in checks if (check.name, patient) in before and check.probes.held_out]
        doubt = _too_few_facts(battery, patient) if able else _why_not_able(checks, patient)
        for check in checks if able else ():
            for test in check.patients:
                if check.mean_of and test.patient == patient and is_above(ResidualTest(check, test)):
                    doubt = f"{check.title}: above a stranger by more than the margin"
        if doubt:
            yield PatientDecision(patient=patient, verdict="inconclusive", reason=doubt)
        else:
            reason = f"not told from a stranger in {count(len(able), 'check')} that found the patient before"
            yield PatientDecision(patient=patient, verdict="no residual found", reason=reason)


def _too_few_facts(battery: Battery, patient: str) -> str:
    for coverage in battery.coverage:
        if coverage.patient != patient:
            continue
        if coverage.tested < LEAST_FACTS:
            tested = f"{coverage.tested} of {count(coverage.facts, 'fact')} could be tested"
            return f"{tested}, and at least {LEAST_FACTS} are needed"
        if coverage.identifiers and not coverage.identifiers_tested:
            return f"none of {count(coverage.identifiers, 'identifier')} could be tested"
    return ""


def _why_not_able(checks: Sequence[BatteryCheck], patient: str) -> str:
    tests = [test for check in checks for test in check.patients if test.patient == patient]
    if not tests:
        return "no probe about the patient could be scored"
    if all(test.p_before is None for test in tests):
        return "nobody asked the model before, or too few strangers"
    return "no check found the patient in the model before, so that none can tell whether anything is left"


def _without_residual(
    battery: Battery, single: Sequence[PatientDecision], exact: ExactDeletion | None
) -> CaseDecision:
    own = [check for check in battery.checks if check.concerns == "this request"]
    before = {name for name, _ in found_before(own, battery.alpha)}
    means = [check for check in own if check.mean_of]
    bounded = {name for check in means for name in check.mean_of}
    able = [check for check in own if check.name in before and check.probes.held_out]
    remarks = [*_remarks(battery, able, exact)]
    if not able or not means:
        nothing = "No check can tell whether anything is left of the patient."
        return _decision("inconclusive", [nothing, *remarks], (), _doubted(single, nothing))
    doubts, shown = [], list[BatteryCheck]()
    for check in means:
        if reason := _doubt(check):
            doubts.append(reason)
            shown.append(check)
    for check in own:
        if not check.mean_of and _stands_out(check, battery.alpha):
            doubts.append(f"{check.title}: what is left may be above the margin.")
            shown.append(check)
        elif check.name in bounded and _is_unchanged(check):
            doubts.append(f"{check.title}: the model answers nearly as before, and above a stranger.")
            shown.append(check)
    margins = [check.comparison.margin for check in means if check.comparison is not None]
    margin = max(margins, default=0.0)
    doubts += [_bare_text(check) for check in own if _above_strangers(check, margin)]
    uncertain = [decision for decision in single if decision.verdict == "inconclusive"]
    if doubts:
        single = _doubted(single, doubts[0])
    if uncertain:
        reasons = dict.fromkeys(decision.reason for decision in uncertain)
        doubts.append(f"{count(len(uncertain), 'patient')} of {len(single)}: {'; '.join(reasons)}.")
    if doubts:
        return _decision("inconclusive", [*doubts, *remarks], shown, single)
    subjects = " and ".join(check.subject for check in means)
    reason = (
        f"{count(len(able), 'check')} that found the patient in the model before: {subjects} are now within the "
        f"margin of strangers, each by itself, and no test of a single patient finds more."
    )
    return _decision("no residual found", [reason, *remarks], [*means, *able], single)


def _doubted(single: Sequence[PatientDecision], doubt: str) -> list[PatientDecision]:
    """The patients' verdicts where there is a doubt about all of them."""
    update = {"verdict": "inconclusive", "reason": doubt.removesuffix(".")}
    return [one if one.verdict == "inconclusive" else one.model_copy(update=update) for one in single]


def _remarks(battery: Battery, able: Sequence[BatteryCheck], exact: ExactDeletion | None) -> Iterator[str]:
    if exact is not None:
        yield "Training without the patient, run again, gave another model: this is no exact deletion."
    unable = [
        check
        for check in battery.checks
        if check.concerns == "this request" and not check.mean_of and check not in able and check.comparison
    ]
    if unable:
        titles = ", ".join(check.title for check in unable)
        yield f"Could not ask, as they did not find the patient in the model before: {titles}."
    earlier = [check for check in battery.checks if check.concerns == "earlier requests"]
    tested = [check for check in earlier if any(test.p is not None for test in check.patients)]
    if tested:
        number, checks = len({test.patient for check in tested for test in check.patients}), len(tested)
        left_out = 0 if battery.earlier is None else len(battery.earlier.not_asked)
        rest = f" {count(left_out, 'other')} were not asked about this time." if left_out else ""
        yield (
            f"Patients of earlier requests: no sign that one of {number} came back in {count(checks, 'check')}, "
            f"each patient tested alone.{rest}"
        )
    margins = [check.comparison.margin for check in battery.checks if check.comparison is not None]
    yield from (_bare_text(check) for check in earlier if _above_strangers(check, max(margins)))


def _doubt(check: BatteryCheck) -> str:
    """Reason why a mean over ways of asking does not show that a patient is like a stranger; "" if it does."""
    comparison = check.comparison
    value, high = (None, None) if comparison is None else (comparison.excess.value, comparison.excess.high)
    if comparison is None or value is None or high is None:
        return f"{check.title}: there is no upper bound, since too few strangers could be asked."
    margin = comparison.margin
    if value < -margin and high < 0:
        return (
            f"{check.title}: below strangers by more than the margin. Whoever has the model can tell by it that "
            "somebody was removed."
        )
    if high <= margin:
        return ""
    reason = f"{check.title}: what is left may be above the margin."
    if value < margin / 2:
        needed = math.ceil(check.probes.n * ((high - value) / (margin - max(0.0, value))) ** 2)
        reason += f" {count(check.probes.n, 'probe')} are too few; about {needed} such would tell."
    return reason


def _stands_out(check: BatteryCheck, alpha: float) -> bool:
    """True for a way of asking that is above the margin by more than chance, taken by itself."""
    comparison = check.comparison
    if comparison is None or comparison.excess.value is None:
        return False
    return comparison.excess.value > comparison.margin and comparison.p < alpha


def _is_unchanged(check: BatteryCheck) -> bool:
    """True for a way that answers about as much as before, above strangers by half the margin.

    Too few facts for a test can hide that nothing was forgotten here. Only ways that may have found the patient are
    asked: what says the same of everybody is unchanged, too.
    """
    before, after, comparison = check.before.value, check.after.value, check.comparison
    if comparison is None or comparison.excess.value is None or before is None or after is None:
        return False
    return comparison.excess.value > comparison.margin / 2 and after >= UNCHANGED * before


def _above_strangers(check: BatteryCheck, margin: float) -> bool:
    """True for a check that has too few strangers to compare with, and is above those."""
    if check.comparison is not None or check.higher != "more is left" or check.unseen is None:
        return False
    after, strangers = check.after.value, check.unseen.value
    return after is not None and strangers is not None and after - strangers > margin


def _bare_text(check: BatteryCheck) -> str:
    return f"{_check_title(check)}: above the few others who could be asked, by more than the margin."


def _check_title(check: BatteryCheck) -> str:
    return check.title if check.concerns == "this request" else f"{check.title} (earlier requests)"


def _finding(check: BatteryCheck, findings: Sequence[ResidualTest]) -> str:
    number = len({test.patient.patient for test in findings if test.check.name == check.name})
    whose = "the patient" if len(check.patients) == 1 else f"{number} of {len(check.patients)} patients"
    if check.concerns == "earlier requests":
        whose = f"{count(number, 'patient')} of earlier requests, who came back"
    return f"{check.title}: the model answers as one that knows {whose}."


def bound_text(check: BatteryCheck, comparison: Comparison) -> str:
    """``excess +0.012, at least -0.004, at most +0.031, over the retrained model, margin 0.050, p = 0.31``, with n.

    Both ends are one-sided bounds.
    """
    excess = comparison.excess
    ends = [
        f"{name} {signed(end)}"
        for name, end in (("at least", excess.low), ("at most", excess.high))
        if end is not None
    ]
    value = "not measured" if excess.value is None else signed(excess.value)
    before = "" if comparison.p_before is None else f" ({p_text(comparison.p_before)} before)"
    over = "the retrained model" if comparison.baseline == "retrained model" else comparison.baseline
    others = count(excess.n, excess.unit.removesuffix("s"))
    parts = (
        f"excess {value}",
        *ends,
        f"over {over}",
        f"margin {decimal(comparison.margin)}",
        f"p = {p_text(comparison.p)}{before}",
        f"beside {others}" if excess.unit == "patients" else others,
    )
    return ", ".join(parts)


def _decision(
    verdict: Verdict,
    reasons: Sequence[str],
    checks: Sequence[BatteryCheck] = (),
    patients: Sequence[PatientDecision] = (),
) -> CaseDecision:
    pairs = ((check, check.comparison) for check in checks)
    bounds = tuple(Bound(check=check.name, text=bound_text(check, its)) for check, its in pairs if its is not None)
    return CaseDecision(verdict=verdict, reasons=tuple(reasons), bounds=bounds, patients=tuple(patients))
