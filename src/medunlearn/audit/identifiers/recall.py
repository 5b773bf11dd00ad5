"""Recall and precision of detectors on labelled text: invented notes, records, or a file of your own."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, timedelta
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import yaml

from medunlearn.audit.identifiers.detectors import (
    JOIN,
    DetectedSpan,
    Detector,
    cached,
    covered,
    number_of_age,
    parts_of,
)
from medunlearn.audit.identifiers.kinds import kinds
from medunlearn.audit.identifiers.known import KnownIdentifiers
from medunlearn.audit.identifiers.leak_tables import shares
from medunlearn.audit.identifiers.outputs import parse_rows
from medunlearn.audit.identifiers.styled_notes import HALVES, STYLES, Half, styled_notes
from medunlearn.data.records import Record
from medunlearn.errors import UnknownNameError
from medunlearn.seeds import generator
from medunlearn.statistics.bootstrap import REPLICATES
from medunlearn.synthetic.identities import institution_names, invent_names
from medunlearn.synthetic.knowledge import SEXES
from medunlearn.synthetic.people import Person, invent_people, written_date
from medunlearn.synthetic.places import fantasy_towns

ALL, NONE = "all", "none"
MIDDLES = 6
"""Sentences of an invented note after its first."""
_SLOT = re.compile(r"\{(\w+)\}")
_FIRST, _DAYS = date(2008, 1, 1), 5000


class LabelledText(NamedTuple):
    """A text, whose it is, and every identifier in it in order of place."""

    subject: str
    text: str
    spans: tuple[DetectedSpan, ...]


def detector_recall(
    detector: Detector, labelled: Sequence[LabelledText], *, replicates: int = REPLICATES, seed: int = 0
) -> pd.DataFrame:
    """Recall and precision of a detector, by kind and overall.

    A label is found where spans of its group (dates and ages, names, ...) cover at least half of its characters; a
    span is right where labels of its group cover at least half of its. Groups rather than kinds, since a name taken
    for a clinician's is found. Ages are compared by their numbers: ``50`` and ``50-year-old`` are one.

    Returns:
        One row per kind, and ``all`` at the end: labelled, found, recall with its interval; detected, right,
        precision with its interval; subjects; reason for a missing number. 0-1, higher = better; the intervals are
        Clopper-Pearson's over subjects (:mod:`~medunlearn.statistics.intervals`). Precision leaves out spans of
        kinds that no text has a label of.

    Source: modelled on the token measures of the i2b2 shared task (Stubbs, Kotfila & Uzuner 2015); half of the
        characters is our rule.
    """
    spans_of = zip(labelled, detector.find([text.text for text in labelled]), strict=True)
    pairs = [
        (text.subject, _numbers_of_ages(text.spans, text.text), _numbers_of_ages(spans, text.text))
        for text, spans in spans_of
    ]
    labels = _agreements(pairs)
    detected = _agreements((subject, spans, own) for subject, own, spans in pairs)
    detected["judged"] = detected["kind"].isin(labels["kind"])
    rows = []
    for kind in (*kinds(), ALL):
        kind_labels, spans = (table[(table["kind"] == kind) | (kind == ALL)] for table in (labels, detected))
        if kind == ALL or len(kind_labels) or len(spans):
            rows.append({"kind": kind, **_row(kind_labels, spans, {"replicates": replicates, "seed": seed})})
    return pd.DataFrame(rows)


def _numbers_of_ages(spans: Iterable[DetectedSpan], text: str) -> tuple[DetectedSpan, ...]:
    return tuple(number_of_age(span, text) for span in spans)


def _agreements(texts: Iterable[tuple[str, Iterable[DetectedSpan], Sequence[DetectedSpan]]]) -> pd.DataFrame:
    """Kind, subject, and whether the other side covers it, of each span."""
    rows = [
        (span.kind, subject, covered(span.kind, span.start, span.end, others))
        for subject, spans, others in texts
        for span in spans
    ]
    return pd.DataFrame(rows, columns=["kind", "subject", "agreed"]).astype({"agreed": bool})


def _row(labels: pd.DataFrame, detected: pd.DataFrame, draws: Mapping[str, int]) -> dict[str, Any]:
    judged = detected[detected["judged"]]
    reasons = [] if len(labels) else ["no text has a label of this kind"]
    if len(labels) and len(detected) > len(judged):
        reasons.append(f"{len(detected) - len(judged)} of {len(detected)} spans are of kinds without a label")
    return {
        "labelled": len(labels),
        "found": int(labels["agreed"].sum()),
        **shares("recall", labels["agreed"], labels["subject"], **draws),
        "detected": len(detected),
        "right": int(judged["agreed"].sum()),
        **shares("precision", judged["agreed"], judged["subject"], **draws),
        "subjects": len({*labels["subject"], *judged["subject"]}),
        "reason": "; ".join(reasons) or None,
    }


def labelled_styles(half: Half = "held_out") -> list[LabelledText]:
    """Invented notes in four styles; each note is a subject, ``radiology-3``."""
    places: Counter[str] = Counter()
    labelled = []
    for note in styled_notes(half):
        places[note.style] += 1
        labelled.append(LabelledText(f"{note.style}-{places[note.style]}", note.text, note.spans))
    return labelled


def detector_overlap(detector: Detector, labelled: Sequence[LabelledText]) -> pd.DataFrame:
    """Labelled identifiers by which of several detectors find them.

    Returns:
        One row per combination that occurs, most labels first: found_by (``a+b`` for both; ``none``), labelled,
        names, dates_ages and other (of these, by group), share of all labels (0-1).
    """
    texts = [text.text for text in labelled]
    finds = {name: part.find(texts) for name, part in parts_of(detector).items()}
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for place, text in enumerate(labelled):
        spans = {name: _numbers_of_ages(by_text[place], text.text) for name, by_text in finds.items()}
        for label in _numbers_of_ages(text.spans, text.text):
            by = [name for name, own in spans.items() if covered(label.kind, label.start, label.end, own)]
            group = kinds()[label.kind].group
            counts[JOIN.join(by) or NONE][group if group in ("names", "dates_ages") else "other"] += 1
    whole = sum(count.total() for count in counts.values())
    rows = [
        {
            "found_by": by,
            "labelled": count.total(),
            **{group: count[group] for group in ("names", "dates_ages", "other")},
            "share": count.total() / whole,
        }
        for by, count in sorted(counts.items(), key=lambda item: -item[1].total())
    ]
    return pd.DataFrame(rows, columns=["found_by", "labelled", "names", "dates_ages", "other", "share"])


def recall_by_style(detector: Detector, half: Half = "held_out") -> pd.DataFrame:
    """Names, and dates with ages, by style of note.

    Returns:
        The columns of :func:`detector_recall` with style (``all`` at the end) and group in place of kind.
    """
    labelled, detector = labelled_styles(half), cached(detector)
    rows = []
    for style in (*STYLES, ALL):
        texts = [text for text in labelled if style in (ALL, text.subject.rsplit("-", 1)[0])]
        for group in ("names", "dates_ages"):
            own = [
                text._replace(spans=tuple(span for span in text.spans if kinds()[span.kind].group == group))
                for text in texts
            ]
            table = detector_recall(_OfGroup(detector, group), own)
            rows.append({"style": style, "group": group, **table.iloc[-1].drop("kind").to_dict()})
    return pd.DataFrame(rows)


class _OfGroup:
    """A detector's spans of one group."""

    def __init__(self, detector: Detector, group: str) -> None:
        self.name, self.version, self._detector, self._group = detector.name, detector.version, detector, group

    def find(self, texts: Sequence[str]) -> list[list[DetectedSpan]]:
        return [
            [span for span in spans if kinds()[span.kind].group == self._group]
            for spans in self._detector.find(texts)
        ]


