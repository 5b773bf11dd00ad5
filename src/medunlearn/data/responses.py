"""Store of responses on disk, written in batches: a crash loses at most the current batch.

A store is a folder with ``settings.json`` (everything that the responses depend on) and numbered Parquet
parts; many are joined when a stage ends. A response is identified by its question, its variant (context mode,
attack level) and its sample number.
Several processes may write to one store: a part's name ends in the hash of its content, so that none overwrites
another's.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from medunlearn.data import storage
from medunlearn.data.data_use import DataUse, recorded_use, tighter_record
from medunlearn.data.leftovers import read_whole, set_aside
from medunlearn.data.records import Question
from medunlearn.data.refusals import REFUSED
from medunlearn.errors import BenchmarkError, InputError, StorageError

LogProbs = tuple[tuple[float, ...], ...]
"""Natural-log probabilities of the tokens of each option of a question."""

SETTINGS = "settings.json"
JOINED_FROM = 32
"""Parts from which a store's are joined: fewer cost nothing to read."""
ROW_GROUP = 10_000
RESPONSES = pa.schema(
    [
        ("question_id", pa.string()),
        ("variant", pa.string()),
        ("sample", pa.int32()),
        ("response", pa.string()),
        ("response_tokens", pa.list_(pa.int32())),
        ("finished", pa.bool_()),
        ("answer_log_probs", pa.list_(pa.float32())),
        ("answer_hits", pa.list_(pa.bool_())),
    ]
)
REPLIES = pa.schema(
    [
        ("finish_reason", pa.string()),
        ("content", pa.string()),
        ("reasoning", pa.string()),
        ("refusal", pa.string()),
        ("prompt_tokens", pa.int32()),
        ("completion_tokens", pa.int32()),
        ("served_model", pa.string()),
        ("refused_fields", pa.list_(pa.string())),
    ]
)
"""Columns of a server's replies; a part without any, such as an older one or a local model's, lacks them all."""
CUT = frozenset({"length", "max_tokens", "model_length"})
"""Reasons of servers for an answer that a limit ended."""
TOOLS = "the server sent a call of a tool instead of an answer"
REASONING = "the server sent reasoning alone, and no answer"
EMPTY = "the server sent an empty answer"
CUT_ELSEWHERE = "the answer was cut by another limit than the one asked for"
_TOOL_REASONS = frozenset({"tool_calls", "function_call"})


@dataclass(frozen=True, slots=True)
class Response:
    """A model's response to a question, and its likelihood of the reference answer.

    The attributes from ``finish_reason`` on are what a server says of its reply; None if it is unknown.

    Attributes:
        variant: context mode, and attack level if any.
        sample: 0 for greedy decoding.
        response_tokens: token ids of the response without EOS.
        finished: the model generated an end token.
        answer_log_probs: teacher-forced log-probability of each token of the reference answer, EOS last; None if
            not computed.
        answer_hits: whether each of them was the arg-max; None likewise.
        finish_reason: why the reply ended, in the server's word: stop, length, content_filter, tool_calls, ...
        content: form of the reply's text: ``text``, ``empty``, ``null``.
        reasoning, refusal: texts that the server sends apart from the answer.
        prompt_tokens, completion_tokens: of this reply, as counted by the server.
        served_model: the model's name in the reply.
        refused_fields: sampling fields that the server refused, so that its own settings apply.
    """

    question_id: str
    variant: str
    sample: int
    response: str
    response_tokens: tuple[int, ...]
    finished: bool
    answer_log_probs: tuple[float, ...] | None = None
    answer_hits: tuple[bool, ...] | None = None
    finish_reason: str | None = None
    content: str | None = None
    reasoning: str | None = None
    refusal: str | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    served_model: str | None = None
    refused_fields: tuple[str, ...] | None = None

    @property
    def cut(self) -> bool:
        """True if a limit on tokens ended the response before the model did; so is one that nobody says ended."""
        return self.finish_reason in CUT or (not self.finished and self.finish_reason is None)

    def is_cut_before(self, asked: int) -> bool:
        """True if another limit than the ``asked`` number of tokens ended the response.

        That is a server's own, by its count of tokens, or one that nobody knows, of a stored response.
        """
        if self.finish_reason not in CUT:
            return False
        served = self.content is not None
        return not served if self.completion_tokens is None else self.completion_tokens < asked

    @property
    def unanswered(self) -> str:
        """Reason for which a server's reply is no answer, as the server says; "" for one, if only of no words."""
        if self.refusal or self.finish_reason == "content_filter":
            return REFUSED
        if self.response.strip():
            return ""
        if self.finish_reason in _TOOL_REASONS:
            return TOOLS
        return REASONING if self.reasoning else EMPTY if self.content == "null" else ""


