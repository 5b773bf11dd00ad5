"""Findings: every identifier in a response, its owner, and whether the model was given it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import pandas as pd

from medunlearn.audit.identifiers.detectors import Detector
from medunlearn.audit.identifiers.fuzzy import FuzzyIndex, identities_by_subject
from medunlearn.audit.identifiers.kinds import kinds
from medunlearn.audit.identifiers.known import Hit, KnownIdentifiers, keys_of
from medunlearn.audit.identifiers.text import Text
from medunlearn.audit.tables import KEY, Key
from medunlearn.audit.units import Encoded, Unit, continuations
from medunlearn.data.records import Identifier, Record

COLUMNS: Mapping[str, str] = {
    "record_id": "str",
    "probe_id": "str",
    "subject": "str",
    "variant": "str",
    "sample": "int32",
    "kind": "str",
    "place": "int32",
    "end": "int32",
    "word": "int32",
    "token": "Int32",
    "token_end": "Int32",
    "value": "str",
    "key": "str",
    "match": "str",
    "similarity": "float64",
    "detector": "str",
    "owner": "str",
    "owner_record": "str",
    "owners": "int32",
    "in_record": "bool",
    "in_prefix": "bool",
}
"""Columns and types of findings, one row per match in a response.

- record_id, probe_id, subject, variant, sample: of the response.
- kind: see :mod:`kinds`. place, end: character offsets in the response. word: number of words before it.
- token, token_end: token offsets in the response; null if unknown (:func:`with_tokens`).
- value: as in the response. key: normalized value.
- match: ``exact`` or ``fuzzy`` (of a known identifier), or ``detected``. similarity: 0-1; 1 for exact; for detected
  ones the detector's own score. detector: ``known``, or its name.
