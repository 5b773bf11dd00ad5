"""Keywords on disk: one row per question and keyword, with provenance in the file's metadata."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from medunlearn.data import storage
from medunlearn.errors import InputError, first_line
from medunlearn.input_files import regular_file
from medunlearn.metrics.leakage.keyword_selection import Keyword
from medunlearn.metrics.leakage.phrases import words_of

SCHEMA = pa.schema(
    [("question_id", pa.string()), ("keyword", pa.string()), ("weight", pa.float64()), ("field", pa.string())]
)
_PREFIX = "medunlearn."

Keyworded = dict[str, tuple[Keyword, ...]]
"""Question id -> its keywords; a question without any is left out."""


class Origin(NamedTuple):
    """Provenance of a keyword table: the benchmark's fingerprint, the extractor, its version and that of the
    rules.
    """

    benchmark: str
    extractor: str
    version: str


def write(path: Path, keywords: Mapping[str, Sequence[Keyword]], origin: Origin) -> None:
    """Write the table, deterministically.

    Raises:
        StorageError: the disk refused.
    """
    metadata = {f"{_PREFIX}{name}": value for name, value in origin._asdict().items()}
    storage.write_table(path, rows_of(keywords), SCHEMA.with_metadata(metadata))


def rows_of(keywords: Mapping[str, Sequence[Keyword]]) -> list[dict[str, Any]]:
    """One row per question and keyword."""
    return [
        {"question_id": question, "keyword": phrase, "weight": weight, "field": field}
        for question, own in keywords.items()
        for phrase, weight, field in own
    ]


def origin_of(path: Path) -> Origin | None:
    """Provenance in a file's metadata; None if another program wrote the file.

    Raises:
        InputError: there is no such file, or it is not Parquet.
    """
    metadata = _read(path).schema.metadata or {}
    values = [metadata.get(f"{_PREFIX}{name}".encode()) for name in Origin._fields]
    return None if None in values else Origin(*(value.decode() for value in values if value is not None))


def read(path: Path) -> Keyworded:
    """The keywords of a file, with phrases normalised to lower-cased words with single spaces.

    Raises:
        InputError: other columns, a missing value, a weight that is not a number above 0, a keyword without a word.
    """
    keywords: dict[str, dict[str, Keyword]] = {}
    rows = _rows(path)
    storage.refuse_nulls(path, rows, ())
    for place, row in enumerate(rows):
        phrase, weight = " ".join(words_of(row["keyword"])), row["weight"]
        if not phrase:
            raise InputError(f"{path}: the keyword in row {place} has no letter and no digit. Leave the row out.")
        if not (math.isfinite(weight) and weight > 0):
            raise InputError(f"{path}: the weight in row {place} is {weight}; a weight is a number above 0.")
        own = keywords.setdefault(row["question_id"], {})
        if phrase not in own or weight > own[phrase].weight:
            own[phrase] = Keyword(phrase, weight, row["field"])
    return {question: tuple(own.values()) for question, own in keywords.items()}


def _rows(path: Path) -> list[dict[str, Any]]:
    """The rows in our types, since other programs write text and numbers in other widths."""
    arrow = _read(path)
    problems = [f"lacks column {name!r}" for name in SCHEMA.names if name not in arrow.column_names]
    problems += [f"has an unknown column {name!r}" for name in arrow.column_names if name not in SCHEMA.names]
    if problems:
        raise InputError(f"{path} {'; '.join(problems)}. Keywords have the columns {', '.join(SCHEMA.names)}.")
    try:
        rows: list[dict[str, Any]] = arrow.select(SCHEMA.names).cast(SCHEMA).to_pylist()
    except (pa.ArrowException, ValueError) as error:
        raise InputError(
            f"{path}: a column has the wrong type ({error}). Weights are numbers, all others text."
        ) from error
    return rows


def _read(path: Path) -> Any:
    try:
        with pq.ParquetFile(regular_file(path)) as file:
            storage.refuse_large(file, path)
            return file.read()
    except FileNotFoundError:
        raise InputError(
            f"There is no file {path}. `medunlearn build keywords BENCHMARK --out {path}` writes it."
        ) from None
    except (OSError, pa.ArrowException) as error:
        raise InputError(
            f"{path} cannot be read as Parquet ({first_line(error)}). `medunlearn build keywords` writes "
            "such files."
        ) from error


def refuse_strangers(path: Path, keywords: Iterable[str], question_ids: Iterable[str]) -> None:
    """Refuse a file with keywords of questions that the benchmark lacks; the InputError names the first one."""
    strangers = sorted(set(keywords) - set(question_ids))
    if strangers:
        raise InputError(
            f"{path} has keywords of {len(strangers)} questions that the benchmark lacks, such as "
            f"{strangers[0]!r}. Was it made for another benchmark?"
        )
