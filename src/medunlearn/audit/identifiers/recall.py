"""Recall and precision of detectors on labelled text: invented notes, records, or a file of your own."""

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
import pandas as pd
import yaml

from medunlearn.audit.identifiers.detectors import DetectedSpan, Detector, covered
from medunlearn.audit.identifiers.kinds import get_kind, kinds
from medunlearn.audit.identifiers.known import KnownIdentifiers
from medunlearn.data.records import Record
from medunlearn.errors import SourceError, UnknownNameError
from medunlearn.seeds import generator
from medunlearn.sources.tables import read_rows
from medunlearn.statistics.bootstrap import REPLICATES, bootstrap_mean
from medunlearn.synthetic.identities import institution_names, invent_names
from medunlearn.synthetic.knowledge import SEXES
from medunlearn.synthetic.people import Person, invent_people, written_date
from medunlearn.synthetic.places import fantasy_towns

ALL = "all"
COLUMNS = (
    *("kind", "labelled", "found", "recall", "recall_low", "recall_high"),
    *("detected", "right", "precision", "precision_low", "precision_high", "subjects", "reason"),
)
MIDDLES = 6
"""Sentences of an invented note after its first."""
_SLOT = re.compile(r"\{(\w+)\}")
_SHOWN = 5
_FIRST, _DAYS = date(2008, 1, 1), 5000


@dataclass(frozen=True, slots=True)
class LabelledText:
    """A text and every identifier in it.

    Attributes:
        subject: of the text; intervals are over subjects.
        text: the text.
        spans: its identifiers, in order of place.
    """

    subject: str
    text: str
    spans: tuple[DetectedSpan, ...]


@dataclass(frozen=True, slots=True)
class _Match:
    """A label or a span: its kind, its text's subject, and whether the other side covers it."""

    kind: str
    subject: str
    agreed: bool


def detector_recall(
    detector: Detector, labelled: Sequence[LabelledText], *, replicates: int = REPLICATES, seed: int = 0
) -> pd.DataFrame:
    """Recall and precision of a detector, by kind and overall.

    A label is found where spans of its group (dates and ages, names, ...) cover at least half of its characters; a
    span is right where labels of its group cover at least half of its. Groups rather than kinds, since a name taken
    for a clinician's is found.

    Returns:
        One row per kind, and ``all`` at the end: labelled, found, recall with its interval; detected, right,
        precision with its interval; subjects; reason for a missing number. 0-1, higher = better; intervals over
        subjects. Precision leaves out spans of kinds that no text has a label of.

    Source: modelled on the token measures of the i2b2 shared task (Stubbs, Kotfila & Uzuner 2015); half of the
        characters is our rule.
    """
    spans = detector.find([one.text for one in labelled])
    known = {label.kind for one in labelled for label in one.spans}
    labels, detected = [], []
    for one, own in zip(labelled, spans, strict=True):
        labels += _matches(one.subject, one.spans, own)
        detected += _matches(one.subject, own, one.spans)
    judged = [match for match in detected if match.kind in known]
    names = [name for name in kinds() if any(match.kind == name for match in (*labels, *detected))]
    rows = [
        _row(name, _of(labels, name), _of(judged, name), len(_of(detected, name)), replicates, seed)
        for name in names
    ]
    rows.append(_row(ALL, labels, judged, len(detected), replicates, seed))
    return pd.DataFrame(rows, columns=list(COLUMNS))


def _matches(subject: str, spans: Iterable[DetectedSpan], others: Sequence[DetectedSpan]) -> list[_Match]:
    return [_Match(span.kind, subject, covered(span.kind, span.start, span.end, others)) for span in spans]


def _row(
    kind: str, labels: Sequence[_Match], judged: Sequence[_Match], detected: int, replicates: int, seed: int
) -> dict[str, Any]:
    reasons = [] if labels else ["no text has a label of this kind"]
    if labels and detected > len(judged):
        reasons.append(f"{detected - len(judged)} of {detected} spans are of kinds without a label")
    return {
        "kind": kind,
        "labelled": len(labels),
        "found": sum(match.agreed for match in labels),
        **_share("recall", labels, replicates, seed),
        "detected": detected,
        "right": sum(match.agreed for match in judged),
        **_share("precision", judged, replicates, seed),
        "subjects": len({match.subject for match in (*labels, *judged)}),
        "reason": "; ".join(reasons) or None,
    }


