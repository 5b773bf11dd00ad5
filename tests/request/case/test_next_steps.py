"""Next steps: each sentence where its case is given, and nowhere else."""

from __future__ import annotations

import re
from typing import Any

import pytest
from case_evidence import EARLIER_PATIENT, PATIENT, case_evidence, checked, mean_of, measured

from medunlearn.config import ForgetSettings
from medunlearn.reports.markdown import to_markdown
from medunlearn.request.case import next_steps as steps
from medunlearn.request.case.evidence import (
    Battery,
    BatteryCheck,
    CaseEvidence,
    CostReading,
    ExactDeletion,
    FactCoverage,
    LedgerDigest,
    PatientTest,
    UntestedFacts,
)
from medunlearn.request.case.next_steps import next_steps
from medunlearn.request.case.officer_page import officer_report

FOUND = {"p": 1e-5, "excess": measured(0.4, 0.3, 0.5)}
CLOSING = "Test again after any further training"
SENTENCES = {name: value for name, value in vars(steps).items() if name.isupper() and isinstance(value, str)}


def case(*checks: BatteryCheck, costs: tuple[CostReading, ...] | None = None, **more: Any) -> CaseEvidence:
    """A case of checks with the mean over them, unless one is given."""
    battery = {name: more.pop(name) for name in ("problems", "coverage", "baseline_fault") if name in more}
    compared = [check for check in checks if check.comparison is not None and check.concerns == "this request"]
    means = [] if any(check.mean_of for check in checks) or not compared else [mean_of(*compared)]
    more |= {} if costs is None else {"costs": costs}
    return case_evidence(battery=Battery(name="b", version="1", checks=(*means, *checks), **battery), **more)


def names(evidence: CaseEvidence) -> set[str]:
    """Names of the sentences said; the test date has none."""
    said = next_steps(evidence)
    known = {name for name, sentence in SENTENCES.items() for step in said if step.endswith(sentence)}
    assert sum(step.endswith(tuple(SENTENCES.values())) or step.startswith(CLOSING) for step in said) == len(said)
    return known | ({"again"} if any(step.startswith(CLOSING) for step in said) else set())


def with_mean(value: float, high: float | None, **more: Any) -> tuple[BatteryCheck, BatteryCheck]:
    check = checked(**more)
    return mean_of(check, excess=measured(value, None if high is None else value - 0.1, high)), check


def coverage(tested: int, *reasons: str) -> FactCoverage:
    untested = tuple(UntestedFacts(kind="date", type="", reason=reason, number=3) for reason in reasons)
    return FactCoverage(patient=PATIENT, tested=tested, facts=tested + 3, untested=untested)


def invented(**more: Any) -> BatteryCheck:
    return checked(baseline="invented patients", **more)


EXACT = ExactDeletion(road="retrained without her", reproduced="another", base="recorded")
LOST = CostReading(
    name="x", title="t", group="other patients", measure="m", higher_is_better=True,
    before=measured(0.9), after=measured(0.4), floor=0.95,
)  # fmt: skip
NOT_DRAWN = "more facts than are asked for (--facts, --build.questions, --build.clozes)"
ONE_EARLIER = LedgerDigest(rows=1, head="ab" * 32)


