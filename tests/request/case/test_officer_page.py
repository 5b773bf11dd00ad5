"""The page for the privacy officer: what it says of a request, and what it must not say."""

from __future__ import annotations

from case_evidence import case_evidence, checked, measured

from medunlearn.reports.markdown import to_markdown
from medunlearn.request.case.evidence import Battery, CaseEvidence, LedgerDigest
from medunlearn.request.case.officer_page import officer_report


def page(evidence: CaseEvidence) -> str:
    return " ".join(to_markdown(officer_report(evidence, "ab" * 32, "cd" * 32)).split())


def battery(*checks: object) -> Battery:
    return Battery.model_validate({"name": "b", "version": "1", "checks": checks})


def test_both_ends_of_an_excess_are_bounds_and_no_interval() -> None:
    excess = measured(0.01, -0.02, 0.04, n=12, unit="patients")
    plain = checked(excess=excess, before=measured(0.9), after=measured(0.5), unseen=measured(0.48))
    text = page(case_evidence(battery=battery(plain)))
    assert "Excess at least, at most | p" in text
    assert "+0.010 −0.020, +0.040 | 0.400" in text
    assert "95% confidence each" in text
    assert "brackets" not in text
    assert "A higher number means that more is left." in text
    assert "95% intervals stand in brackets" in page(case_evidence())


def test_where_nothing_was_trained_nobody_says_that_the_model_forgot() -> None:
    unknown = checked(p_before=0.4)
    model = case_evidence().model_in
    evidence = case_evidence(battery=battery(unknown), method="none", settings={}, model_out=model)
    assert evidence.decision.verdict == "inconclusive"
    text = page(evidence)
    assert "nothing was trained: the model is as it was" in text
    assert "so nothing was changed in it" in text
    assert "forgets" not in text
    assert "still knows" not in text


def test_earlier_requests_have_a_table_and_reasons_of_their_own() -> None:
    earlier = checked("earlier ranks", concerns="earlier requests", p_before=0.4)
    evidence = case_evidence(battery=battery(checked(), earlier), ledger=LedgerDigest(rows=1, head="ab" * 32))
    text = page(evidence)
    assert "did one of them come back?" in text
    assert "no sign that one of 1 came back in 1 check" in text
    assert "did one of them come back?" not in page(case_evidence())


def test_what_must_be_destroyed_is_said() -> None:
    text = page(case_evidence())
    assert "The model before still knows the patient" in text
    assert "The work folder beside this case holds notes" in text
    two = page(case_evidence(request=case_evidence().request.model_copy(update={"patients": ("a" * 64, "b" * 64)})))
    assert "The model before still knows these patients" in two
