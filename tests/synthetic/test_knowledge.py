import pytest

from medunlearn.synthetic import invent_hospital
from medunlearn.synthetic.knowledge import Condition, Disease, Test, diseases

CONDITIONS = [(disease, condition) for disease in diseases().values() for condition in disease.conditions]
TESTS = [test for disease, condition in CONDITIONS for test in (*disease.tests, *condition.tests)]


@pytest.mark.parametrize("disease", diseases().values(), ids=lambda disease: disease.name)
def test_a_disease_has_enough_to_tell(disease: Disease) -> None:
    assert len(disease.conditions) >= 3
    assert len(disease.tests) >= 4
    for several in (disease.complications, disease.outcomes, disease.comorbidities, disease.advice):
        assert len(several) == len(set(several)) >= 3


@pytest.mark.parametrize(
    "condition", [condition for _, condition in CONDITIONS], ids=lambda condition: condition.name
)
def test_a_condition_has_enough_to_tell(condition: Condition) -> None:
    names = [
        condition.symptoms,
        [test.name for test in condition.tests],
        [treatment.drug for treatment in condition.treatments],
        [finding.finding for finding in condition.imaging],
    ]
    # Anything listed twice would be drawn twice as often, which the bound on guessing excludes.
    for several, least in zip(names, (5, 3, 3, 2), strict=True):
        assert len(several) == len(set(several)) >= least
    assert 18 <= condition.ages[0] < condition.ages[1] <= 88
    for finding in condition.imaging:
        assert "{size}" in finding.finding
        assert "{site}" in finding.finding
        assert len(set(finding.sites)) >= 3


@pytest.mark.parametrize("test", TESTS, ids=lambda test: test.name)
def test_abnormal_treated_and_normal_values_do_not_meet(test: Test) -> None:
    step = 10**test.abnormal.decimals
    least, most = (float(bound) for bound in test.reference.split("-"))
    treated = test.treated.low / step, test.treated.high / step
    abnormal = test.abnormal.low / step, test.abnormal.high / step
    if test.high:
        assert least < most < treated[0] < treated[1] < abnormal[0] < abnormal[1]
    else:
        assert abnormal[0] < abnormal[1] < treated[0] < treated[1] < least < most


def test_no_sentence_can_spoil_a_name_by_its_capital() -> None:
    """A name like eGFR would become EGFR, another thing, at the head of a sentence."""
    heads = [test.name for test in TESTS]
    heads += [treatment.drug for _, condition in CONDITIONS for treatment in condition.treatments]
    heads += [finding for disease, _ in CONDITIONS for finding in (*disease.complications, *disease.outcomes)]
    assert not [head for head in heads if head[0].islower() and head[1].isupper()]


def test_courses_run_forward() -> None:
    for patient in invent_hospital(500, seed=13).patients:
        case = patient.case
        assert 1 <= case.start < case.complication_time < case.outcome_time
        assert case.start < case.repeat_time < case.outcome_time


def test_the_repeat_value_is_nearer_to_normal() -> None:
    for patient in invent_hospital(500, seed=14).patients:
        first, again = patient.case.readings[0], patient.case.repeat
        assert first.test == again.test
        assert (again.value < first.value) == first.high
        assert again.value != first.value


def test_sex_and_age_fit_the_condition() -> None:
    conditions = {condition.name: condition for _, condition in CONDITIONS}
    for patient in invent_hospital(500, seed=15).patients:
        condition = conditions[patient.case.condition]
        assert condition.sex in (None, patient.case.sex)
        assert condition.ages[0] <= patient.case.age <= condition.ages[1]