Responses = dict[tuple[str, str, int], Response]
"""By question, variant and sample."""


def responses_digest(responses: Iterable[Response]) -> str:
    """SHA-256 over a model's responses, independent of their order and parts on disk."""
    rows = sorted((r.question_id, r.variant, r.sample, r.response, r.response_tokens) for r in responses)
    return storage.sha256_of_json(iter(rows))


class ResponseStore:
    """Responses of one model under one set of settings.

    Args:
        folder: folder of the store; created with the first batch.
        data_use: data use of model and questions; recorded next to the settings, but not part of them.
        settings: everything that responses depend on (model fingerprint, template, decoding). A folder with other
            settings is refused.

    Raises:
        InputError: the folder holds responses of other settings.
    """

    def __init__(self, folder: Path, settings: Mapping[str, Any], *, data_use: DataUse | None = None) -> None:
        self.folder = folder
        self.settings = dict(settings)
        stored_settings = read_whole(folder / SETTINGS, lambda path: self.settings_of(path.parent))
        if stored_settings is None and self._parts():
            # Nobody knows under which settings they were made.
            for part in self._parts():
                set_aside(part, f"its store has no {SETTINGS}")
        if stored_settings is not None and stored_settings != self.settings:
            raise InputError(f"{folder} contains responses made with other settings. Choose another folder.")
        self._recorded = recorded_use(folder)
        self.data_use = tighter_record(self._recorded, data_use)
        self._next = 1 + max(map(_number, self._parts()), default=-1)

    @staticmethod
    def settings_of(folder: Path) -> dict[str, Any]:
        """The settings of an existing store.

        Raises:
            InputError: the folder is not a store.
        """
        settings: dict[str, Any] = storage.read_json(folder / SETTINGS)
        return {name: value for name, value in settings.items() if name != "data_use"}

    def _parts(self) -> list[Path]:
        return sorted(self.folder.glob("part-*.parquet"))

    def add(self, responses: Iterable[Response]) -> None:
        """Store a batch, and return once it is on disk.

        Raises:
            StorageError: the disk refused; earlier batches stay.
        """
        if not (self.folder / SETTINGS).exists() or self._recorded != self.data_use:
            use = {} if self.data_use is None else {"data_use": self.data_use}
            storage.write_json(self.folder / SETTINGS, {**self.settings, **use})
            self._recorded = self.data_use
        # Not `asdict`, which copies every token by itself.
        batch = list(responses)
        served = any(getattr(response, name) is not None for response in batch for name in REPLIES.names)
        schema = pa.schema([*RESPONSES, *REPLIES]) if served else RESPONSES
        rows = [{name: getattr(response, name) for name in schema.names} for response in batch]
        content = storage.table_bytes(rows, schema)
        name = f"part-{self._next:05d}-{hashlib.sha256(content).hexdigest()[:8]}.parquet"
        storage.write_bytes(self.folder / name, content)
        self._next += 1

    def read(self) -> Responses:
        """Read all responses. A broken part is set aside, and its responses count as missing."""
        return _read_parts(self.folder, lambda part: read_whole(part, _columns))

    def join(self) -> bool:
        """Join many parts into one, when a stage ends; False if there are few, or the disk or a part refused.

        The joined part is complete before any other is removed: whatever stops it, every response stays readable.
        """
        parts = self._parts()
        if len(parts) < JOINED_FROM:
            return False
        digest = hashlib.sha256(" ".join(part.name for part in parts).encode()).hexdigest()
        number = 1 + max(_number(part) for part in parts)
        try:
            _write_joined(self.folder / f"part-{number:05d}-{digest[:8]}.parquet", parts)
        except (StorageError, InputError, BenchmarkError, OSError, pa.ArrowException):
            return False
        self._next = number + 1
        for part in parts:
            part.unlink(missing_ok=True)
        return True

    @staticmethod
    def read_complete(folder: Path) -> Responses:
        """Read the store of a complete run; empty without a store.

        Raises:
            InputError: a part is broken.
        """
        try:
            return _read_parts(folder, _columns)
        except BenchmarkError as error:
            raise InputError(
                f"{str(error).partition(' It is truncated')[0]} Its responses are lost: remove the results "
                "computed from them and rerun the command that generated them; it requests only missing responses."
            ) from error


