import re

import pytest

from medunlearn.synthetic import Hospital, invent_hospital
from medunlearn.synthetic.clinical_cases import facts


@pytest.mark.parametrize(
    ("length", "least", "most"), [("short", 70, 102), ("medium", 118, 162), ("long", 235, 305)]
)
def test_notes_have_the_length_that_was_asked_for(length: str, least: int, most: int) -> None:
    records = invent_hospital(300, seed=8, note_length=length).records()  # type: ignore[arg-type]
    words = [len(record.text.split()) for record in records]
    assert least <= min(words)
    assert max(words) <= most


@pytest.mark.parametrize("length", ["short", "medium", "long"])
def test_every_length_tells_every_finding(length: str) -> None:
    hospital = invent_hospital(150, seed=6, note_length=length)  # type: ignore[arg-type]
    for patient, record in zip(hospital.patients, hospital.records(), strict=True):
        text = record.text.lower()
        missing = {key: value for key, value in facts(patient.case).items() if value.lower() not in text}
        assert not missing


def test_sentences_are_whole(hospital: Hospital) -> None:
    for record in hospital.records():
        assert not re.search(r"[{}]|  |\.\.|\bNone\b|\bnan\b", record.text)
        assert record.text.endswith(".")
        assert record.text[0].isupper() or record.text[0].isdigit()
