"""Rows of stored responses from tables and from unconverted logs: Inspect, lm-evaluation-harness, OpenAI batches.

Each row has the columns of a table of responses (:data:`~medunlearn.audit.stored_probes.COLUMNS`). The response of
a failed request is None.
"""

from __future__ import annotations

import json
import os
import struct
import sys
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from medunlearn.errors import SourceError
from medunlearn.sources.table_files import Row, read_rows

INSPECT = ".eval"
RESPONSE = ("response", "generated", "output")
"""Accepted names of the column of responses."""
_LARGEST = 2**28
"""Bytes of one sample of an Inspect log, unpacked."""
ZSTANDARD, LOCAL_HEADER = 93, 30
"""In a ZIP file: number of the compression method, and bytes of the header before a member's name."""
_COPIED = ("record_id", "subject", "corpus", "prefix_tokens", "copies")
_LM_EVAL, _BATCH = {"doc_id", "arguments", "resps"}, {"custom_id", "response"}
_TABLES = (".csv", ".tsv")
Rows = Iterator[tuple[str, Row | str]]


def read_response_rows(file: Path, references: Mapping[str, Row] | None = None) -> Rows:
    """Place and row of each response; a string instead of a row says why it cannot be read.

    Args:
        references: record id -> ``prefix``, ``suffix`` and further columns that the file's own row lacks.

    Raises:
        SourceError: a file that is broken as a whole, or a batch without references.
    """
    for place, row in _rows(file):
        try:
            yield from [(place, row)] if isinstance(row, str) else _read_row(place, row, file, references)
        except (AttributeError, IndexError, KeyError, TypeError, ValueError):
            yield place, "is no row of the log that the file seems to be"


def _read_row(
    place: str, row: Row, file: Path, references: Mapping[str, Row] | None
) -> list[tuple[str, Row | str]]:
    if row.keys() >= _LM_EVAL:
        return list(_lm_eval(place, row))
    if row.keys() >= _BATCH and isinstance(row["response"], Mapping | None):
        return list(_batch(place, row, file, references))
    if file.suffix.lower() in _TABLES:
        # A CSV has no other way to say that nothing is there; "" of JSON is an answer of no words.
        row = {name: (value or None) if name in RESPONSE else value for name, value in row.items()}
    return [(place, _complete(row, references))]


def read_references(file: Path) -> dict[str, Row]:
    """Record id -> row of a table with ``custom_id`` (or ``record_id``, ``id``), ``prefix`` and ``suffix``.

    Raises:
        SourceError: a row without id, or one id twice.
    """
    rows: dict[str, Row] = {}
    for place, row in read_rows(file):
        if isinstance(row, str):
            raise SourceError(f"{place} {row}. Correct the line and try again.")
        name = next((str(row[key]) for key in ("custom_id", "record_id", "id") if row.get(key) is not None), None)
        if name is None:
            raise SourceError(f"{place}: a reference needs custom_id (or record_id), prefix and suffix.")
        if name in rows:
            raise SourceError(f"{place}: {name!r} is there twice. A reference is one prefix with its suffix.")
        rows[name] = row
    return rows


def _rows(file: Path) -> Rows:
    if file.suffix.lower() == INSPECT:
        return _inspect_archive(file)
    if file.suffix.lower() == ".json" and (log := _inspect_json(file)) is not None:
        return log
    return read_rows(file)


def _complete(row: Row, references: Mapping[str, Row] | None) -> Row:
    """A row completed from its reference; the row's own values take precedence."""
    if not references:
        return row
    name = next((str(row[key]) for key in ("record_id", "id", "custom_id") if row.get(key) is not None), "")
    reference = references.get(name, {})
    return {**row, **{key: value for key, value in reference.items() if row.get(key) is None}}


def _batch(place: str, row: Row, file: Path, references: Mapping[str, Row] | None) -> Rows:
    """A line of the output of OpenAI's batch endpoint: completions, chat completions or responses."""
    if references is None:
        raise SourceError(
            f"{file} is a batch output, which contains neither prompts nor true texts. Name a table with "
            "custom_id, prefix and suffix: --references FILE."
        )
    name = str(row["custom_id"])
    if name not in references:
        yield place, f"custom_id {name!r} is not in the references"
        return
    reference = {"record_id": name, **references[name]}
    body = (row["response"] or {}).get("body") or {}
    failed = row.get("error") or (row["response"] or {}).get("status_code", 200) != 200
    texts = [] if failed else _texts(body)
    for sample, (text, ended) in enumerate(texts or [(None, None)]):
        yield place, {**reference, "response": text, "sample": sample, "finish_reason": ended}


def _texts(body: Mapping[str, Any]) -> list[tuple[str | None, str | None]]:
    """The text of every choice, and the reason for which it ended; None if there is none."""
    if "choices" in body:
        return [
            (
                _text_of(choice["message"].get("content")) if "message" in choice else choice.get("text"),
                choice.get("finish_reason"),
            )
            for choice in body["choices"]
        ]
    parts = [part for item in body.get("output", ()) for part in item.get("content") or ()]
    ended = "length" if body.get("status") == "incomplete" else None
    return [(_text_of(parts), ended)] if parts else []


