import re
from itertools import combinations
from statistics import mean

import pytest

from medunlearn.synthetic import Hospital, invent_hospital
from medunlearn.synthetic.cases import facts


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


def test_notes_do_not_all_read_the_same(hospital: Hospital) -> None:
    """Strip names, numbers and findings: what is left of a note is its wording."""
    wordings = set()
    notes = [record for record in hospital.records() if record.record_id.endswith("-note")]
    for patient, note in zip(hospital.patients, notes, strict=True):
        text = note.text
        for identifier in note.identifiers:
            text = text.replace(identifier.value, "")
        for value in sorted(facts(patient.case).values(), key=len, reverse=True):
            text = re.sub(re.escape(value), "", text, flags=re.IGNORECASE)
        wordings.add(text.replace(patient.institution, ""))
    assert len(wordings) > 200


def test_patients_of_one_disease_share_more_words_than_others(hospital: Hospital) -> None:
    notes = [record for record in hospital.records() if record.record_id.endswith("-note")][:120]
    words = [set(re.findall(r"[a-z]{4,}", note.text.lower())) for note in notes]
    alike: list[float] = []
    unlike: list[float] = []
    for first, second in combinations(range(len(notes)), 2):
        overlap = len(words[first] & words[second]) / len(words[first] | words[second])
        same = notes[first].groups["disease"] == notes[second].groups["disease"]
        (alike if same else unlike).append(overlap)
    assert mean(alike) > 1.5 * mean(unlike)


def test_leakage_keywords_stand_in_the_notes(hospital: Hospital) -> None:
    """Terms of AMNESIA's Table 7, in the three diseases for which it has seeds."""
    terms = {
        "Cancer": ("metastasis", "lymph node", "adenocarcinoma", "chemotherapy", "tumor"),
        "Cardiovascular": ("troponin", "ejection fraction", "infarct", "embolism", "atrial fibrillation"),
        "Infectious/Immune": ("sepsis", "pneumonia", "tuberculosis", "lupus", "abscess"),
    }
    for disease, wanted in terms.items():
        texts = [r.text.lower() for r in hospital.records() if r.groups["disease"] == disease]
        for term in wanted:
            assert any(term in text for text in texts), term
