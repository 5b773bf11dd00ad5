"""Earlier patients who were not asked about are listed as such, and never reassured about."""

from __future__ import annotations

from case_evidence import EARLIER_PATIENT, SECRET, case_evidence, checked

from medunlearn.reports.markdown import to_markdown
from medunlearn.request.case.earlier_patients import MOST_NAMED, SHOWN, not_asked_sentences
from medunlearn.request.case.evidence import Battery, CaseEvidence, EarlierPatients, LedgerDigest
from medunlearn.request.case.officer_page import officer_report
from medunlearn.statistics.rotations import chance_to_find

OTHERS = tuple(sorted(SECRET.pseudonym(f"other {number}") for number in range(20)))


def evidence_with(earlier: EarlierPatients | None) -> CaseEvidence:
    came_back = checked("earlier ranks", concerns="earlier requests", p_before=None)
    battery = Battery(name="b", version="5", checks=(checked(), came_back), earlier=earlier)
    return case_evidence(battery=battery, ledger=LedgerDigest(rows=21, head="ab" * 32))


def test_who_was_not_asked_about_is_listed_with_the_chance_to_have_missed_somebody() -> None:
    asked = EarlierPatients(asked=(EARLIER_PATIENT,), not_asked=OTHERS, absent=("e" * 64,))
    evidence = evidence_with(asked)
    listed, chance, absent = not_asked_sentences(evidence.battery)
    assert all(name[:SHOWN] in listed for name in OTHERS[:MOST_NAMED])
    assert f"{len(OTHERS) - MOST_NAMED} more" in listed
    assert f"{chance_to_find(21, 1, 1):.0%}" in chance
    assert "once in 21 requests" in chance
    assert "e" * SHOWN in absent
    reasons = " ".join(evidence.decision.reasons)
    assert "no sign that one of 1 came back" in reasons
    assert "20 others were not asked about" in reasons
    assert not any(name[:SHOWN] in reasons for name in OTHERS)
    page = to_markdown(officer_report(evidence, "ab" * 32, "cd" * 32))
    assert all(sentence in page for sentence in (listed, chance, absent))


def test_where_everybody_was_asked_about_nothing_is_said_and_where_nobody_was_no_chance_is_given() -> None:
    everybody = EarlierPatients(asked=(EARLIER_PATIENT,))
    assert [*not_asked_sentences(evidence_with(everybody).battery)] == []
    assert [*not_asked_sentences(evidence_with(None).battery)] == []
    (nobody,) = not_asked_sentences(evidence_with(EarlierPatients(not_asked=OTHERS)).battery)
    assert "0 of 20" in nobody