def _share(name: str, matches: Sequence[_Match], replicates: int, seed: int) -> dict[str, float | None]:
    values, subjects = [float(match.agreed) for match in matches], [match.subject for match in matches]
    mean = bootstrap_mean(values, subjects, replicates=replicates, seed=seed)
    return {name: mean.value, f"{name}_low": mean.low, f"{name}_high": mean.high}


def _of(matches: Iterable[_Match], kind: str) -> list[_Match]:
    return [match for match in matches if match.kind == kind]


def label_records(records: Iterable[Record], subject: Mapping[str, str] | None = None) -> list[LabelledText]:
    """Records labelled with their declared identifiers, wherever these are in the text."""
    subjects, labelled = dict(subject or {}), []
    for record in records:
        known = KnownIdentifiers.of([record])
        spans = tuple(
            DetectedSpan(hit.start, hit.end, known.identities[hit.identities[0]].kind)
            for hit in known.find(record.text)
        )
        labelled.append(LabelledText(subjects.get(record.record_id, record.record_id), record.text, spans))
    return labelled


def read_labelled(path: Path) -> list[LabelledText]:
    """A file of labelled text: ``text``, ``spans`` (a list of start, end, kind) and optionally ``subject``.

    Raises:
        SourceError: rows that cannot be read, the first few with their places.
    """
    labelled: list[LabelledText] = []
    problems: list[str] = []
    for number, (place, row) in enumerate(read_rows(path)):
        try:
            if isinstance(row, str):
                raise ValueError(row)
            labelled.append(_labelled(row, number))
        except (ValueError, UnknownNameError) as error:
            problems.append(f"{place}: {error}")
    if problems:
        more = f" ({len(problems)} such in all)" if len(problems) > _SHOWN else ""
        raise SourceError("; ".join(problems[:_SHOWN]) + more)
    if not labelled:
        raise SourceError(f"{path} has no row. It needs text and spans (start, end, kind), one text a row.")
    return labelled


def invented_notes(count: int, *, seed: int = 0) -> list[LabelledText]:
    """Notes of invented people with every identifier labelled; some have no cue around them.

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
        notes.append(_filled(f"invented-{place}", note, facts))
    return notes


def _filled(subject: str, note: str, facts: Mapping[str, Any]) -> LabelledText:
    slots = _bank()["slots"]
    text, spans, last = "", [], 0
    for match in _SLOT.finditer(note):
        text += note[last : match.start()]
        fact = facts[match[1]]
        value = fact() if callable(fact) else fact
        spans.append(DetectedSpan(len(text), len(text) + len(value), slots[match[1]]))
        text, last = text + value, match.end()
    return LabelledText(subject, text + note[last:], tuple(spans))


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


def _labelled(row: Mapping[str, Any], number: int) -> LabelledText:
    text = row.get("text")
    if not isinstance(text, str) or not text:
        raise ValueError("has no text")
    spans = sorted(_spans(row, text), key=lambda span: span.start)
    return LabelledText(str(row.get("subject") or f"text {number}"), text, tuple(spans))


def _spans(row: Mapping[str, Any], text: str) -> Iterator[DetectedSpan]:
    spans = row.get("spans")
    for one in [] if spans is None else spans:
        if not isinstance(one, Mapping) or not {"start", "end", "kind"} <= one.keys():
            raise ValueError("has a span without start, end and kind")
        start, end = one["start"], one["end"]
        if not isinstance(start, int) or not isinstance(end, int) or not 0 <= start < end <= len(text):
            raise ValueError(f"has a span from {start} to {end} in a text of {len(text)} characters")
        yield DetectedSpan(start, end, get_kind(str(one["kind"])).name)
