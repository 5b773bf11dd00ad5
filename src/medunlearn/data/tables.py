"""Schemas of the benchmark folder's tables; records, questions and splits as rows, and back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

import pyarrow as pa

from medunlearn.data.records import Identifier, Question, Record
from medunlearn.data.splits import Split
from medunlearn.data.storage import BATCH, rows_of
from medunlearn.errors import BenchmarkError

SCHEMA_VERSION = 1
MAY_BE_NULL = ("image", "answer_index")
FURTHER = "further_images"
OPTIONAL = pa.schema([(FURTHER, pa.list_(pa.string()))])
"""Columns of ``records.parquet`` that are there where some record has several images."""

QUESTIONS = pa.schema(
    [
        ("question_id", pa.string()),
        ("record_id", pa.string()),
        ("fold", pa.string()),
        ("kind", pa.string()),
        ("level", pa.string()),
        ("question", pa.string()),
        ("answer", pa.string()),
        ("options", pa.list_(pa.string())),
        ("answer_index", pa.int32()),
        ("provenance", pa.string()),
    ]
)

TITLES = pa.schema([("record_id", pa.string()), ("title", pa.string())])

SPLITS = pa.schema([("split", pa.string()), ("level", pa.string()), ("node", pa.string()), ("side", pa.string())])


def records_schema(groups: Iterable[str], *, several: bool = False) -> pa.Schema:
    """Schema of ``records.parquet``; ``groups`` is a struct with one nullable string field per level.

    Args:
        several: whether a record has several images.
    """
    return pa.schema(
        [
            ("record_id", pa.string()),
            ("text", pa.string()),
            ("image", pa.string()),
            ("fold", pa.string()),
            ("groups", pa.struct([(group, pa.string()) for group in groups])),
            ("identifiers", pa.list_(pa.struct([("type", pa.string()), ("value", pa.string())]))),
            *(OPTIONAL if several else []),
        ]
    )


def record_rows(records: Sequence[Record]) -> Iterator[dict[str, Any]]:
    several = any(record.further_images for record in records)
    return (
        {
            "record_id": record.record_id,
            "text": record.text,
            "image": record.image,
            "fold": record.fold,
            "groups": dict(record.groups),
            "identifiers": [{"type": each.type, "value": each.value} for each in record.identifiers],
        }
        | ({FURTHER: list(record.further_images)} if several else {})
        for record in records
    )


def to_records(table: pa.Table, shared: dict[str, str]) -> tuple[Record, ...]:
    """The records of a table; strings that recur are one object.

    Args:
        shared: strings that were read so far, by themselves.
    """
    records, share = list[Record](), shared.setdefault
    images = [FURTHER] if FURTHER in table.column_names else []
    for batch in table.to_batches(max_chunksize=BATCH):
        groups, identifiers = batch.column("groups"), batch.column("identifiers")
        nodes = {groups.type.field(n).name: groups.field(n).to_pylist() for n in range(groups.type.num_fields)}
        each = identifiers.flatten()
        values = zip(each.field("type").to_pylist(), each.field("value").to_pylist(), strict=True)
        lengths = identifiers.value_lengths().to_pylist()
        plain = (batch.column(name).to_pylist() for name in ("record_id", "text", "image", "fold", *images))
        for place, (name, text, image, fold, *further) in enumerate(zip(*plain, strict=True)):
            own = {level: share(at, at) for level, column in nodes.items() if (at := column[place]) is not None}
            found = tuple(Identifier(share(kind, kind), value) for kind, value in islice(values, lengths[place]))
            more = tuple(further[0]) if further else ()
            fold = share(fold, fold)
            records.append(Record(share(name, name), text, own, found, image, fold, more))  # type: ignore[arg-type]
    return tuple(records)


def question_rows(questions: Iterable[Question]) -> Iterator[dict[str, Any]]:
    return ({name: getattr(question, name) for name in QUESTIONS.names} for question in questions)


def to_questions(table: pa.Table, shared: dict[str, str]) -> tuple[Question, ...]:
    """The questions of a table, as :func:`to_records`."""
    share, rows = shared.setdefault, rows_of(table, QUESTIONS.names)
    return tuple(
        Question(
            name,
            share(record, record),
            share(fold, fold),  # type: ignore[arg-type]
            share(kind, kind),  # type: ignore[arg-type]
            share(level, level),
            question,
            answer,
            tuple(options),
            index,
            share(provenance, provenance),
        )
        for name, record, fold, kind, level, question, answer, options, index, provenance in rows
    )


def split_rows(splits: Iterable[Split]) -> list[dict[str, str]]:
    return [
        {"split": split.name, "level": split.level, "node": node, "side": side}
        for split in splits
        for side, nodes in (("forget", split.forget), ("retain", split.retain))
        for node in nodes
    ]


def to_splits(table: pa.Table, shared: dict[str, str]) -> dict[str, Split]:
    """The splits of a table by name, as :func:`to_records`."""
    entries: dict[str, dict[str, Any]] = {}
    for name, level, node, side in rows_of(table, SPLITS.names):
        if side not in ("forget", "retain"):
            raise BenchmarkError(f"splits.parquet: {side!r} is not a side: use forget or retain.")
        entry = entries.setdefault(name, {"level": level, "forget": [], "retain": []})
        if entry["level"] != level:
            raise BenchmarkError(f"splits.parquet: split {name!r} is on two levels.")
        entry[side].append(shared.setdefault(node, node))
    return {
        name: Split(name, entry["level"], tuple(entry["forget"]), tuple(entry["retain"]))
        for name, entry in entries.items()
    }
