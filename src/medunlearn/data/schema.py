"""Columns of the benchmark folder's tables (DESIGN: what the parts hand each other)."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

SCHEMA_VERSION = 1
MAY_BE_NULL = ("image", "answer_index")

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

SPLITS = pa.schema([("split", pa.string()), ("level", pa.string()), ("node", pa.string()), ("side", pa.string())])


def records_schema(groups: Iterable[str]) -> pa.Schema:
    """The records' columns; ``groups`` is one struct with a string field a group, null where a record has none."""
    return pa.schema(
        [
            ("record_id", pa.string()),
            ("text", pa.string()),
            ("image", pa.string()),
            ("fold", pa.string()),
            ("groups", pa.struct([(group, pa.string()) for group in groups])),
            ("identifiers", pa.list_(pa.struct([("type", pa.string()), ("value", pa.string())]))),
        ]
    )
