"""The verdict: its rules, and what it says of the numbers that control models would give."""

from __future__ import annotations

from typing import Any, get_args

import pytest
from case_evidence import PATIENT, checked, mean_of, measured

from medunlearn.request.case.evidence import (
    Battery,
    BatteryCheck,
    CaseDecision,
    CostReading,
    ExactDeletion,
    FactCoverage,
    Measurement,
    PatientTest,
    Verdict,
)
from medunlearn.request.case.officer_page import TITLES
from medunlearn.request.case.verdicts import decide

OTHER = "b" * 64


def verdict(*checks: BatteryCheck, problems: tuple[str, ...] = (), **more: Any) -> CaseDecision:
    """The verdict of checks; where no mean over them is given, one that is within the margin is added."""
    own = [check for check in checks if check.concerns == "this request" and check.comparison is not None]
    means = [] if any(check.mean_of for check in checks) or not own else [mean_of(*own)]
    return decide(Battery(name="b", version="1", checks=(*means, *checks), problems=problems), **more)


FOUND = {"p": 1e-5, "excess": measured(0.4, 0.3, 0.5)}


def test_earlier_patients_above_the_few_who_could_be_asked_are_said() -> None:
    few = checked("b", p=None, unseen=measured(0.30, None, None, n=1), concerns="earlier requests")
    decision = verdict(checked(), few)
    assert decision.verdict == "no residual found"
    assert [reason for reason in decision.reasons if "(earlier requests): above the few others" in reason]


def mean_with(excess: Measurement, *checks: BatteryCheck) -> BatteryCheck:
    return mean_of(*(checks or (checked(),)), excess=excess)


@pytest.mark.parametrize(
    ("checks", "expected"),
    [
        ([], "no baseline"),
        ([checked(p=None)], "no baseline"),
        ([checked()], "no residual found"),
        ([checked(**FOUND)], "residual found"),
        # One check that finds her is enough, one that cannot tell takes nothing away.
        ([checked(), checked("b", **FOUND)], "residual found"),
        ([checked(), checked("b", p_before=0.3)], "no residual found"),
        ([checked(), checked("b", p=None)], "no residual found"),
        # A way that found nobody before is no noise where it finds her now.
        ([checked(), checked("b", p_before=0.3, **FOUND)], "residual found"),
        # A single way above the margin, by more than chance, though not enough for a finding among all.
        ([checked(), checked("b", p=0.04, p_before=0.3, excess=measured(0.2, 0.01, 0.4))], "inconclusive"),
        ([checked(), checked("b", p=0.4, p_before=0.3, excess=measured(0.2, -0.5, 0.9))], "no residual found"),
        # A way that asks as much as before, though it could tell the patient from nobody; and one that asks less.
        (
            [checked(), checked("b", p=0.17, p_before=0.2, excess=measured(0.06, -0.2, 0.4), after=measured(0.9))],
            "inconclusive",
        ),
        (
            [checked(), checked("b", p=0.17, p_before=0.2, excess=measured(0.06, -0.2, 0.4), after=measured(0.7))],
            "no residual found",
        ),
        # Or above the few strangers there are, too few to compare with: 0.51 beside 0.30.
        ([checked(), checked("b", p=None, unseen=measured(0.30, None, None, n=1))], "inconclusive"),
        ([checked(), checked("b", p=None, unseen=measured(0.45, None, None, n=1))], "no residual found"),
        # The bound of the mean counts, above and below.
        ([mean_with(measured(0.05, -0.1, 0.2)), checked()], "inconclusive"),
        ([mean_with(measured(-0.3, -0.4, -0.2)), checked()], "inconclusive"),
        ([mean_with(measured(0.01, None, None)), checked()], "inconclusive"),
        # Of each subject by itself: values do not pay for identifiers.
        (
            [
                mean_with(measured(-0.09, -0.2, 0.02)),
                checked(),
                mean_with(measured(0.09, 0.0, 0.18), checked("v", subject="values")),
                checked("v", subject="values"),
            ],
            "inconclusive",
        ),
        # What did not find her before, was chosen on, or was not asked before is no evidence.
        ([checked(p_before=0.3)], "inconclusive"),
        ([checked(p_before=None)], "inconclusive"),
        ([checked(held_out=False)], "inconclusive"),
        # But what was chosen on may find her.
        ([checked(held_out=False, **FOUND)], "residual found"),
        # An excess below the margin is none, however sure that it is not 0.
        ([checked(p=1e-5, excess=measured(0.05, 0.03, 0.07))], "no residual found"),
        # An earlier patient who came back is a residual; their checks alone say nothing of this one.
        ([checked(), checked("b", concerns="earlier requests", **FOUND)], "residual found"),
        ([checked(concerns="earlier requests")], "inconclusive"),
    ],
)
def test_rules(checks: list[BatteryCheck], expected: str) -> None:
    decision = verdict(*checks)
    assert decision.verdict == expected
    assert decision.reasons
    assert all(len(reason.split()) > 3 and reason.endswith(".") for reason in decision.reasons)
    verdicts = {single.verdict for single in decision.patients}
    assert verdicts <= ({expected} if expected != "residual found" else {expected, "no residual found"})