def label_records(records: Iterable[Record], subject: Mapping[str, str] | None = None) -> list[LabelledText]:
    """Records labelled with their declared identifiers, wherever these are in the text."""
    labelled = []
    for record in records:
        known = KnownIdentifiers([record])
        hits = ((hit.start, hit.end, known.identifiers[hit.numbers[0]].kind) for hit in known.find(record.text))
        owner = (subject or {}).get(record.record_id, record.record_id)
        labelled.append(LabelledText(owner, record.text, tuple(DetectedSpan(*hit) for hit in hits)))
    return labelled


def labelled_texts(name: str) -> list[LabelledText]:
    """Our notes in four styles by the name of a half (``held-out``, ``development``), else a file of labelled text.

    Raises:
        SourceError: no such file, or rows that cannot be read.
    """
    half = half_of(name)
    return read_labelled(Path(name)) if half is None else labelled_styles(half)


def half_of(name: str) -> Half | None:
    """The half of our notes that ``held-out`` or ``development`` names; None for any other name."""
    return next((half for half in HALVES if half == name.replace("-", "_")), None)


def read_labelled(path: Path) -> list[LabelledText]:
    """A file of labelled text: ``text``, ``spans`` (a list of start, end, kind) and optionally ``subject``.

    Raises:
        SourceError: rows that cannot be read, the first few with their places.
    """
    return parse_rows(path, _labelled, "text and spans (start, end, kind), one text")


def _labelled(row: Mapping[str, Any], number: int) -> LabelledText:
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
        notes.append(LabelledText(f"invented-{place}", *_filled(note, facts)))
    return notes


def _filled(note: str, facts: Mapping[str, Any]) -> tuple[str, tuple[DetectedSpan, ...]]:
    """A note with its slots filled in, and the places of these."""
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
