"""Text whose identifiers are known, to measure detectors on: invented notes, records, or a file of your own."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from medunlearn.audit.identifiers.detectors.protocol import Span
from medunlearn.audit.identifiers.kinds import get_kind
from medunlearn.audit.identifiers.known import Known
from medunlearn.data.records import Record
from medunlearn.errors import SourceError, UnknownNameError
from medunlearn.seeds import generator
from medunlearn.sources.tables import read_rows
from medunlearn.synthetic.identities import institution_names, invent_names
from medunlearn.synthetic.knowledge import SEXES
from medunlearn.synthetic.people import Person, invent_people, written_date
from medunlearn.synthetic.places import fantasy_towns

_SLOT = re.compile(r"\{(\w+)\}")
_SHOWN = 5
_FIRST, _DAYS = date(2008, 1, 1), 5000
MIDDLES = 6
"""Sentences of an invented note after its first."""


@dataclass(frozen=True, slots=True)
class Labelled:
    """A text and every identifier in it.

    Attributes:
        subject: whose text it is; intervals are over subjects.
        text: the text.
        spans: its identifiers, in order of place.
    """

    subject: str
    text: str
    spans: tuple[Span, ...]


def labelled_records(records: Iterable[Record], subject: Mapping[str, str] | None = None) -> list[Labelled]:
    """Records with what they declare, wherever it stands in their text. What they do not declare has no label."""
    whose, found = dict(subject or {}), []
    for record in records:
        known = Known.of([record])
        kinds = [(hit, known.identities[hit.identities[0]].kind) for hit in known.find(record.text)]
        spans = tuple(Span(hit.start, hit.end, kind) for hit, kind in kinds)
        found.append(Labelled(whose.get(record.record_id, record.record_id), record.text, spans))
    return found


def read_labelled(path: Path) -> list[Labelled]:
    """A file of labelled text: ``text``, ``spans`` (a list of start, end, kind) and, if there is one, ``subject``.

    Raises:
        SourceError: rows that cannot be read, the first few with their places.
    """
    found: list[Labelled] = []
    problems: list[str] = []
    for number, (place, row) in enumerate(read_rows(path)):
        try:
            found.append(_labelled(row, number) if not isinstance(row, str) else _refuse(row))
        except (ValueError, UnknownNameError) as error:
            problems.append(f"{place}: {error}")
    if problems:
        more = f" ({len(problems)} such in all)" if len(problems) > _SHOWN else ""
        raise SourceError("; ".join(problems[:_SHOWN]) + more)
    if not found:
        raise SourceError(f"{path} has no row. It needs text and spans (start, end, kind), one text a row.")
    return found


def invented_notes(count: int, *, seed: int = 0) -> list[Labelled]:
    """Notes of people who do not exist, with every identifier labelled; some have no cue around them.

    They are not the notes of the invented hospital, and are worded more variously. Still they are ours, as the
    rules of ``patterns`` are: on real notes recall is lower.

    Args:
        count: 1 to 8,000.
    """
    rng = generator("labelled notes", seed, count)
    people = invent_people(count, rng)
    sexes = [SEXES[draw] for draw in rng.integers(len(SEXES), size=2 * count).tolist()]
    others = invent_names(sexes, rng)
    houses = institution_names(min(count, 200), rng)
    bank = _bank()
    found = []
    for place, person in enumerate(people):
        facts = _facts(person, others[2 * place : 2 * place + 2], houses[place % len(houses)], rng)
        middles = rng.permutation(len(bank["middles"]))[:MIDDLES].tolist()
        opening = bank["openings"][int(rng.integers(len(bank["openings"])))]
        note = " ".join([opening, *(bank["middles"][middle] for middle in middles)])
        found.append(_filled(f"invented-{place}", note, facts, rng))
    return found


def _filled(subject: str, note: str, facts: Mapping[str, Any], rng: np.random.Generator) -> Labelled:
    slots = _bank()["slots"]
    text, spans, last = "", [], 0
    for match in _SLOT.finditer(note):
        text += note[last : match.start()]
        fact = facts[match[1]]
        value = fact() if callable(fact) else fact
        spans.append(Span(len(text), len(text) + len(value), slots[match[1]]))
        text, last = text + value, match.end()
    return Labelled(subject, text + note[last:], tuple(spans))


def _facts(person: Person, others: Sequence[str], house: str, rng: np.random.Generator) -> dict[str, Any]:
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
        "age_old": f"a {age}-year-old"[2:],
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
    found: Mapping[str, Any] = yaml.safe_load((files(__package__) / "labelled.yaml").read_text(encoding="utf-8"))
    return found


def _labelled(row: Mapping[str, Any], number: int) -> Labelled:
    text = row.get("text")
    if not isinstance(text, str) or not text:
        raise ValueError("has no text")
    return Labelled(str(row.get("subject") or f"text {number}"), text, tuple(sorted(_spans(row, text), key=_start)))


def _spans(row: Mapping[str, Any], text: str) -> Iterator[Span]:
    spans = row.get("spans")
    for one in [] if spans is None else spans:
        if not isinstance(one, Mapping) or not {"start", "end", "kind"} <= one.keys():
            raise ValueError("has a span without start, end and kind")
        start, end = one["start"], one["end"]
        if not isinstance(start, int) or not isinstance(end, int) or not 0 <= start < end <= len(text):
            raise ValueError(f"has a span from {start} to {end} in a text of {len(text)} characters")
        yield Span(start, end, get_kind(str(one["kind"])).name)


def _start(span: Span) -> int:
    return span.start


def _refuse(reason: str) -> Labelled:
    raise ValueError(reason)
