"""The verdict: its rules, and what it says of the numbers that control models would give."""

from __future__ import annotations

from typing import Any, get_args

import pytest
from case_evidence import checked, measured

from medunlearn.request.case.evidence import Battery, BatteryCheck, CaseDecision, ExactDeletion, Verdict
from medunlearn.request.case.officer_page import TITLES
from medunlearn.request.case.verdicts import decide


def verdict(*checks: BatteryCheck, problems: tuple[str, ...] = (), **more: Any) -> CaseDecision:
    return decide(Battery(name="b", version="1", checks=checks, problems=problems), **more)


FOUND = {"p": 1e-5, "excess": measured(0.4, 0.3, 0.5)}


def test_earlier_patients_above_the_few_who_could_be_asked_are_said() -> None:
    few = checked("b", p=None, unseen=measured(0.30, None, None, n=1), concerns="earlier requests")
    decision = verdict(checked(), few)
    assert decision.verdict == "no residual found"
    assert [reason for reason in decision.reasons if "(earlier requests): above the few others" in reason]


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
        # Unless it stands above the margin by itself, however uncertain.
        ([checked(), checked("b", p=0.4, p_before=0.3, excess=measured(0.2, -0.5, 0.9))], "inconclusive"),
        # Or above the few strangers there are, too few to compare with: 0.51 beside 0.30.
        ([checked(), checked("b", p=None, unseen=measured(0.30, None, None, n=1))], "inconclusive"),
        ([checked(), checked("b", p=None, unseen=measured(0.45, None, None, n=1))], "no residual found"),
        # Taken together, single bounds may be wide, but no value above the margin.
        ([checked("together"), checked(excess=measured(0.05, -0.1, 0.2))], "no residual found"),
        ([checked("together"), checked(excess=measured(0.15, -0.1, 0.4))], "inconclusive"),
        ([checked("together", excess=measured(0.05, -0.1, 0.2)), checked()], "inconclusive"),
        # What did not find her before, was chosen on, or has no bound is no evidence.
        ([checked(p_before=0.3)], "inconclusive"),
        ([checked(p_before=None)], "inconclusive"),
        ([checked(held_out=False)], "inconclusive"),
        ([checked(excess=measured(0.01, None, None, n=3))], "inconclusive"),
        # But what was chosen on may find her.
        ([checked(held_out=False, **FOUND)], "residual found"),
        # The excess may be above its margin of 0.1; or is surely below it, however sure that it is not 0.
        ([checked(excess=measured(0.05, -0.1, 0.2))], "inconclusive"),
        ([checked(p=1e-5, excess=measured(0.05, 0.03, 0.07))], "no residual found"),
        ([checked(p=1e-5, excess=measured(0.09, 0.03, 0.15))], "inconclusive"),
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
    assert bool(decision.bounds) == (
        expected in ("no residual found", "residual found") or "may be" in str(decision)
    )


def test_many_checks_are_corrected_for_their_number() -> None:
    check = checked(p=0.02, excess=measured(0.2, 0.05, 0.35))
    assert verdict(check).verdict == "residual found"
    assert verdict(check, *(checked(f"c{n}") for n in range(9))).verdict == "inconclusive"


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


@pytest.mark.parametrize(
    ("excess", "is_trace"),
    [
        ((-0.4, -0.5, -0.3), True),
        ((-0.4, -0.7, -0.1), True),
        ((-0.4, -0.8, 0.1), False),
        ((-0.05, -0.08, -0.02), False),
    ],
    ids=["certainly", "not by chance", "perhaps by chance", "within the margin"],
)
def test_less_than_a_stranger_is_a_trace_and_said(excess: tuple[float, float, float], is_trace: bool) -> None:
    decision = verdict(checked(p=0.999, excess=measured(*excess)))
    assert decision.verdict == "no residual found"
    assert any("somebody was removed" in reason for reason in decision.reasons) is is_trace


def test_earlier_patients_need_not_be_found_in_the_model_that_forgot_them() -> None:
    theirs = checked("b", concerns="earlier requests", p=0.4, p_before=0.5, excess=measured(0.0, -0.3, 0.3))
    decision = verdict(checked(), theirs, earlier=1)
    assert decision.verdict == "no residual found"
    sentence = "no sign that one came back in 1 check, and their excess is at most +0.300."
    assert any(sentence in reason for reason in decision.reasons)
