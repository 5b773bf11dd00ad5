"""Findings: every identifier in a response, its owner, and whether it was in the prompt."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

import pandas as pd

from medunlearn.audit.audit_tables import KEY, Key
from medunlearn.audit.identifiers.detectors.detected_spans import JOIN, Detector
from medunlearn.audit.identifiers.fuzzy import Fuzziness, FuzzyIndex, fuzzy_indexes
from medunlearn.audit.identifiers.kinds import kinds
from medunlearn.audit.identifiers.known import Hit, KnownIdentifiers, keys_of
from medunlearn.audit.identifiers.normalized_text import IndexedText
from medunlearn.audit.identifiers.outputs import RecordResponse
from medunlearn.data.records import Identifier, Record
from medunlearn.data.storage import read_frame, refuse_existing, write_frame

RULES = "4"
"""Version of the matching rules; tables of other versions are made again."""

COLUMNS: Mapping[str, str] = {
    **dict.fromkeys(("record_id", "probe_id", "subject", "variant"), "str"),
    "sample": "int32",
    "kind": "str",
    **dict.fromkeys(("place", "end", "word"), "int32"),
    **dict.fromkeys(("token", "token_end"), "Int32"),
    **dict.fromkeys(("value", "key", "match"), "str"),
    "similarity": "float64",
    **dict.fromkeys(("detector", "owner", "owner_record"), "str"),
    "owners": "int32",
    **dict.fromkeys(("in_record", "in_prefix"), "bool"),
}
"""Columns and types of findings, one row per match in a response.

- record_id, probe_id, subject, variant, sample: of the response.
- kind: see :mod:`kinds`. place, end: character offsets in the response. word: number of words before it.
- token, token_end: token offsets in the response; null if unknown (:meth:`~.outputs.ResponseTokens.place`).
- value: as in the response. key: normalized value.
- match: ``exact`` or ``fuzzy`` (of a known identifier), or ``detected``. similarity: 0-1; 1 for exact; for detected
  ones the detector's own score. detector: ``known``, or its name; ``a+b`` where both of two found it.
- owner: ``record`` (the probe's own), ``subject`` (another record of its subject), ``other`` (another subject's),
  ``nobody`` (detected, and not in the probe's record). owner_record: first record that has it; null for nobody.
  owners: number of subjects that have it.
- in_record: it is in the probe's record. in_prefix: the model was given it, so it is not a leak.
"""


def find_known(
    outputs: Iterable[RecordResponse], index: KnownIdentifiers, texts: Mapping[str, str], fuzzy: Fuzziness = "own"
) -> Iterator[dict[str, Any]]:
    """Rows of :data:`COLUMNS` for known identifiers in responses, in their order.

    Args:
        texts: record id -> its text, where known.
        fuzzy: identifiers with fuzzy matching: those of the response's own subject, of all subjects (some are
            similar by chance), or none.

    Source: Memorization in Large Language Models in Medicine, Section 3.3, with what a record declares in place of
        its detector.
    """
    fuzzy_index_of = fuzzy_indexes(index, fuzzy)

    @lru_cache(maxsize=32)
    def in_record_of(record_id: str) -> set[int]:
        return _numbers_in(texts.get(record_id, ""), index)

    @lru_cache(maxsize=32)
    def in_prompt(prefix: str, subject: str) -> set[int]:
        return _numbers_in(prefix, index, fuzzy_index_of(subject))

    for output in outputs:
        response, fuzzy_index = IndexedText.of(output.response), fuzzy_index_of(output.subject)
        exact = index.find(response)
        hits = [*exact, *(fuzzy_index.find(response, exact) if fuzzy_index else ())]
        if not hits:
            continue
        in_prefix = in_prompt(output.prefix, output.subject)
        # A record holds what it declares; it is searched only for other identifiers.
        owners = [[index.identifiers[number].owners for number in hit.numbers] for hit in hits]
        declared = all(any(output.record_id in records for records in records_of) for records_of in owners)
        in_text = set() if declared else in_record_of(output.record_id)
        ends: dict[tuple[str, str], int] = {}
        for hit in sorted(hits, key=lambda hit: (hit.start, hit.end)):
            row = _known_row(output, response, hit, index, in_prefix, in_text)
            # ``Ada Vane, Ada`` names her once.
            if hit.start >= ends.get((row["kind"], row["key"]), 0):
                ends[row["kind"], row["key"]] = hit.end
                yield row


def _numbers_in(text: str, index: KnownIdentifiers, fuzzy_index: FuzzyIndex | None = None) -> set[int]:
    if not text:
        return set()
    indexed = IndexedText.of(text)
    hits = list(index.every(indexed))
    near = fuzzy_index.find(indexed, hits) if fuzzy_index else []
    return {number for hit in (*hits, *near) for number in hit.numbers}


def _known_row(
    output: RecordResponse,
    response: IndexedText,
    hit: Hit,
    index: KnownIdentifiers,
    in_prefix: set[int],
    in_text: set[int],
) -> dict[str, Any]:
    def distance(number: int) -> int:
        """0: of the record itself; 1: of its subject; 2: of another subject."""
        owners = index.identifiers[number].owners
        if output.record_id in owners:
            return 0
        return 1 if any(index.subject[record] == output.subject for record in owners) else 2

    best = min(hit.numbers, key=lambda number: (distance(number), number))
    _, kind, key, owners = index.identifiers[best]
    of_subject = [record for record in owners if index.subject[record] == output.subject]
    of_record = distance(best) == 0
    return finding(
        *(output, response, (hit.start, hit.end), kind, key),
        match="exact" if hit.similarity == 1.0 else "fuzzy",
        similarity=hit.similarity,
        detector="known",
        owner=("record", "subject", "other")[distance(best)],
        owner_record=output.record_id if of_record else (*of_subject, *owners)[0],
        owners=len({index.subject[record] for record in owners}),
        in_record=of_record or not in_text.isdisjoint(hit.numbers),
        in_prefix=not in_prefix.isdisjoint(hit.numbers),
    )


def find_detected(
    outputs: Sequence[RecordResponse],
    detector: Detector,
    texts: Mapping[str, str],
    earlier: pd.DataFrame | None = None,
) -> Iterator[dict[str, Any]]:
    """Rows of :data:`COLUMNS` for a detector's spans in responses, except those that overlap ``earlier`` findings.

    A span in the record and not in the prefix is a leak, declared or not.

    Args:
        earlier: findings on the same outputs.
    """
    places = {} if earlier is None else places_by_response(earlier)
    for output, spans in zip(outputs, detector.find([output.response for output in outputs]), strict=True):
        free = [span for span in spans if not overlaps(span.start, span.end, places.get(output.key, ()))]
        if not free:
            continue
        response = IndexedText.of(output.response)
        values = tuple(Identifier(span.kind, response.raw[span.start : span.end]) for span in free)
        index = KnownIdentifiers([Record("", "", {}, values)])
        in_record, in_prefix = (
            {index.identifiers[number][1:3] for number in _numbers_in(text, index)}
            for text in (texts.get(output.record_id, ""), output.prefix)
        )
        for span, value in zip(free, values, strict=True):
            # A value that is not searched is its own key.
            key = next(iter(keys_of(span.kind, value.value)[1]), value.value)
            of_record = (span.kind, key) in in_record
            yield finding(
                *(output, response, (span.start, span.end), span.kind, key),
                match="detected",
                similarity=span.score,
                detector=JOIN.join(span.detectors) or detector.name,
                owner="record" if of_record else "nobody",
                owner_record=output.record_id if of_record else None,
                owners=int(of_record),
                in_record=of_record,
                in_prefix=(span.kind, key) in in_prefix,
            )


def finding(
    output: RecordResponse, response: IndexedText, extent: tuple[int, int], kind: str, key: str, **columns: Any
) -> dict[str, Any]:
    """A row of :data:`COLUMNS`: by default an exact match with the response's own record."""
    start, end = extent
    row = output._asdict() | {"place": start, "end": end, "word": response.word_at(start)}
    row |= {"value": response.raw[start:end], "kind": kind, "key": key, "token": None, "token_end": None}
    row |= {"match": "exact", "similarity": 1.0, "in_record": True}
    return row | {"owner": "record", "owner_record": output.record_id, "owners": 1} | columns


