"""A patient's note in one of three lengths.

Every length tells all findings that the questions ask for; longer notes add what real ones add: more
identifiers, further results, vital signs, general knowledge and advice.
"""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np

from medunlearn.synthetic.cases import Case, facts, pick
from medunlearn.synthetic.patients import Patient

NoteLength = Literal["short", "medium", "long"]

NOTE_LENGTHS: tuple[NoteLength, ...] = get_args(NoteLength)

Phrasings = tuple[str, ...]

OPENING: Phrasings = (
    "{name} (born {birth_date}, record {record_number}), a {age}-year-old {person}, came to {institution} after "
    "{onset} of {symptom} and {second_symptom}.",
    "{institution}, record {record_number}. {name}, born {birth_date}, {person} of {age}, reported {symptom} and "
    "{second_symptom} for {onset}.",
    "Record {record_number}: {name}, {age}-year-old {person} (born {birth_date}), presented to {institution} with "
    "{onset} of {symptom} and {second_symptom}.",
)
BRIEF_OPENING: Phrasings = (
    "{name}, born {birth_date}, {record_number}, {institution}: {symptom} and {second_symptom} for {onset}.",
    "{institution}, {record_number}: {name}, born {birth_date}, with {onset} of {symptom} and {second_symptom}.",
    "{record_number}, {name} ({birth_date}), {institution}. {onset} of {symptom} and {second_symptom}.",
)
CONTACTS: Phrasings = ("phone {phone}", "e-mail {email}", "address {address}", "SSN {ssn}")
HISTORY: Phrasings = (
    "There was also {third_symptom}, and a history of {comorbidity}.",
    "History was notable for {comorbidity}, and {third_symptom} had appeared as well.",
    "{third_symptom} had joined lately on a background of {comorbidity}.",
)
VITALS: Phrasings = (
    "On arrival temperature was {temperature} C, pulse {pulse}, blood pressure {pressure} and oxygen "
    "saturation {saturation}%.",
    "Vital signs: {temperature} C, pulse {pulse} per minute, {pressure} mmHg, saturation {saturation}% on air.",
)
RESULTS: Phrasings = (
    "Testing showed {lab} and {second_lab}.",
    "Of note were {lab} and {second_lab}.",
    "The work-up gave {lab} and {second_lab}.",
)
BRIEF_RESULTS: Phrasings = ("{lab}, {second_lab}.", "Tests: {lab}; {second_lab}.", "{lab} with {second_lab}.")
REFERENCES: Phrasings = (
    "The reference ranges are {reference} for the former and {second_reference} for the latter.",
    "Usual values lie at {reference} and {second_reference}, respectively.",
)
FURTHER: Phrasings = (
    "Further results included {third_lab} and {fourth_lab}; the remaining panel was unremarkable.",
    "Also recorded were {third_lab} and {fourth_lab}, with the other results within their limits.",
)
DIAGNOSIS: Phrasings = (
    "{study} revealed {imaging}, and {condition} was diagnosed.",
    "With {imaging} on {study}, the diagnosis was {condition}.",
    "The diagnosis of {condition} rested on {study} with {imaging}.",
)
BRIEF_DIAGNOSIS: Phrasings = (
    "{study}: {imaging}; {condition}.",
    "{condition}, with {imaging} on {study}.",
    "{imaging} on {study}: {condition}.",
)
BACKGROUND: Phrasings = ("{background}", "As background for the family: {background}")
TREATMENT: Phrasings = (
    "{drug} {dose} was begun {start_at}, planned for {course}, to {aim}.",
    "To {aim}, {drug} {dose} was begun {start_at} for {course}.",
    "{start_at}, {drug} {dose} was begun for {course} to {aim}.",
)
BRIEF_TREATMENT: Phrasings = (
    "{drug} {dose} for {course}, begun {start_at} to {aim}.",
    "To {aim}: {drug} {dose} for {course}, begun {start_at}.",
    "{drug} {dose} begun {start_at} for {course} to {aim}.",
)
COUNSEL: Phrasings = (
    "Benefits, risks and alternatives were explained, questions were answered, and consent was given in writing "
    "before the first dose.",
    "The team discussed the plan at its weekly conference; expected benefit and side effects were explained, and "
    "the patient agreed.",
)
COMPLICATION: Phrasings = (
    "{complication} {complication_at} was controlled within {control}.",
    "The course was complicated by {complication} {complication_at}, controlled within {control}.",
    "{complication} occurred {complication_at} and was controlled within {control}.",
)
BRIEF_COMPLICATION: Phrasings = (
    "{complication} {complication_at}, controlled within {control}.",
    "{complication_at} {complication}, controlled within {control}.",
)
REPEAT: Phrasings = (
    "{test} was {moved}, to {repeat} {repeat_at}.",
    "{repeat_at}, {test} was {moved}, at {repeat}.",
    "Repeat {test} was {moved}, with {repeat} {repeat_at}.",
)
BRIEF_REPEAT: Phrasings = ("{test} {moved}, {repeat} {repeat_at}.", "{repeat_at} {test} {moved}, {repeat}.")
NEGATIVES: Phrasings = (
    "No allergy is known, there was no recent travel, and no relative has had the same illness.",
    "There is no known drug allergy, family history is unrevealing, and vaccinations are up to date.",
)
OUTCOME: Phrasings = (
    "The patient was {outcome} {outcome_at}, with review after {review}.",
    "{outcome_at} the patient was {outcome}; review after {review}.",
    "Finally {outcome} {outcome_at}, for review after {review}.",
)
BRIEF_OUTCOME: Phrasings = (
    "{outcome} {outcome_at}, review after {review}.",
    "{outcome_at} {outcome}; review after {review}.",
)
ADVICE: Phrasings = (
    "Advice was {advice}.",
    "Before leaving, the patient was told {advice}.",
)
CLOSING: Phrasings = (
    "A copy of this letter goes to the family doctor, who is asked to repeat the blood tests and to look over the "
    "list of medicines.",
    "The family doctor receives this letter with the request to check the blood tests and renew the prescriptions.",
)

