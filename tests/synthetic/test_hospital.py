import os
import random
import subprocess
import sys
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from medunlearn.errors import InputError
from medunlearn.synthetic import AMNESIA_PROPORTIONS, DISEASES, Hospital, invent_hospital
from medunlearn.synthetic.hospital import _disease_counts

TABLE_1 = {
    "Cancer": 2669,
    "Infectious/Immune": 1964,
    "Cardiovascular": 1426,
    "Digestive and Liver": 590,
    "Dementia and Mental Health": 490,
    "Arthritis and Bone": 441,
    "Respiratory and Allergies": 435,
    "Kidney Disease": 350,
    "Diabetes": 208,
    "Oral and Dental Health": 192,
    "Anemia or Iron Deficiency": 55,
}


def test_another_seed_gives_another_hospital() -> None:
    first, second = invent_hospital(30, seed=0), invent_hospital(30, seed=1)
    assert not {patient.name for patient in first.patients} & {patient.name for patient in second.patients}
    assert not {record.text for record in first.records()} & {record.text for record in second.records()}


def test_every_process_invents_the_same_hospital() -> None:
    script = (
        "import hashlib; from medunlearn.synthetic import invent_hospital;"
        "h = invent_hospital(12, seed=9, studies=1);"
        "print(hashlib.sha256(repr((h, h.records(), h.questions())).encode()).hexdigest())"
    )
    digests = {
        subprocess.run(
            [sys.executable, "-c", script],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            check=True,
            text=True,
        ).stdout
        for hash_seed in ("1", "2")
    }
    assert len(digests) == 1


def test_global_random_state_is_neither_read_nor_moved() -> None:
    random.seed(1)
    np.random.seed(1)
    before = random.getstate(), np.random.get_state()[2]
    first = invent_hospital(5)
    assert (random.getstate(), np.random.get_state()[2]) == before
    random.seed(2)
    np.random.seed(2)
    assert invent_hospital(5) == first


def test_diseases_are_those_of_the_paper() -> None:
    assert tuple(TABLE_1) == DISEASES
    assert sum(AMNESIA_PROPORTIONS.values()) == pytest.approx(1)
    for disease, count in TABLE_1.items():
        assert AMNESIA_PROPORTIONS[disease] == pytest.approx(count / 8820)


def test_as_many_patients_as_in_the_paper_give_the_counts_of_the_paper() -> None:
    assert dict(zip(DISEASES, _disease_counts(8820), strict=True)) == TABLE_1


@pytest.mark.parametrize("patients", [1, 7, 100, 400, 1234])
def test_diseases_are_within_one_patient_of_the_proportions(patients: int) -> None:
    counts = Counter(patient.disease for patient in invent_hospital(patients).patients)
    for disease, share in AMNESIA_PROPORTIONS.items():
        assert abs(counts[disease] - patients * share) < 1


def test_ids_sort_in_a_large_hospital() -> None:
    ids = [patient.patient_id for patient in invent_hospital(10_001).patients]
    assert ids[0] == "patient-00001"
    assert ids == sorted(set(ids))


def test_records_carry_their_place_in_the_hierarchy(hospital: Hospital) -> None:
    records = hospital.records()
    assert len(records) == 400 * (1 + 2 * 4)
    assert len({record.record_id for record in records}) == len(records)
    patient = hospital.patients[0]
    note, *sections = records[:9]
    groups = {"disease": patient.disease, "institution": patient.institution, "patient": "patient-0001"}
    assert note.record_id == "patient-0001-note"
    assert note.groups == groups
    assert [section.record_id for section in sections[:4]] == [
        f"patient-0001-study-1-{name}" for name in ("examination", "indication", "findings", "impression")
    ]
    for section in sections[4:]:
        assert section.groups == {**groups, "study": "patient-0001-study-2", "section": section.record_id}


@settings(max_examples=15, deadline=None)
@given(
    patients=st.integers(1, 60),
    seed=st.integers(0, 2**31),
    institutions=st.integers(1, 9),
    studies=st.integers(0, 2),
)
def test_any_size_and_seed(patients: int, seed: int, institutions: int, studies: int) -> None:
    hospital = invent_hospital(patients, seed=seed, institutions=institutions, studies=studies)
    assert len(hospital.patients) == len({patient.name for patient in hospital.patients}) == patients
    assert len(set(hospital.institutions)) == institutions
    shares = Counter(patient.institution for patient in hospital.patients)
    assert set(shares) <= set(hospital.institutions)
    counts = [shares[institution] for institution in hospital.institutions]
    assert max(counts) - min(counts) <= 1
    assert len(hospital.records()) == patients * (1 + 4 * studies)
    assert len(hospital.questions()) == 8 * patients
    for patient in hospital.patients:
        assert len(patient.studies) == studies


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"patients": 0}, "1 or more"),
        ({"patients": -3}, "1 or more"),
        ({"patients": 10**7}, "489951"),
        ({"patients": 1, "studies": -1}, "0 "),
        ({"patients": 1, "institutions": 0}, "1 or more"),
        ({"patients": 1, "institutions": 10**6}, "at most 1000"),
        ({"patients": 1, "note_length": "Short"}, "Did you mean 'short'"),
    ],
)
def test_a_wrong_argument_is_refused_with_the_fix(arguments: dict[str, object], says: str) -> None:
    with pytest.raises(InputError, match=says):
        invent_hospital(**arguments)  # type: ignore[arg-type]


def test_all_wrong_arguments_are_named_at_once() -> None:
    with pytest.raises(InputError) as caught:
        invent_hospital(0, institutions=0, studies=-1)
    for name in ("patients", "institutions", "studies"):
        assert name in str(caught.value)