def of_patients(check: BatteryCheck, *tests: PatientTest) -> BatteryCheck:
    return check.model_copy(update={"patients": (*check.patients, *tests)})


def test_the_worst_patient_decides_whatever_the_mean_says() -> None:
    """One remembered among twenty; one whom no check found before; one of whom nothing is known."""
    plain = checked()
    others = [plain.patients[0].model_copy(update={"patient": f"{place:064x}"}) for place in range(19)]
    remembered = PatientTest(patient=OTHER, value=0.99, n=40, excess=0.49, p=1e-6, p_before=1e-7)
    decision = verdict(of_patients(plain, *others, remembered))
    assert decision.verdict == "residual found"
    assert [single.patient for single in decision.patients if single.verdict == "residual found"] == [OTHER]
    assert "1 of 21 patients" in decision.reasons[0]
    never = remembered.model_copy(update={"value": 0.5, "excess": 0.0, "p": 0.5, "p_before": 0.4})
    decision = verdict(of_patients(plain, *others, never))
    assert decision.verdict == "inconclusive"
    assert "1 patient of 21: no check found the patient" in decision.reasons[0]
    silent = verdict(of_patients(plain, *others), patients=[OTHER])
    assert silent.verdict == "inconclusive"
    assert "no probe about the patient could be scored" in silent.reasons[0]


def test_strangers_that_cannot_be_believed_are_no_baseline() -> None:
    for check in (checked(), checked(**FOUND)):
        battery = Battery(name="b", version="1", checks=(check,), baseline_fault="their values rank at 0.31")
        decision = decide(battery)
        assert decision.verdict == "no baseline"
        assert "rank at 0.31" in decision.reasons[0]


def cost(before: float, after: float, **more: Any) -> CostReading:
    facts = {"name": "x", "title": "t", "group": "other patients", "measure": "m", "higher_is_better": True}
    values = {"before": measured(before), "after": measured(after), "floor": 0.95}
    return CostReading(**{**facts, **values, **more})


@pytest.mark.parametrize(
    ("costs", "others"),
    [
        ([], "not measured"),
        ([cost(0.8, 0.8)], "kept"),
        ([cost(0.8, 0.8), cost(0.8, 0.5)], "not kept"),
        ([cost(0.8, 0.8), cost(0.0, 0.0)], "not measured"),
        ([cost(0.8, 0.2, floor=None)], "not measured"),
        ([cost(0.8, 0.8), cost(0.8, 0.3, group="one patient", floor=0.5)], "not kept"),
    ],
)
def test_a_request_is_carried_out_only_if_others_were_kept(costs: list[CostReading], others: str) -> None:
    decision = decide(Battery(name="b", version="1", checks=(mean_of(checked()), checked())), costs)
    assert (decision.verdict, decision.others) == ("no residual found", others)
    assert decision.carried_out is (others == "kept")


def test_many_checks_are_corrected_for_their_number() -> None:
    check = checked(p=0.02, excess=measured(0.2, 0.05, 0.35))
    assert verdict(check).verdict == "residual found"
    assert verdict(check, *(checked(f"c{n}") for n in range(9))).verdict == "inconclusive"


def test_checks_that_could_not_ask_do_not_hide_a_finding() -> None:
    """They have a small level of their own, and leave that of the others as it is."""
    check = checked(p=0.02, excess=measured(0.2, 0.05, 0.35))
    blind = [checked(f"c{n}", p_before=0.5) for n in range(30)]
    assert verdict(check, *blind).verdict == "residual found"


