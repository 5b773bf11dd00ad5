"""Records, questions and splits as rows of their tables, and back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from medunlearn.data import schema
from medunlearn.data.records import Identifier, Question, Record
from medunlearn.data.splits import Split
from medunlearn.errors import BenchmarkError


def record_rows(records: Iterable[Record]) -> list[dict[str, Any]]:
    return [
        {
            "record_id": record.record_id,
            "text": record.text,
            "image": record.image,
            "fold": record.fold,
            "groups": dict(record.groups),
            "identifiers": [{"type": found.type, "value": found.value} for found in record.identifiers],
        }
        for record in records
    ]


def to_record(row: Mapping[str, Any]) -> Record:
    groups = {level: node for level, node in row["groups"].items() if node is not None}
    identifiers = tuple(Identifier(**found) for found in row["identifiers"])
    return Record(row["record_id"], row["text"], groups, identifiers, row["image"], row["fold"])


def question_rows(questions: Iterable[Question]) -> list[dict[str, Any]]:
    columns = schema.QUESTIONS.names
    return [
        {column: getattr(question, column) for column in columns} | {"options": list(question.options)}
        for question in questions
    ]


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
    found: dict[str, dict[str, Any]] = {}
    for row in rows:
        if row["side"] not in ("forget", "retain"):
            raise BenchmarkError(f"splits.parquet: {row['side']!r} is no side; it is forget or retain.")
        entry = found.setdefault(row["split"], {"level": row["level"], "forget": [], "retain": []})
        if entry["level"] != row["level"]:
            raise BenchmarkError(f"splits.parquet: split {row['split']!r} is on two levels.")
        entry[row["side"]].append(row["node"])
    return {
        name: Split(name, entry["level"], tuple(entry["forget"]), tuple(entry["retain"]))
        for name, entry in found.items()
    }
