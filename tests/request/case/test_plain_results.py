"""Plain sentences below the verdict: what control models make of them, and what they must not say."""

from __future__ import annotations

from typing import Any

import pytest
from case_evidence import EARLIER_PATIENT, PATIENT, case_evidence, checked, mean_of, measured

from medunlearn.reports.markdown import to_markdown
from medunlearn.request.case.evidence import (
    Baseline,
    Battery,
    BatteryCheck,
    CaseEvidence,
    FactCoverage,
    PatientTest,
)
from medunlearn.request.case.officer_page import officer_report
from medunlearn.request.case.plain_results import coverage_sentence, result_sentences

REASSURING = (
    "says none", "no better than", "found nothing of this patient", "no sign that", "within the margin",
    "Put the new model in place", "not told from a stranger", "as soon as the new model",
)  # fmt: skip
STRANGER = measured(0.50, None, None, n=12, unit="patients")
COUNTED = FactCoverage(patient=PATIENT, tested=9, facts=12)


def page(evidence: CaseEvidence) -> str:
    return " ".join(to_markdown(officer_report(evidence, "ab" * 32, "cd" * 32)).split())


def ranked(subject: str, after: float, **more: Any) -> BatteryCheck:
    title = f"{subject.capitalize()} in direct questions"
    numbers = {"before": measured(0.97), "after": measured(after), "unseen": STRANGER}
    return checked(f"{subject} questions", title=title, subject=subject, **{**numbers, **more})


def spoken(before: float, after: float, unseen: float, kind: str = "direct", **more: Any) -> BatteryCheck:
    numbers = {"before": measured(before), "after": measured(after), "unseen": measured(unseen, n=12)}
    return checked(f"said {kind}", title=f"Values said after {kind}", **numbers, **more)


def case(*checks: BatteryCheck, problems: tuple[str, ...] = (), **more: Any) -> CaseEvidence:
    """A case of checks, with the mean over those of each subject."""
    groups: dict[str, list[BatteryCheck]] = {}
    for check in checks:
        if check.comparison is not None and check.concerns == "this request":
            groups.setdefault(check.subject, []).append(check)
    means = [mean_of(*own, before=own[0].before, after=own[0].after, unseen=STRANGER) for own in groups.values()]
    battery = Battery(name="b", version="1", checks=(*means, *checks), problems=problems, coverage=(COUNTED,))
    return case_evidence(battery=battery, **more)


FOUND = {"p": 1e-6, "excess": measured(0.45, 0.4, 0.5)}
KNOWN = ranked("identifiers", 0.97, **FOUND), ranked("values", 0.95, **FOUND), spoken(0.8, 0.8, 0.02, **FOUND)
FORGOTTEN = ranked("identifiers", 0.52), ranked("values", 0.49), spoken(0.8, 0.0, 0.02)


def one_of_twenty() -> list[BatteryCheck]:
    """One patient remembered among twenty; the mean is that of strangers."""
    checks = []
    for check in FORGOTTEN:
        others = [check.patients[0].model_copy(update={"patient": f"{place:064x}"}) for place in range(18)]
        left = PatientTest(patient=EARLIER_PATIENT, value=0.99, n=40, excess=0.49, p=1e-7, p_before=1e-7)
        checks.append(check.model_copy(update={"patients": (*check.patients, *others, left)}))
    return checks


@pytest.mark.parametrize(
    ("evidence", "verdict"),
    [
        (case(*KNOWN), "residual found"),
        (case(*one_of_twenty()), "residual found"),
        (case(*KNOWN, method="none"), "residual found"),
        (case(*FORGOTTEN, problems=("it repeats one word",)), "inconclusive"),
        (case(*KNOWN, problems=("it repeats one word",)), "inconclusive"),
        (case(spoken(0.0, 0.0, 0.0, p_before=0.5)), "inconclusive"),
        (case(), "no baseline"),
        (case_evidence(battery=Battery(name="b", version="1")), "no baseline"),
        (case(spoken(0.8, 0.0, 0.0, p=None)), "no baseline"),
    ],
)
def test_a_page_that_must_not_reassure_does_not(evidence: CaseEvidence, verdict: str) -> None:
    assert evidence.decision.verdict == verdict
    text = page(evidence)
    assert not [words for words in REASSURING if words in text and words != "not told from a stranger"]
    assert not [words for words in REASSURING if any(words in sentence for sentence in result_sentences(evidence))]


