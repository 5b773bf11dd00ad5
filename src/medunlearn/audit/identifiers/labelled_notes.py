"""Labelled text to measure detectors on: notes in several styles, invented notes, records, files.

The notes in styles are invented, too, and in three sets. The rules of ``patterns`` were tuned on ``development``;
``held_out`` was written before. ``fresh`` was written after the rules were finished, in other styles; they were
measured on it once.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, timedelta
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import yaml

from medunlearn.audit.identifiers.detectors.detected_spans import DetectedSpan
from medunlearn.audit.identifiers.kinds import kinds
from medunlearn.audit.identifiers.known import KnownIdentifiers
from medunlearn.audit.identifiers.outputs import parse_rows
from medunlearn.data.records import Record
from medunlearn.errors import UnknownNameError
from medunlearn.seeds import generator
from medunlearn.synthetic.identities import institution_names, invent_names
from medunlearn.synthetic.knowledge import SEXES
from medunlearn.synthetic.people import Person, invent_people, written_date
from medunlearn.synthetic.places import fantasy_towns

Half = Literal["held_out", "development", "fresh"]
HALVES: tuple[Half, ...] = ("held_out", "development", "fresh")
MIDDLES = 6
"""Sentences of an invented note after its first."""
_LABEL = re.compile(r"\[([^\[\]]+)\]\((\w+)\)")
_SLOT = re.compile(r"\{(\w+)\}")
_FIRST, _DAYS = date(2008, 1, 1), 5000


class LabelledText(NamedTuple):
    """A text, its subject, and every identifier in it, sorted by position."""

    subject: str
    text: str
    spans: tuple[DetectedSpan, ...]


def labelled_styles(half: Half = "fresh") -> list[LabelledText]:
    """The notes of one set, by style; each note is a subject, ``radiology-3``."""
    notes = yaml.safe_load((files(__package__) / "notes_in_styles" / f"{half}.yaml").read_text(encoding="utf-8"))
    return [
        LabelledText(f"{style}-{number}", *read_marked(note))
        for style, of_style in notes.items()
        for number, note in enumerate(of_style, start=1)
    ]


def style_of(note: LabelledText | str) -> str:
    """Style of a note of :func:`labelled_styles`, by its subject."""
    return (note if isinstance(note, str) else note.subject).rsplit("-", 1)[0]


def read_marked(marked: str) -> tuple[str, tuple[DetectedSpan, ...]]:
    """Text and labels of ``... [Ada Vane](name) ...``."""
    text, spans, end = "", [], 0
    for match in _LABEL.finditer(marked):
        text += marked[end : match.start()]
        spans.append(DetectedSpan(len(text), len(text) + len(match[1]), match[2]))
        text += match[1]
        end = match.end()
    return text + marked[end:], tuple(spans)


def label_records(records: Iterable[Record], subject: Mapping[str, str] | None = None) -> list[LabelledText]:
    """Label records with their declared identifiers, wherever these occur in the text."""
    labelled = []
    for record in records:
        known = KnownIdentifiers([record])
        hits = ((hit.start, hit.end, known.identifiers[hit.numbers[0]].kind) for hit in known.find(record.text))
        owner = (subject or {}).get(record.record_id, record.record_id)
        labelled.append(LabelledText(owner, record.text, tuple(DetectedSpan(*hit) for hit in hits)))
    return labelled


def labelled_texts(name: str) -> list[LabelledText]:
    """Our notes by the name of a set (``fresh``, ``held-out``, ``development``), or a file of labelled text.

    Raises:
        SourceError: no such file, or rows that cannot be read.
    """
    half = half_of(name)
    return read_labelled(Path(name)) if half is None else labelled_styles(half)


def half_of(name: str) -> Half | None:
    """The set of our notes named ``fresh``, ``held-out`` or ``development``; None for any other name."""
    return next((half for half in HALVES if half == name.replace("-", "_")), None)


def read_labelled(path: Path) -> list[LabelledText]:
    """A file of labelled text: ``text``, ``spans`` (a list of start, end, kind) and optionally ``subject``.

    Raises:
        SourceError: rows that cannot be read, the first few with their places.
    """
    return parse_rows(path, _labelled_text, "text and spans (start, end, kind), one text")


def _labelled_text(row: Mapping[str, Any], number: int) -> LabelledText:
    text = row.get("text")
    if not isinstance(text, str) or not text:
        raise ValueError("has no text")
    declared = row.get("spans")
    spans = sorted(_span(identifier, len(text)) for identifier in ([] if declared is None else declared))
    return LabelledText(str(row.get("subject") or f"text {number}"), text, tuple(spans))


def _span(declared: Any, length: int) -> DetectedSpan:
    if not isinstance(declared, Mapping) or not {"start", "end", "kind"} <= declared.keys():
        raise ValueError("has a span without start, end and kind")
    start, end, kind = declared["start"], declared["end"], str(declared["kind"])
    if not isinstance(start, int) or not isinstance(end, int) or not 0 <= start < end <= length:
        raise ValueError(f"has a span from {start} to {end} in a text of {length} characters")
    if kind not in kinds():
        raise UnknownNameError("kind of identifier", kind, kinds())
    return DetectedSpan(start, end, kind)


def invented_notes(count: int, *, seed: int = 0) -> list[LabelledText]:
    """Notes of invented people with every identifier labelled; some without a cue.

    Their wording varies more than the invented hospital's. Still they are ours, like the rules of ``patterns``: on
    real notes recall is lower.

    Args:
        count: 1 to 8,000.
    """
    rng = generator("labelled notes", seed, count)
    people = invent_people(count, rng)
    sexes = [SEXES[draw] for draw in rng.integers(len(SEXES), size=2 * count).tolist()]
    others = invent_names(sexes, rng)
    houses = institution_names(min(count, 200), rng)
    bank = _bank()
    notes = []
    for place, person in enumerate(people):
        facts = _facts(person, others[2 * place : 2 * place + 2], houses[place % len(houses)], rng)
        middles = rng.permutation(len(bank["middles"]))[:MIDDLES].tolist()
        opening = bank["openings"][int(rng.integers(len(bank["openings"])))]
        note = " ".join([opening, *(bank["middles"][middle] for middle in middles)])
        notes.append(LabelledText(f"invented-{place}", *_fill_slots(note, facts)))
    return notes


def _fill_slots(note: str, facts: Mapping[str, Any]) -> tuple[str, tuple[DetectedSpan, ...]]:
    """A note with its slots filled, and the offsets of the values."""
    text, spans = "", []
    # Between two slots is plain text.
    for place, part in enumerate(_SLOT.split(note)):
        if place % 2:
            value = facts[part]() if callable(facts[part]) else facts[part]
            spans.append(DetectedSpan(len(text), len(text) + len(value), _bank()["slots"][part]))
            text += value
        else:
            text += part
    return text, tuple(spans)


def _facts(person: Person, others: Sequence[str], house: str, rng: np.random.Generator) -> dict[str, Any]:
    """Slot -> value, or a function that draws one."""
    first, family = person.name.split(" ", 1)
    clinician = others[1]

    def day() -> date:
        return _FIRST + timedelta(days=int(rng.integers(_DAYS)))

    def digits(count: int) -> str:
        return "".join(map(str, rng.integers(0, 10, count).tolist()))

    towns, professions = fantasy_towns(), _bank()["professions"]
    age = int(rng.integers(19, 99))
    area, line = person.phone[:3], person.phone[4:]
    return {
        "name": person.name,
        "name_reversed": f"{family}, {first}",
        "relative": others[0],
        "clinician": clinician,
        "family_of_clinician": clinician.split(" ", 1)[1],
        "date": lambda: day().isoformat(),
        "date_words": lambda: written_date(day()),
        "date_us": lambda: f"{day():%m/%d/%y}",
        "birth_date": f"{person.birth_date:%m/%d/%Y}",
        "age": f"{age} years old",
        "age_old": f"{age}-year-old",
        "hospital": house,
        "address": person.address,
        "town": lambda: towns[int(rng.integers(len(towns)))],
        "phone": person.phone,
        "phone_brackets": f"({area}) {line}",
        "fax": f"{area}-{line[:-2]}{digits(2)}",
        "email": person.email,
        "ssn": person.ssn,
        "ssn_plain": person.ssn.replace("-", ""),
        "record_number": f"HX-{digits(6)}",
        "member": f"MB{digits(8)}",
        "account": digits(10),
        "url": f"https://{family.lower()}.example.org/portal",
        "ip": f"10.{int(rng.integers(256))}.{int(rng.integers(256))}.{int(rng.integers(256))}",
        "serial": f"PM{digits(6)}",
        "profession": professions[int(rng.integers(len(professions)))],
    }


@cache
def _bank() -> Mapping[str, Any]:
    bank: Mapping[str, Any] = yaml.safe_load((files(__package__) / "labelled.yaml").read_text(encoding="utf-8"))
    return bank