def test_a_broken_model_tells_nothing() -> None:
    for checks in ([checked()], [checked(**FOUND)], []):
        decision = verdict(*checks, problems=("all answers are the same",))
        assert decision.verdict == "inconclusive"
        assert "all answers are the same" in decision.reasons[0]


def test_only_exact_deletion_is_called_deleted() -> None:
    exact = ExactDeletion(road="retrained without her", reproduced="out")
    assert verdict(checked(), exact=exact, models=("in", "out")).verdict == "deleted"
    again = verdict(checked(**FOUND), exact=exact, models=("in", "out"))
    assert again.verdict == "deleted"
    assert "Found all the same" in again.reasons[1]
    stated = exact.model_copy(update={"base": "stated"})
    assert "the model's owner states" in verdict(checked(), exact=stated, models=("in", "out")).reasons[1]
    # Another model the second time, or the model that went in: nothing was shown.
    for models in (("in", "other"), ("out", "out")):
        other = verdict(checked(), exact=exact, models=models)
        assert other.verdict == "no residual found"
        assert "no exact deletion" in " ".join(other.reasons)
    assert "deleted" not in {verdict(*checks).verdict for checks in ([checked()], [], [checked(**FOUND)])}


def test_earlier_requests_that_nobody_tested_are_named() -> None:
    assert "2 earlier requests" in verdict(checked(), earlier=2).reasons[-1]
    tested = verdict(checked(), checked("b", concerns="earlier requests"), earlier=2)
    assert not any("nobody" in reason for reason in tested.reasons)


def test_no_verdict_says_erased() -> None:
    words = " ".join([*get_args(Verdict), *TITLES.values()]).lower()
    assert not any(word in words for word in ("erased", "removed", "gone", "forgotten"))
    assert set(TITLES) == set(get_args(Verdict))


def test_far_below_strangers_is_a_trace_and_no_success() -> None:
    decision = verdict(mean_with(measured(-0.4, -0.5, -0.3)), checked(p=0.999))
    assert decision.verdict == "inconclusive"
    assert any("somebody was removed" in reason for reason in decision.reasons)
    assert verdict(mean_with(measured(-0.09, -0.2, 0.0)), checked(p=0.999)).verdict == "no residual found"


def test_too_few_probes_are_named_with_the_number_that_would_tell() -> None:
    (reason, *_) = verdict(mean_with(measured(0.0, -0.2, 0.2)), checked()).reasons
    assert "40 probes are too few; about 160 such would tell." in reason


def test_earlier_patients_need_not_be_found_in_the_model_that_forgot_them() -> None:
    theirs = checked("b", concerns="earlier requests", p=0.4, p_before=0.5, excess=measured(0.0, -0.3, 0.3))
    decision = verdict(checked(), theirs, earlier=1)
    assert decision.verdict == "no residual found"
    sentence = "no sign that one of 1 came back in 1 check, each patient tested alone."
    assert any(sentence in reason for reason in decision.reasons)


@pytest.mark.parametrize(("tested", "expected"), [(3, "inconclusive"), (4, "no residual found")])
def test_a_verdict_needs_a_number_of_tested_facts(tested: int, expected: str) -> None:
    coverage = FactCoverage(patient=PATIENT, tested=tested, facts=9)
    checks = (mean_of(checked()), checked())
    decision = decide(Battery(name="b", version="1", checks=checks, coverage=(coverage,)))
    assert decision.verdict == expected
    assert ("3 of 9 facts could be tested, and at least 4 are needed" in str(decision.reasons)) is (tested == 3)


@pytest.mark.parametrize(("tested", "expected"), [(0, "inconclusive"), (1, "no residual found")])
def test_values_alone_do_not_say_that_a_patient_is_forgotten(tested: int, expected: str) -> None:
    coverage = FactCoverage(patient=PATIENT, tested=8, facts=20, identifiers=7, identifiers_tested=tested)
    checks = (mean_of(checked()), checked())
    decision = decide(Battery(name="b", version="1", checks=checks, coverage=(coverage,)))
    assert decision.verdict == expected
    assert ("none of 7 identifiers could be tested" in str(decision.reasons)) is (tested == 0)