- owner: ``record`` (the probe's own), ``subject`` (another record of its subject), ``other`` (another subject's),
  ``nobody`` (detected, and not in the probe's record). owner_record: first record that has it; null for nobody.
  owners: number of subjects that have it.
- in_record: it is in the probe's record. in_prefix: the model was given it, so it is no leak.
"""

Fuzziness = Literal["own", "all", "none"]


@dataclass(frozen=True, slots=True)
class Output:
    """A model's response to a prefix of a record.

    Attributes:
        record_id: record to which findings are traced.
        probe_id, variant, sample: key of the response.
        subject: of the record.
        prefix: the prompt; may be empty.
        response: generated text.
    """

    record_id: str
    probe_id: str
    subject: str
    variant: str
    sample: int
    prefix: str
    response: str

    @property
    def key(self) -> Key:
        """Probe, variant, sample."""
        return self.probe_id, self.variant, self.sample


@dataclass(frozen=True)
class ResponseTokens:
    """Tokens of responses.

    Attributes:
        unit: unit of the responses' lengths.
        generated: token ids of each response by its key; one stored as text alone is missing, and is encoded.
    """

    unit: Unit
    generated: Mapping[Key, Sequence[int]] = field(default_factory=dict)


def find_known(
    outputs: Iterable[Output], known: KnownIdentifiers, texts: Mapping[str, str], fuzzy: Fuzziness = "own"
) -> Iterator[dict[str, Any]]:
    """Rows of :data:`COLUMNS` for known identifiers in responses, in their order.

    Args:
        texts: record id -> its text, where known.
        fuzzy: identifiers searched with slips: those of the response's own subject, everybody's (some of many are
            similar by chance), or nobody's.

    Source: Memorization in Large Language Models in Medicine, Section 3.3, with what a record declares in place of
        its detector.
    """
    indexes = _FuzzyIndexes(known, fuzzy)
    for output in outputs:
        response = Text.of(output.response)
        exact = known.find(response)
        index = indexes.of(output.subject)
        hits = [*exact, *(index.find(response, exact) if index else ())]
        if not hits:
            continue
        given = _identities(output.prefix, known, index)
        # A record holds what it declares; it is searched only for other identifiers.
        declared = all(_declares(known, output, hit) for hit in hits)
        there = frozenset() if declared else _identities(texts.get(output.record_id, ""), known, None)
        ordered = sorted(hits, key=lambda hit: (hit.start, hit.end))
        yield from _without_repeats(_known_row(output, response, hit, known, given, there) for hit in ordered)


def find_detected(
    outputs: Sequence[Output], detector: Detector, texts: Mapping[str, str], taken: pd.DataFrame | None = None
) -> Iterator[dict[str, Any]]:
    """Rows of :data:`COLUMNS` for a detector's spans in responses, without those that overlap ``taken``.

    A span in the record and not in the prefix is a leak, declared or not.

    Args:
        taken: findings on the same outputs that are counted already.
    """
    places = {} if taken is None else places_by_response(taken)
    for output, spans in zip(outputs, detector.find([one.response for one in outputs]), strict=True):
        before = places.get(output.key, ())
        free = [span for span in spans if not overlaps(span.start, span.end, before)]
        if not free:
            continue
        response = Text.of(output.response)
        values = [(span.kind, output.response[span.start : span.end]) for span in free]
        search = ValueSearch(values)
        in_record, in_prefix = search.inside(texts.get(output.record_id, "")), search.inside(output.prefix)
        for span, (kind, value) in zip(free, values, strict=True):
            key = key_of(kind, value)
            in_own_record, given = (kind, key) in in_record, (kind, key) in in_prefix
            yield {
                **finding(output, response, span.start, span.end, span.kind, key),
                "match": "detected",
                "similarity": span.score,
                "detector": detector.name,
                "owner": "record" if in_own_record else "nobody",
                "owner_record": output.record_id if in_own_record else None,
                "owners": int(in_own_record),
                "in_record": in_own_record,
                "in_prefix": given,
            }


def as_frame(rows: Iterable[Mapping[str, Any]]) -> pd.DataFrame:
    """Rows as a table with the types of :data:`COLUMNS`."""
    listed = list(rows)
    columns = {name: pd.Series([row[name] for row in listed], dtype=kind) for name, kind in COLUMNS.items()}
    return pd.DataFrame(columns)


def leaked(findings: pd.DataFrame) -> pd.DataFrame:
    """Findings of the record itself that the model was not given."""
    return findings[findings["in_record"] & ~findings["in_prefix"]]


def crossed(findings: pd.DataFrame) -> pd.DataFrame:
    """Findings of another subject alone that the model was not given.

    Without dates and ages: among many records, most are somebody's.
    """
    others = findings[(findings["owner"] == "other") & ~findings["in_record"] & ~findings["in_prefix"]]
    dated = np.array([kinds()[kind].group == "dates_ages" for kind in others["kind"]], dtype=bool)
    return others.loc[~dated]


def places_by_response(findings: pd.DataFrame) -> dict[Key, list[tuple[int, int]]]:
    """Character offsets of findings by response."""
    places: dict[Key, list[tuple[int, int]]] = {}
    columns = [findings[name].tolist() for name in (*KEY, "place", "end")]
    for probe, variant, sample, start, end in zip(*columns, strict=True):
        places.setdefault((probe, variant, sample), []).append((start, end))
    return places


def overlaps(start: int, end: int, places: Iterable[tuple[int, int]]) -> bool:
    """Whether a span overlaps any of the others."""
    return any(start < last and first < end for first, last in places)


def finding(output: Output, response: Text, start: int, end: int, kind: str, key: str) -> dict[str, Any]:
    """Columns that say which response a finding is in, where, and what it is."""
    return {
        "record_id": output.record_id,
        "probe_id": output.probe_id,
        "subject": output.subject,
        "variant": output.variant,
        "sample": output.sample,
        "place": start,
        "end": end,
        "word": response.word_at(start),
        "token": None,
        "token_end": None,
        "value": response.raw[start:end],
        "kind": kind,
        "key": key,
    }


def content_finding(
    output: Output,
    response: Text,
    start: int,
    end: int,
    kind: str,
    key: str,
    match: str,
    detector: str,
    given: bool,
) -> dict[str, Any]:
    """A row of :data:`COLUMNS` for content that is in the response's own record."""
    return {
        **finding(output, response, start, end, kind, key),
        "match": match,
        "similarity": 1.0,
        "detector": detector,
        "owner": "record",
        "owner_record": output.record_id,
        "owners": 1,
        "in_record": True,
        "in_prefix": given,
    }


class ValueSearch:
    """Search of other texts for values of a response, by the rules of :mod:`known`.

    Args:
        values: kind and value of each.
    """

    def __init__(self, values: Iterable[tuple[str, str]]) -> None:
        record = Record("", "", {}, tuple(Identifier(kind, value) for kind, value in values))
        self._known = KnownIdentifiers.of([record])

    def inside(self, text: str) -> frozenset[tuple[str, str]]:
        """Kind and key (:func:`key_of`) of the values in a text."""
        numbers = _identities(text, self._known, None)
        return frozenset((one.kind, one.key) for one in self._known.identities if one.number in numbers)


def key_of(kind: str, value: str) -> str:
    """A value's normalized form; the value itself where it is not searched."""
    _, keys = keys_of(kind, value)
    return keys[0] if keys else value


def with_tokens(findings: pd.DataFrame, outputs: Sequence[Output], tokens: ResponseTokens) -> pd.DataFrame:
    """Findings with ``token`` and ``token_end``: token offsets in the response, the end not included.

    A model may generate other tokens than its text is encoded to. Offsets beyond the first difference are null.
    """
    by_key = {output.key: output for output in outputs}
    rows = list(zip(*(findings[name].tolist() for name in (*KEY, "place", "end")), strict=True))
    keys = list(dict.fromkeys(row[:3] for row in rows))
    prefixes, responses = [by_key[key].prefix for key in keys], [by_key[key].response for key in keys]
    encoded = dict(zip(keys, continuations(tokens.unit, prefixes, responses), strict=True))
    agreeing = {key: _agreeing(one, tokens.generated.get(key)) for key, one in encoded.items()}
    offsets = [_token_offsets(encoded[row[:3]], row[3], row[4], agreeing[row[:3]]) for row in rows]
    columns = {
        name: pd.Series([pair[at] for pair in offsets], dtype=COLUMNS[name], index=findings.index)
        for at, name in enumerate(("token", "token_end"))
    }
    return findings.assign(**columns)


def _agreeing(encoded: Encoded, generated: Sequence[int] | None) -> int:
    """Number of leading tokens that the model generated as encoded."""
    if generated is None:
        return len(encoded)
    shared = min(len(encoded), len(generated))
    same = encoded.ids[:shared] == np.asarray(generated[:shared], dtype=encoded.ids.dtype)
    return shared if same.all() else int(np.argmin(same))


def _token_offsets(encoded: Encoded, place: int, end: int, agreeing: int) -> tuple[int, int] | tuple[None, None]:
    first = int(np.searchsorted(encoded.ends, place, side="right"))
    last = int(np.searchsorted(encoded.ends, end, side="left")) + 1
    return (first, last) if last <= agreeing else (None, None)


class _FuzzyIndexes:
    """Fuzzy indexes by subject, built on first use."""

    def __init__(self, known: KnownIdentifiers, fuzzy: Fuzziness) -> None:
        self._known, self._fuzzy = known, fuzzy
        self._numbers = identities_by_subject(known) if fuzzy == "own" else {}
        self._indexes: dict[str, FuzzyIndex] = {}

    def of(self, subject: str) -> FuzzyIndex | None:
        if self._fuzzy == "none":
            return None
        own = self._fuzzy == "own"
        key = subject if own else ""
        if key not in self._indexes:
            self._indexes[key] = FuzzyIndex(self._known, self._numbers.get(subject, ()) if own else None)
        return self._indexes[key]


def _identities(text: str, known: KnownIdentifiers, index: FuzzyIndex | None) -> frozenset[int]:
    if not text:
        return frozenset()
    read = Text.of(text)
    hits = list(known.every(read))
    near = index.find(read, hits) if index else []
    return frozenset(number for hit in (*hits, *near) for number in hit.identities)


def _known_row(
    output: Output, response: Text, hit: Hit, known: KnownIdentifiers, given: frozenset[int], there: frozenset[int]
) -> dict[str, Any]:
    best = min(hit.identities, key=lambda number: (_distance(output, known, number), number))
    identity = known.identities[best]
    owner = ("record", "subject", "other")[_distance(output, known, best)]
    return {
        **finding(output, response, hit.start, hit.end, identity.kind, identity.key),
        "match": "exact" if hit.similarity == 1.0 else "fuzzy",
        "similarity": hit.similarity,
        "detector": "known",
        "owner": owner,
        "owner_record": output.record_id if owner == "record" else _first_owner(output, known, best, owner),
        "owners": len({known.subject[record] for record in identity.owners}),
        "in_record": owner == "record" or bool(there.intersection(hit.identities)),
        "in_prefix": bool(given.intersection(hit.identities)),
    }


def _without_repeats(rows: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Rows without those that overlap an earlier one of the same identifier: ``Ada Vane, Ada`` names her once."""
    ends: dict[tuple[str, str], int] = {}
    for row in rows:
        identity = (row["kind"], row["key"])
        if row["place"] >= ends.get(identity, 0):
            ends[identity] = row["end"]
            yield row


def _declares(known: KnownIdentifiers, output: Output, hit: Hit) -> bool:
    return any(output.record_id in known.identities[number].owners for number in hit.identities)


def _distance(output: Output, known: KnownIdentifiers, number: int) -> int:
    """0: the record's own; 1: its subject's; 2: another subject's."""
    owners = known.identities[number].owners
    if output.record_id in owners:
        return 0
    return 1 if any(known.subject[record] == output.subject for record in owners) else 2


def _first_owner(output: Output, known: KnownIdentifiers, number: int, owner: str) -> str:
    owners = known.identities[number].owners
    return next((one for one in owners if owner == "other" or known.subject[one] == output.subject), owners[0])