def _text_of(content: Any) -> str | None:
    """Text of a message: a string, or the text parts of a list, joined."""
    if content is None or isinstance(content, str):
        return content
    return "".join(part.get("text") or "" for part in content if isinstance(part, Mapping))


def _lm_eval(place: str, row: Row) -> Rows:
    """Row from a line of ``lm_eval --log_samples``, for a generation task."""
    arguments, document = row["arguments"], row.get("doc") or {}
    first = next(iter(arguments.values()), {}) if isinstance(arguments, Mapping) else (arguments or [[]])[0]
    prompt = first.get("arg_0") if isinstance(first, Mapping) else next(iter(first), None)
    texts = row["resps"][0] if row["resps"] else [None]
    if not isinstance(prompt, str) or not all(text is None or isinstance(text, str) for text in texts):
        yield place, "is of a task that scores choices and generates nothing: export one with generate_until"
        return
    labels = {name: document[name] for name in _COPIED if document.get(name) is not None}
    labels = {"record_id": document.get("id", row["doc_id"]), **labels}
    for sample, text in enumerate(texts):
        yield place, {**labels, "prefix": prompt, "suffix": row.get("target"), "response": text, "sample": sample}


def _inspect_archive(file: Path) -> Rows:
    """The samples of an Inspect log, a zip of JSON."""
    try:
        with zipfile.ZipFile(file) as archive:
            names = sorted(name for name in archive.namelist() if name.startswith("samples/"))
            for name in names:
                if archive.getinfo(name).file_size > _LARGEST:
                    yield f"{file.name} {name}", f"is larger than {_LARGEST >> 20} MiB"
                    continue
                yield f"{file.name} {name}", _inspect_sample(json.loads(_unpacked(archive, name)))
    except FileNotFoundError:
        raise SourceError(f"There is no file {file}.") from None
    except (zipfile.BadZipFile, NotImplementedError, OSError, ValueError, RuntimeError) as error:
        raise SourceError(
            f"{file} cannot be read as an Inspect log ({error}). Convert it: inspect log convert --to json."
        ) from error


def _unpacked(archive: zipfile.ZipFile, name: str) -> bytes:
    """Content of a member, also if compressed with Zstandard, which zipfile reads from Python 3.14 on.

    Raises:
        BadZipFile, OSError, ValueError: it is broken.
    """
    member = archive.getinfo(name)
    if member.compress_type != ZSTANDARD or sys.version_info >= (3, 14):
        return archive.read(name)
    assert archive.fp is not None
    archive.fp.seek(member.header_offset + LOCAL_HEADER - 4)
    # Its name and an extra field stand before the data.
    lengths = struct.unpack("<HH", archive.fp.read(4))
    archive.fp.seek(sum(lengths), os.SEEK_CUR)
    packed = pa.BufferReader(archive.fp.read(member.compress_size))
    data: bytes = pa.CompressedInputStream(packed, "zstd").read(member.file_size)
    if len(data) != member.file_size or zlib.crc32(data) != member.CRC:
        raise zipfile.BadZipFile(f"{name} is damaged")
    return data


def _inspect_json(file: Path) -> Rows | None:
    """The samples of an Inspect log in one JSON file; None for another file."""
    with file.open(encoding="utf-8-sig", errors="replace") as opened:
        if opened.read(1) != "{":
            return None
    try:
        log = json.loads(file.read_text(encoding="utf-8-sig"))
    except (ValueError, RecursionError):
        return None
    if "eval" not in log or not isinstance(log.get("samples"), list):
        return None
    return ((f"{file.name} sample {number}", _inspect_sample(row)) for number, row in enumerate(log["samples"], 1))


def _inspect_sample(sample: Any) -> Row | str:
    """Row from an Inspect sample: the prompt is the user's last message, the true text is the target."""
    if not isinstance(sample, Mapping) or "input" not in sample:
        return "is no sample of an Inspect log"
    prefix, target = sample["input"], sample.get("target")
    if not isinstance(prefix, str):
        prefix = next((_text_of(m.get("content")) for m in reversed(prefix) if m.get("role") == "user"), None)
    choices = (sample.get("output") or {}).get("choices") or []
    message = choices[0].get("message") or {} if choices and not sample.get("error") else {}
    labels = {name: value for name in _COPIED if (value := (sample.get("metadata") or {}).get(name)) is not None}
    return {
        "record_id": sample.get("id"),
        "prefix": prefix,
        "suffix": target if isinstance(target, str) or not target else target[0],
        "response": _text_of(message.get("content")),
        "finish_reason": choices[0].get("stop_reason") if choices else None,
        "sample": int(sample.get("epoch", 1)) - 1,
        **labels,
    }