def test_a_model_that_did_nothing() -> None:
    text = page(case(*KNOWN))
    assert "Tested 9 of 12 facts of the notes, in 3 ways of asking. 3 of these found the patient" in text
    assert "Values said after direct: the number of the patient is 0.800, a stranger's 0.020." in text
    assert "Identifiers in direct questions: the number of the patient is 0.970, a stranger's 0.500." in text


def test_the_one_who_is_left_has_her_own_number_and_not_the_mean() -> None:
    sentences = [*result_sentences(case(*one_of_twenty()))]
    assert len(sentences) == 3
    assert all("the patient is 0.990" in sentence for sentence in sentences)


def test_a_model_that_forgot() -> None:
    evidence = case(*FORGOTTEN)
    assert evidence.decision.verdict == "no residual found"
    said, identifiers, values = result_sentences(evidence)
    assert said == "In 40 answers it says none of the true values (before 80%, of strangers 2%)."
    assert identifiers == (
        "It knows the patient's identifiers no better than those of real patients whom it never saw, within the "
        "margin of 0.100: 0.520 beside 0.500."
    )
    assert "0.490 beside 0.500" in values
    text = page(evidence)
    assert text.index("Tested 9 of 12") < text.index("In 40 answers") < text.index("That is no proof")


@pytest.mark.parametrize(
    ("baseline", "words"),
    [
        ("invented patients", "those of invented patients"),
        ("retrained model", "a model never saw that was trained"),
    ],
)
def test_the_baseline_is_named(baseline: Baseline, words: str) -> None:
    check = ranked("values", 0.49, retrained=measured(0.47))
    mean = mean_of(check, after=measured(0.49), unseen=STRANGER, retrained=measured(0.47))
    assert mean.comparison is not None
    mean = mean.model_copy(update={"comparison": mean.comparison.model_copy(update={"baseline": baseline})})
    evidence = case_evidence(battery=Battery(name="b", version="1", checks=(mean, check)))
    (sentence,) = [text for text in result_sentences(evidence) if "patient's values" in text]
    assert words in sentence
    assert sentence.endswith("0.490 beside 0.470." if baseline == "retrained model" else "0.490 beside 0.500.")


def test_what_was_blind_before_is_no_reassurance() -> None:
    blind = spoken(0.0, 0.0, 0.0, p_before=0.6)
    sentences = " ".join(result_sentences(case(ranked("values", 0.49), blind)))
    assert sentences.endswith("so they tell nothing: values in its answers, identifiers among made-up ones.")
    assert "says none" not in sentences


def test_what_is_little_is_not_called_none() -> None:
    (said, *_) = result_sentences(case(*FORGOTTEN[:2], spoken(0.8, 0.004, 0.0)))
    assert "it says less than 1% of the true values" in said
    assert "of strangers none" in said


def test_an_inconclusive_case_says_what_the_model_still_says() -> None:
    low = [check.model_copy(update={"patients": ()}) for check in FORGOTTEN[:2]]
    evidence = case(*low, spoken(0.8, 0.1, 0.02, p_before=0.4))
    assert evidence.decision.verdict == "inconclusive"
    assert [*result_sentences(evidence)] == [
        "In 40 answers it says 10% of the true values (before 80%, of strangers 2%)."
    ]


@pytest.mark.parametrize(
    ("battery", "sentence"),
    [
        ({}, "Nothing was tested: no way of asking gave a number."),
        ({"coverage": (COUNTED,)}, "Nothing was tested: no way of asking gave a number on 12 facts of the notes."),
        (
            {"checks": (checked(p_before=0.5),), "coverage": (COUNTED,)},
            "Tested 9 of 12 facts of the notes, in 1 way of asking. None of these found the patient in the model "
            "before.",
        ),
        (
            {"checks": (checked(),)},
            "Asked in 1 way; how many facts of the notes these test was not counted. 1 of these found the patient "
            "in the model before.",
        ),
    ],
)
def test_the_extent_of_the_test_stands_first(battery: dict[str, Any], sentence: str) -> None:
    evidence = case_evidence(battery=Battery(name="b", version="1", **battery))
    assert coverage_sentence(evidence) == sentence
    assert page(evidence).index(sentence) < page(evidence).index("What to do next")
