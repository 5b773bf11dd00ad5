import re
from datetime import date
from itertools import pairwise

import pytest

from medunlearn.synthetic import Hospital, invent_hospital
from medunlearn.synthetic.identities import _family_names, _given_names

PATTERNS = {
    "ssn": r"\b\d{3}-\d{2}-\d{4}\b",
    "phone": r"\b\d{3}-\d{3}-\d{4} x\d+",
    "email": r"\S+@[\w.]*\w",
    "record_number": r"\bHX-\d+",
    "date": r"\b\d{4}-\d{2}-\d{2}\b",
}


@pytest.fixture(scope="module")
def many() -> Hospital:
    return invent_hospital(8000, seed=1)


@pytest.mark.parametrize("field", ["name", "record_number", "phone", "email", "address", "ssn"])
def test_no_two_patients_share_an_identifier(many: Hospital, field: str) -> None:
    assert len({getattr(patient, field).lower() for patient in many.patients}) == len(many.patients)


def test_numbers_come_from_ranges_that_are_never_given_out(many: Hospital) -> None:
    for patient in many.patients:
        area, group, serial = patient.ssn.split("-")
        # 9xx is no SSN; 50 and above in the middle would be a taxpayer number of somebody.
        assert area == "900"
        assert 1 <= int(group) <= 49
        assert 1 <= int(serial) <= 9999
        assert re.fullmatch(r"[2-9]9\d-555-01\d\d x[1-9]\d\d", patient.phone)
        assert re.fullmatch(r"[a-z]+\.[a-z]+\.\d{3}@example\.(org|net|com)", patient.email)
        assert re.fullmatch(r"HX-\d{6}", patient.record_number)
        assert re.fullmatch(r"[1-9]\d{3} \w+ \w+, [A-Z][\w-]+", patient.address)


def test_there_are_more_than_enough_names() -> None:
    assert len(_given_names("female")) * len(_family_names()) > 489_951
    assert len(_given_names("male")) * len(_family_names()) > 489_951


def test_no_name_hides_in_another() -> None:
    given_names = sorted(name.lower()[::-1] for sex in ("female", "male") for name in _given_names(sex))
    family_names = sorted(name.lower() for name in _family_names())
    for words in (given_names, family_names):
        assert not [word for word, after in pairwise(words) if after.startswith(word)]


def test_ages_fit_birth_dates_and_none_is_beyond_89(hospital: Hospital) -> None:
    for patient in hospital.patients:
        visit = patient.studies[0].date
        birthday_passed = (visit.month, visit.day) >= (patient.birth_date.month, patient.birth_date.day)
        assert visit.year - patient.birth_date.year - (not birthday_passed) == patient.case.age
        assert 18 <= patient.case.age <= 88
        assert patient.birth_date < date(2007, 1, 1)


@pytest.mark.parametrize("length", ["short", "medium", "long"])
def test_an_identifier_is_listed_exactly_when_it_stands_in_the_text(length: str) -> None:
    hospital = invent_hospital(60, seed=2, studies=2, note_length=length)  # type: ignore[arg-type]
    patients = {patient.patient_id: patient for patient in hospital.patients}
    for record in hospital.records():
        patient = patients[record.groups["patient"]]
        own = [patient.name, patient.birth_date.isoformat(), patient.record_number, patient.phone]
        own += [patient.email, patient.address, patient.ssn, *(study.date.isoformat() for study in patient.studies)]
        listed = [identifier.value for identifier in record.identifiers]
        assert sorted(listed) == sorted(value for value in own if value in record.text)


def test_nothing_that_looks_like_an_identifier_is_left_unlisted(hospital: Hospital) -> None:
    for record in hospital.records():
        listed = {identifier.value for identifier in record.identifiers}
        for pattern in PATTERNS.values():
            assert set(re.findall(pattern, record.text)) <= listed


def test_no_record_names_another_patient() -> None:
    hospital = invent_hospital(80, seed=4, studies=1, note_length="long")
    for record in hospital.records():
        for patient in hospital.patients:
            if patient.patient_id != record.groups["patient"]:
                lowered = record.text.lower()
                values = (patient.name, patient.phone, patient.email, patient.ssn, patient.address)
                assert not [value for value in values if value.lower() in lowered]
