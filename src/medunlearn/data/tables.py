"""Schemas of the benchmark folder's tables; records, questions and splits as rows, and back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import pyarrow as pa

from medunlearn.data.records import Identifier, Question, Record
from medunlearn.data.splits import Split
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


def record_rows(records: Sequence[Record]) -> list[dict[str, Any]]:
    several = any(record.further_images for record in records)
    return [
        {
            "record_id": record.record_id,
            "text": record.text,
            "image": record.image,
            "fold": record.fold,
            "groups": dict(record.groups),
            "identifiers": [asdict(identifier) for identifier in record.identifiers],
        }
        | ({FURTHER: list(record.further_images)} if several else {})
        for record in records
    ]


def to_record(row: Mapping[str, Any]) -> Record:
    groups = {level: node for level, node in row["groups"].items() if node is not None}
    identifiers = tuple(Identifier(**fields) for fields in row["identifiers"])
    further = tuple(row.get(FURTHER, ()))
    return Record(row["record_id"], row["text"], groups, identifiers, row["image"], row["fold"], further)


def question_rows(questions: Iterable[Question]) -> list[dict[str, Any]]:
    return [asdict(question) | {"options": list(question.options)} for question in questions]


def to_question(row: Mapping[str, Any]) -> Question:
    return Question(**{**row, "options": tuple(row["options"])})


def split_rows(splits: Iterable[Split]) -> list[dict[str, str]]:
    return [
        {"split": split.name, "level": split.level, "node": node, "side": side}
        for split in splits
        for side, nodes in (("forget", split.forget), ("retain", split.retain))
        for node in nodes
    ]


def to_splits(rows: Iterable[Mapping[str, str]]) -> dict[str, Split]:
    entries: dict[str, dict[str, Any]] = {}
    for row in rows:
        if row["side"] not in ("forget", "retain"):
            raise BenchmarkError(f"splits.parquet: {row['side']!r} is not a side: use forget or retain.")
        entry = entries.setdefault(row["split"], {"level": row["level"], "forget": [], "retain": []})
        if entry["level"] != row["level"]:
            raise BenchmarkError(f"splits.parquet: split {row['split']!r} is on two levels.")
        entry[row["side"]].append(row["node"])
    return {
        name: Split(name, entry["level"], tuple(entry["forget"]), tuple(entry["retain"]))
        for name, entry in entries.items()
    }