@pytest.mark.parametrize(
    ("evidence", "verdict", "expected"),
    [
        (case(checked()), "no residual found", {"DESTROY", "again"}),
        (case(checked(), costs=()), "no residual found", {"MEASURE_OTHERS"}),
        (case(checked(), costs=(LOST,)), "no residual found", {"GENTLER"}),
        (case(checked(**FOUND)), "residual found", {"GO_ON", "EXACT"}),
        (case(invented(**FOUND)), "residual found", {"GO_ON", "EXACT", "REAL_NOTES"}),
        (case(checked(**FOUND), costs=(LOST,)), "residual found", {"BEGIN_AGAIN", "EXACT"}),
        (case(*with_mean(0.2, 0.3), costs=(LOST,)), "inconclusive", {"BEGIN_AGAIN", "EXACT"}),
        (case(*with_mean(-0.3, -0.2), costs=(LOST,)), "inconclusive", {"TOO_FAR", "GENTLER"}),
        (case(checked(**FOUND), method="none"), "residual found", {"TRAIN_ANYWAY"}),
        (case(checked(**FOUND), exact=EXACT), "residual found", {"SAME_TRAINING"}),
        (case(checked(**FOUND), exact=EXACT, costs=(LOST,)), "residual found", {"SAME_TRAINING", "TRAINED_ANEW"}),
        (
            case(checked(), checked("earlier", concerns="earlier requests", **FOUND), ledger=ONE_EARLIER),
            "residual found",
            {"EARLIER"},
        ),
        (case(), "no baseline", {"STRANGERS"}),
        (case(checked(p=None)), "no baseline", {"STRANGERS"}),
        (case(checked(), baseline_fault="they rank at 0.3"), "no baseline", {"NEW_STRANGERS"}),
        (case(invented(), baseline_fault="they rank at 0.3"), "no baseline", {"REAL_NOTES"}),
        (case(checked(), problems=("it repeats one word",)), "inconclusive", {"BROKEN"}),
        (case(checked(), problems=("it repeats one word",), costs=(LOST,)), "inconclusive", {"BROKEN"}),
        (case(checked(), problems=("it repeats",), exact=EXACT), "inconclusive", {"BROKEN_TRAINING"}),
        (case(checked(p_before=0.4)), "inconclusive", {"ASK_OTHERWISE"}),
        (case(checked(p_before=0.4), method="none"), "inconclusive", {"ASK_OTHERWISE", "ANYWAY"}),
        (case(checked(p_before=None)), "inconclusive", {"STRANGERS"}),
        (case(checked(held_out=False)), "inconclusive", {"MORE_FACTS", "OWN_QUESTIONS"}),
        (case(*with_mean(-0.3, -0.2)), "inconclusive", {"TOO_FAR"}),
        (case(*with_mean(0.02, 0.3)), "inconclusive", {"MORE_FACTS", "OWN_QUESTIONS"}),
        (case(*with_mean(0.08, 0.3)), "inconclusive", {"MORE_FACTS", "OWN_QUESTIONS", "GO_ON", "EXACT"}),
        (case(*with_mean(0.2, 0.3)), "inconclusive", {"GO_ON", "EXACT"}),
        (case(*with_mean(0.01, None)), "inconclusive", {"STRANGERS"}),
        (
            case(*with_mean(0.02, 0.3, baseline="invented patients")),
            "inconclusive",
            {"MORE_FACTS", "OWN_QUESTIONS", "REAL_NOTES"},
        ),
        (
            case(checked(), checked("b", p=0.04, p_before=0.3, excess=measured(0.2, 0.01, 0.4))),
            "inconclusive",
            {"GO_ON", "EXACT"},
        ),
        (
            case(checked(), checked("b", p=None, unseen=measured(0.30, None, None, n=1))),
            "inconclusive",
            {"STRANGERS"},
        ),
        (case(checked(), coverage=(coverage(3, "others have it"),)), "inconclusive", {"OWN_QUESTIONS"}),
        (case(checked(), coverage=(coverage(3, NOT_DRAWN),)), "inconclusive", {"MORE_FACTS", "OWN_QUESTIONS"}),
        (case(checked(), coverage=(coverage(4, NOT_DRAWN),)), "no residual found", {"DESTROY", "again"}),
        (case(checked(p_before=0.4), exact=EXACT), "inconclusive", {"SAME_TRAINING", "ASK_OTHERWISE"}),
    ],
)
def test_each_sentence_stands_where_its_case_is_given(
    evidence: CaseEvidence, verdict: str, expected: set[str]
) -> None:
    assert evidence.decision.verdict == verdict
    assert names(evidence) == expected


def test_an_exact_deletion_has_nothing_to_try() -> None:
    exact = ExactDeletion(road="adapter dropped", reproduced=case_evidence().model_out.fingerprint, base="recorded")
    assert names(case(checked(), exact=exact)) == {"DESTROY", "again"}


def test_patients_who_could_not_be_asked_are_counted() -> None:
    plain = checked()
    never = PatientTest(patient=EARLIER_PATIENT, value=0.5, n=40, excess=0.0, p=0.5, p_before=0.4)
    both = plain.model_copy(update={"patients": (*plain.patients, never)})
    request = case_evidence().request.model_copy(update={"patients": (PATIENT, EARLIER_PATIENT)})
    (step,) = next_steps(case(both, request=request))
    assert step.startswith("No way of asking found 1 patient of 2 in the model before. Ask in other ways")


def test_the_page_says_them_below_the_verdict_and_the_day_of_the_next_test() -> None:
    evidence = case(checked())
    text = " ".join(to_markdown(officer_report(evidence, "ab" * 32, "cd" * 32)).split())
    assert text.index("What to do next") < text.index("What was asked and what was done")
    assert "at the latest on 2027-03-09: `medunlearn verify MODEL case/ --work FOLDER`" in text
    assert all(" ".join(step.split()) in text for step in next_steps(evidence))


def test_flags_of_the_sentences_exist() -> None:
    flags = {name for text in SENTENCES.values() for name in re.findall(r"--([a-z][a-z-]*)", text)}
    assert {flag.replace("-", "_") for flag in flags} - {*ForgetSettings.model_fields} == {"out"}
    assert all("--budget 6" in SENTENCES[name] for name in ("GO_ON", "BEGIN_AGAIN"))
    assert "(16 unless" in SENTENCES["MORE_FACTS"]
