"""Stored responses as a respondent: a table, an Inspect log, lm-eval samples or a batch output. No torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from medunlearn.data.data_use import DataUse, use_of_file
from medunlearn.data.records import Question
from medunlearn.data.responses import CUT, ROW_GROUP, Response, ResponseStore
from medunlearn.data.storage import sha256_of
from medunlearn.errors import SourceError
from medunlearn.generation.decodings import GREEDY_NAME
from medunlearn.metrics.measure import Need
from medunlearn.probes.respondents import TEXT_ALONE, Asking, Choices, Key, Material
from medunlearn.probes.response_logs import INSPECT, RESPONSE, read_response_rows
from medunlearn.sources.table_files import refuse_bad_rows

EMPTY = "the file holds no response"
MISSING = "the file has no row of this probe"
IDS = ("question_id", "probe_id", "custom_id", "record_id", "id")
"""Accepted names of the column that names a question; the first one of a row counts."""
_ENDINGS = (".jsonl", ".ndjson", ".csv", ".tsv", ".parquet", ".json", INSPECT)


def is_table(path: Path) -> bool:
    """True if a path is a table of responses."""
    return path.is_file() and path.suffix.lower() in _ENDINGS


def file_identity(file: Path, references: Path | None = None) -> list[str]:
    """Part of the run's key.

    Raises:
        SourceError: there is no such file.
    """
    if not file.is_file():
        raise SourceError(f"There is no file {file}. Stored responses are a table: JSONL, CSV or Parquet.")
    return ["responses", sha256_of(file), *([] if references is None else [sha256_of(references)])]


@dataclass
class StoredResponses:
    """Responses of a file, by probe, decoding and sample. They are text alone.

    Attributes:
        reasons: why a row has no response.
        references: table of prompts and true texts, for a file without them.
    """

    file: Path
    label: str
    responses: Mapping[Key, Response] = field(default_factory=dict)
    reasons: Mapping[Key, str] = field(default_factory=dict)
    references: Path | None = None
    gives: frozenset[Need] = TEXT_ALONE
    problems: tuple[str, ...] = ()
    tokenizer: None = None

    @property
    def data_use(self) -> DataUse | None:
        return use_of_file(self.file)

    def identity(self) -> Any:
        return file_identity(self.file, self.references)

    def facts(self) -> dict[str, Any]:
        return {"kind": "stored responses", "source": str(self.file)}

    def check(self, material: Material) -> None:
        return

    def answer(self, asking: Asking, store: ResponseStore, advance: Callable[[int], None]) -> dict[Key, str]:
        """Copy the responses into the store; returns the reason of each missing one.

        Raises:
            SourceError: the file has a response to none of the prompts.
        """
        keys, stored = asking.keys(), store.read()
        present = [self.responses[key] for key in keys if key in self.responses]
        if keys and not present:
            raise SourceError(f"{self.file} has a response to none of the {len(keys):,} probes that are asked.")
        new = [response for response in present if _key(response) not in stored]
        for start in range(0, len(new), ROW_GROUP):
            store.add(new[start : start + ROW_GROUP])
        advance(len(keys))
        return {key: self.reasons.get(key, MISSING) for key in keys if key not in self.responses}

    def rate(self, choices: Choices, store: ResponseStore, advance: Callable[[int], None]) -> None:
        return None

    def tries_again(self, facts: Mapping[str, Any]) -> bool:
        return False


def read_answers(file: Path, questions: Sequence[Question], label: str | None = None) -> StoredResponses:
    """Responses to a benchmark's questions.

    A row names its question (:data:`IDS`) and has a ``response``; ``sample`` 0 or none counts.

    Args:
        questions: all questions of the benchmark.

    Raises:
        SourceError: no such file, a row that names no question or one that the benchmark does not have, or a
            question that is answered twice.
    """
    file_identity(file)
    references = {q.question_id: {"prefix": q.question, "suffix": q.answer} for q in questions}
    responses, reasons = dict[Key, Response](), dict[Key, str]()
    bad, unknown = list[tuple[str, str]](), list[str]()
    for place, row in read_response_rows(file, references):
        if isinstance(row, str):
            bad.append((place, row))
            continue
        name = next((str(row[column]) for column in IDS if row.get(column) is not None), None)
        text = next((row[column] for column in RESPONSE if column in row), _ABSENT)
        if name is None or text is _ABSENT:
            bad.append((place, f"has no {'question_id' if name is None else 'response'}"))
            continue
        if name not in references:
            unknown.append(place)
            continue
        if int(row.get("sample") or 0):
            continue
        key = name, GREEDY_NAME, 0
        if key in responses or key in reasons:
            raise SourceError(
                f"{place}: question {name!r} is answered twice in {file}. Keep one response, or number samples "
                "from 0."
            )
        if text is None:
            reasons[key] = EMPTY
        else:
            responses[key] = stored_response(key, str(text), (), row.get("finish_reason"))
    refuse_bad_rows(bad, file, skippable=False)
    if unknown:
        raise SourceError(
            f"{len(unknown):,} rows of {file} name no question of the benchmark; the first is {unknown[0]}. Name "
            "the benchmark whose questions were asked, and its ids in question_id."
        )
    return StoredResponses(file, label or file.name.split(".")[0], responses, reasons)


def stored_response(key: Key, text: str, tokens: tuple[int, ...], finish_reason: Any = None) -> Response:
    """A response of a file; finished unless the file says that a limit ended it.

    Args:
        finish_reason: the server's word, of a table's column ``finish_reason`` or a log; None if it is unknown.
    """
    reason = None if finish_reason is None else str(finish_reason)
    return Response(*key, text, tokens, finished=reason not in CUT, finish_reason=reason or None)


_ABSENT = object()


def _key(response: Response) -> Key:
    return response.question_id, response.variant, response.sample
