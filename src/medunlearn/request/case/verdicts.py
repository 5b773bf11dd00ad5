"""The verdict of a case, computed from its battery by one function.

| verdict | when |
|---|---|
| deleted | exact deletion only: the same training without the patient gives the same model, bit for bit |
| residual found | a check finds an excess above its margin, after Holm's correction over all checks |
| no baseline | nothing was compared with a retrained model, or with patients that no model saw |
| inconclusive | a broken model; no check that found the patient before; or an excess that may be above its margin |
| no residual found | all checks that can tell, taken together, are below the margin, and none is above it alone |

*Taken together* is a separate check (:data:`~.evidence.TOGETHER`), whose upper bound counts: one
patient has few facts of a kind, so the bounds of single ways of asking are wide even where nothing is left. Without
it each bound must be below the margin.

A check *can tell* if its probes were held out from the choice of settings, its excess has an upper bound, and the
same test found the patient in the model before. What was not found before is no evidence of forgetting, and a model
that answers nothing shows nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from medunlearn.reports.formatting import count, decimal, p_text, signed
from medunlearn.request.case.evidence import (
    TOGETHER,
    Battery,
    BatteryCheck,
    Bound,
    CaseDecision,
    Comparison,
    ExactDeletion,
    Verdict,
)
from medunlearn.statistics.intervals import holm


def decide(
    battery: Battery,
    *,
    exact: ExactDeletion | None = None,
    models: tuple[str, str] = ("", ""),
    earlier: int = 0,
) -> CaseDecision:
    """The verdict of a battery.

    Args:
        exact: for a deletion without unlearning, the result of a second training without the patient.
        models: fingerprints of the models before and after.
        earlier: requests in the ledger before this one; the verdict mentions untested ones.
    """
    compared = [(check, check.comparison) for check in battery.checks if check.comparison is not None]
    adjusted_ps = holm([comparison.p for _, comparison in compared])
    residual = [
        check
        for (check, its), p in zip(compared, adjusted_ps, strict=True)
        if p < battery.alpha and (its.excess.value is None or its.excess.value > its.margin)
    ]
    decision = _apply_rules(battery, compared, residual, exact, models)
    if earlier and not any(check.concerns == "earlier requests" for check in battery.checks):
        more = f"{count(earlier, 'earlier request')}: nobody looked whether their patients came back."
        return decision.model_copy(update={"reasons": (*decision.reasons, more)})
    return decision


def _apply_rules(
    battery: Battery,
    compared: Sequence[tuple[BatteryCheck, Comparison]],
    residual: Sequence[BatteryCheck],
    exact: ExactDeletion | None,
    models: tuple[str, str],
) -> CaseDecision:
    if exact is not None and exact.reproduced == models[1] != models[0]:
        return _deletion_decision(exact, residual)
    if battery.problems:
        return _decision("inconclusive", [f"The model is broken: {'; '.join(battery.problems)}."])
    if not compared:
        return _decision(
            "no baseline",
            [
                "Nothing was compared with a retrained model, or with patients that no model saw: what the model "
                "says of the patient cannot be told from what it would say of anybody."
            ],
        )
    if residual:
        return _decision("residual found", [_finding(check) for check in residual], residual)
    return _without_residual(battery, compared, exact)


def _deletion_decision(exact: ExactDeletion, residual: Sequence[BatteryCheck]) -> CaseDecision:
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
    if residual:
        names = ", ".join(map(_check_title, residual))
        reasons.append(f"Found all the same: {names}. Records of others may repeat what the patient's said.")
    return _decision("deleted", reasons, residual)


def _without_residual(
    battery: Battery, compared: Sequence[tuple[BatteryCheck, Comparison]], exact: ExactDeletion | None
) -> CaseDecision:
    earlier = [its for check, its in compared if check.concerns == "earlier requests"]
    compared = [(check, its) for check, its in compared if check.concerns == "this request"]
    unable = {check.name: why for check, its in compared if (why := _cannot_tell(check, its, battery.alpha))}
    able = [check for check, _ in compared if check.name not in unable]
    remarks = [
        f"No evidence, as {why}: {', '.join(_check_title(c) for c, _ in compared if unable.get(c.name) == why)}."
        for why in dict.fromkeys(unable.values())
    ]
    if exact is not None:
        remarks.insert(0, "Training without the patient, run again, gave another model: this is no exact deletion.")
    remarks += [
        f"{check.title}: below a stranger's by more than the margin. Whoever has the model can tell that "
        "somebody was removed."
        for check, its in compared
        if _far_below(its)
    ]
    if earlier:
        remarks.append(_not_come_back(earlier))
    if not able:
        return _decision("inconclusive", ["No check can tell whether anything is left of the patient.", *remarks])
    together = any(check.name == TOGETHER for check in able)
    bounding = [TOGETHER] if together else [check.name for check in able]
    wide = [
        check
        for check, its in compared
        if _above(its.excess.value, its) or (check.name in bounding and _above(its.excess.high, its))
    ]
    # Too few strangers for a bound are no reason to overlook what stands above them.
    margin = max(its.margin for _, its in compared)
    bare = {
        check: f"{_check_title(check)}: above the few others who could be asked, by more than the margin."
        for check in battery.checks
        if _above_strangers(check, margin)
    }
    remarks += [reason for check, reason in bare.items() if check.concerns == "earlier requests"]
    bare = {check: reason for check, reason in bare.items() if check.concerns == "this request"}
    if wide or bare:
        reasons = [
            *(f"{_check_title(check)}: what is left may be above the margin." for check in wide),
            *bare.values(),
        ]
        return _decision("inconclusive", [*reasons, *remarks], wide)
    number = len(able) - together
    able_checks = f"{count(number, 'check')} that found the patient in the model before"
    reason = f"{able_checks} {'finds' if number == 1 else 'find'} no more than the margin now"
    reason += ", taken together, and no check does by itself." if together else "."
    return _decision("no residual found", [reason, *remarks], able)


def _above(excess: float | None, comparison: Comparison) -> bool:
    return excess is not None and excess > comparison.margin


def _above_strangers(check: BatteryCheck, margin: float) -> bool:
    """True for a check that has too few strangers to compare with, and is above those."""
    if check.comparison is not None or check.higher != "more is left" or check.unseen is None:
        return False
    after, strangers = check.after.value, check.unseen.value
    return after is not None and strangers is not None and after - strangers > margin


def _far_below(comparison: Comparison) -> bool:
    """True for an excess significantly below minus the margin."""
    excess = comparison.excess
    if excess.value is None or excess.high is None:
        return False
    return excess.value < -comparison.margin and excess.high < 0


def _not_come_back(comparisons: Sequence[Comparison]) -> str:
    """Sentence on earlier patients without findings, who were found in a model before this one."""
    highs = [its.excess.high for its in comparisons if its.excess.high is not None]
    most = f", and their excess is at most {signed(max(highs))}" if len(highs) == len(comparisons) else ""
    return f"Patients of earlier requests: no sign that one came back in {count(len(comparisons), 'check')}{most}."


def _cannot_tell(check: BatteryCheck, comparison: Comparison, alpha: float) -> str:
    """Reason why a check without a finding is no evidence; "" if it is evidence."""
    if not check.probes.held_out:
        return "the choice of settings saw the probes"
    if comparison.excess.high is None:
        return f"there is no upper bound ({comparison.excess.reason or 'too few ' + comparison.excess.unit})"
    if comparison.p_before is None:
        return "nobody asked the model before"
    if comparison.p_before >= alpha:
        return "the patient was not found in the model before either"
    return ""


def _check_title(check: BatteryCheck) -> str:
    return check.title if check.concerns == "this request" else f"{check.title} (earlier requests)"


def _finding(check: BatteryCheck) -> str:
    whose = "the patient" if check.concerns == "this request" else "a patient of an earlier request, who came back"
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


def _decision(verdict: Verdict, reasons: Sequence[str], checks: Sequence[BatteryCheck] = ()) -> CaseDecision:
    pairs = ((check, check.comparison) for check in checks)
    bounds = tuple(Bound(check=check.name, text=bound_text(check, its)) for check, its in pairs if its is not None)
    return CaseDecision(verdict=verdict, reasons=tuple(reasons), bounds=bounds)
