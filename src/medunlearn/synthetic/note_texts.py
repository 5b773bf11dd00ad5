"""A patient's note in one of three lengths.

Every length contains all findings needed by the questions; longer notes add more identifiers, further results,
vital signs, general knowledge and advice.
"""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np

from medunlearn.synthetic.clinical_cases import facts, pick
from medunlearn.synthetic.grammar import capitalized, word_lists
from medunlearn.synthetic.patients import Patient

NoteLength = Literal["short", "medium", "long"]

NOTE_LENGTHS: tuple[NoteLength, ...] = get_args(NoteLength)

_CONTACT_COUNT: dict[NoteLength, int] = {"short": 1, "medium": 2, "long": 4}


def write_note(patient: Patient, length: NoteLength, rng: np.random.Generator) -> str:
    """Write the note: about 75 to 100 words (short), 120 to 160 (medium) or 240 to 300 (long).

    Every note contains name, birth date and record number; and one, two or four of phone, e-mail, address and SSN.
    """
    lists = word_lists("texts/notes")
    slots = _slots(patient, rng)
    phrasings = [pick(rng, lists[name]) for name in lists["layouts"][length]]
    contacts = lists["contacts"]
    places = sorted(rng.permutation(len(contacts))[: _CONTACT_COUNT[length]].tolist())
    phrasings.insert(1, ", ".join(contacts[place] for place in places) + ".")
    return " ".join(capitalized(phrasing.format_map(slots)) for phrasing in phrasings)


def _slots(patient: Patient, rng: np.random.Generator) -> dict[str, str]:
    """Findings, background and identifiers, with vital signs as in a ward, independent of the disease."""
    case = patient.case
    first, second, third, fourth = case.readings
    return {
        **facts(case),
        "third_symptom": case.symptoms[2],
        "comorbidity": case.comorbidity,
        "third_lab": third.named,
        "fourth_lab": fourth.named,
        "reference": first.reference,
        "second_reference": second.reference,
        "background": case.background,
        "advice": case.advice,
        "temperature": f"{rng.integers(362, 385) / 10:.1f}",
        "pulse": str(rng.integers(64, 116)),
        "pressure": f"{rng.integers(104, 158)}/{rng.integers(58, 94)}",
        "saturation": str(rng.integers(91, 100)),
        **{identifier.type: identifier.value for identifier in patient.identifiers()},
        "institution": patient.institution,
        "age": str(case.age),
        "person": case.person,
    }