_LAYOUTS: dict[NoteLength, tuple[Phrasings, ...]] = {
    "short": (
        *(BRIEF_OPENING, BRIEF_RESULTS, BRIEF_DIAGNOSIS, BRIEF_TREATMENT),
        *(BRIEF_COMPLICATION, BRIEF_REPEAT, BRIEF_OUTCOME),
    ),
    "medium": (
        *(OPENING, HISTORY, VITALS, RESULTS, DIAGNOSIS),
        *(TREATMENT, COMPLICATION, REPEAT, OUTCOME),
    ),
    "long": (
        *(OPENING, HISTORY, NEGATIVES, VITALS, RESULTS, REFERENCES, FURTHER, DIAGNOSIS, BACKGROUND),
        *(TREATMENT, COUNSEL, COMPLICATION, REPEAT, OUTCOME, ADVICE, CLOSING),
    ),
}
_CONTACT_COUNT: dict[NoteLength, int] = {"short": 1, "medium": 2, "long": 4}


def write_note(patient: Patient, length: NoteLength, rng: np.random.Generator) -> str:
    """The note: about 75 to 100 words (short), 120 to 160 (medium) or 240 to 300 (long).

    Name, birth date and record number stand in every note; phone, e-mail, address and SSN one, two or four
    at a time.
    """
    slots = _slots(patient, rng)
    sentences = [_sentence(pick(rng, phrasings), slots) for phrasings in _LAYOUTS[length]]
    sentences.insert(1, _contact_line(_CONTACT_COUNT[length], slots, rng))
    return " ".join(sentences)


def capitalized(text: str) -> str:
    """The text with its first letter in upper case and the rest untouched."""
    return text[:1].upper() + text[1:]


def _sentence(phrasing: str, slots: dict[str, str]) -> str:
    return capitalized(phrasing.format_map(slots))


def _contact_line(count: int, slots: dict[str, str], rng: np.random.Generator) -> str:
    places = sorted(rng.permutation(len(CONTACTS))[:count].tolist())
    return _sentence(", ".join(CONTACTS[place] for place in places) + ".", slots)


def _slots(patient: Patient, rng: np.random.Generator) -> dict[str, str]:
    case = patient.case
    return {
        **facts(case),
        **_background(case),
        **_vitals(rng),
        **{identifier.type: identifier.value for identifier in patient.identifiers()},
        "institution": patient.institution,
        "age": str(case.age),
        "person": "woman" if case.sex == "female" else "man",
    }


def _background(case: Case) -> dict[str, str]:
    first, second, third, fourth = case.readings
    return {
        "third_symptom": case.symptoms[2],
        "comorbidity": case.comorbidity,
        "third_lab": third.named,
        "fourth_lab": fourth.named,
        "reference": first.reference,
        "second_reference": second.reference,
        "background": case.background,
        "advice": case.advice,
    }


def _vitals(rng: np.random.Generator) -> dict[str, str]:
    """Vital signs within what a ward sees every day, whatever the disease."""
    return {
        "temperature": f"{rng.integers(362, 385) / 10:.1f}",
        "pulse": str(rng.integers(64, 116)),
        "pressure": f"{rng.integers(104, 158)}/{rng.integers(58, 94)}",
        "saturation": str(rng.integers(91, 100)),
    }