def _number(part: Path) -> int:
    return int(part.stem.split("-")[1])


def _write_joined(path: Path, parts: Sequence[Path]) -> None:
    """Write the rows of some parts to one file, a few thousand at a time."""
    served = any(set(REPLIES.names) & set(pq.read_schema(part).names) for part in parts)
    schema = pa.schema([*RESPONSES, *REPLIES]) if served else RESPONSES
    pending: list[pa.Table] = []
    with storage.atomic_file(path) as file, pq.ParquetWriter(file, schema, compression="zstd") as writer:
        for place, part in enumerate(parts, start=1):
            table = pq.ParquetFile(part).read()
            if not set(RESPONSES.names) <= set(table.column_names) <= set(schema.names):
                raise BenchmarkError(f"{part} has other columns than responses have.")
            columns = {field.name: pa.nulls(len(table), field.type) for field in schema}
            columns |= {name: table.column(name) for name in table.column_names}
            pending.append(pa.table([columns[name] for name in schema.names], schema=schema))
            if sum(map(len, pending)) >= ROW_GROUP or place == len(parts):
                writer.write_table(pa.concat_tables(pending))
                pending = []


def _read_parts(folder: Path, read: Callable[[Path], pa.Table | None]) -> Responses:
    """The responses of all parts; read again if another process has joined some meanwhile."""
    while True:
        parts = sorted(folder.glob("part-*.parquet"))
        try:
            stored = _responses(map(read, parts))
        except BenchmarkError:
            if all(map(os.path.lexists, parts)):
                raise
            continue
        if all(map(os.path.lexists, parts)):
            return stored


def _columns(part: Path) -> pa.Table:
    return storage.read_columns(part, RESPONSES, optional=REPLIES)


def _responses(parts: Iterable[pa.Table | None]) -> Responses:
    stored: Responses = {}
    share = dict[str, str]().setdefault
    for part in parts:
        if part is None:
            continue
        names = [name for name in (*RESPONSES.names, *REPLIES.names) if name in part.column_names]
        for name, variant, sample, *others in storage.rows_of(part, names):
            variant = share(variant, variant)
            values: list[Any] = [tuple(value) if isinstance(value, list) else value for value in others]
            stored[name, variant, sample] = Response(
                name, variant, sample, **dict(zip(names[3:], values, strict=True))
            )
    return stored


def rated_options(responses: Responses, questions: Sequence[Question], variant: str) -> dict[str, LogProbs]:
    """Log-probabilities of the options, for questions whose options are all stored."""
    options = {}
    for question in questions:
        rated = [responses.get((question.question_id, variant, place)) for place in range(len(question.options))]
        log_probs = [
            option.answer_log_probs
            for option in rated
            if option is not None and option.answer_log_probs is not None
        ]
        if rated and len(log_probs) == len(rated):
            options[question.question_id] = tuple(log_probs)
    return options