def as_frame(rows: Iterable[Mapping[str, Any]]) -> pd.DataFrame:
    """Rows as a table with the types of :data:`COLUMNS`."""
    values = list(rows)
    columns = {name: pd.Series([row[name] for row in values], dtype=kind) for name, kind in COLUMNS.items()}
    return pd.DataFrame(columns)


def stored_table(folder: Path | None, name: str, key: str, make: Callable[[], pd.DataFrame]) -> pd.DataFrame:
    """A table cached in a file under this key; computed and saved if the file is missing or broken.

    Raises:
        InputError: the file is another program's table.
    """
    path = None if folder is None else folder / name
    if path is not None and path.exists():
        with suppress(OSError, ValueError):
            stored = read_frame(path)
            if stored.attrs.get("key") == key:
                return stored
            if "key" not in stored.attrs:
                refuse_existing(path, why="it is no table of ours")
    table = make()
    if path is not None:
        table.attrs["key"] = key
        write_frame(path, table, index=False)
    return table


def crossed(findings: pd.DataFrame) -> pd.DataFrame:
    """Findings of another subject only that were not in the prompt.

    Without dates and ages: among many records, most are somebody's.
    """
    others = findings[(findings["owner"] == "other") & ~findings["in_record"] & ~findings["in_prefix"]]
    return others[~others["kind"].isin(kinds_in("dates_ages"))]


def kinds_in(group: str) -> list[str]:
    """Names of the kinds of a group."""
    return [name for name, kind in kinds().items() if kind.group == group]


def places_by_response(findings: pd.DataFrame) -> Mapping[Key, list[tuple[int, int]]]:
    """Character ranges of findings by response."""
    places: dict[Key, list[tuple[int, int]]] = defaultdict(list)
    for probe, variant, sample, *place in findings[[*KEY, "place", "end"]].itertuples(index=False, name=None):
        places[probe, variant, sample].append((place[0], place[1]))
    return places


def overlaps(start: int, end: int, places: Iterable[tuple[int, int]]) -> bool:
    """True if a span overlaps any of the given ranges."""
    return any(start < last and first < end for first, last in places)
