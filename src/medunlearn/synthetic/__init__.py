"""An invented hospital: fictitious patients with notes, questions and chest X-ray reports.

Everything is generated from a seed, needs no network, and cannot belong to a real person
(:mod:`~medunlearn.synthetic.identities`).
"""

from medunlearn.synthetic.chance import CHANCE
from medunlearn.synthetic.hospital import Hospital, invent_hospital
from medunlearn.synthetic.knowledge import AMNESIA_PROPORTIONS, DISEASES
from medunlearn.synthetic.note_texts import NoteLength
from medunlearn.synthetic.patients import Patient
from medunlearn.synthetic.studies import ChestFinding, Study

__all__ = [
    "AMNESIA_PROPORTIONS",
    "CHANCE",
    "DISEASES",
    "ChestFinding",
    "Hospital",
    "NoteLength",
    "Patient",
    "Study",
    "invent_hospital",
]
