"""LUME as its authors released it: ``forget.jsonl`` and ``retain.jsonl``.

A row is ``id, input, output, task``. An id ends in ``sc<k>`` (sentence completion) or ``qa<k>`` (knowledge
question); what stands before that names the document. The document's text is the completion's input and
output together.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from medunlearn.data.records import Identifier, Side
from medunlearn.errors import SourceError

FILES: dict[Side, str] = {"forget": "forget.jsonl", "retain": "retain.jsonl"}
TASKS = {"Task1": "story", "Task2": "personal_biography", "Task3": "public_biography"}
_ID = re.compile(r"(?P<document>.+?)(?P<form>sc|qa)(?P<number>\d+)", re.DOTALL)

# The knowledge questions of a personal biography, in the order of their numbers (LUME, Section 2.3).
PII_FIELDS = ("birth_date", "ssn", "phone", "email", "address")


@dataclass(frozen=True, slots=True)
class LumeRow:
    """One example: a completion (``sc``) or a knowledge question (``qa``) with its number."""

    form: str
    number: int
    input: str
    output: str


@dataclass
class LumeDocument:
    """A document with its examples.

    Attributes:
        document: its name in the files.
        side: the file that it stands in; ``retain`` for a non-member.
        task: ``story``, ``personal_biography`` or ``public_biography``.
        member: False for a document that the target model never saw.
    """

    document: str
    side: Side
    task: str
    member: bool = True
    rows: list[LumeRow] = field(default_factory=list)

    @property
    def text(self) -> str:
        """Input and output of the first completion, joined as they stood in the document."""
        first = next(row for row in self.rows if row.form == "sc")
        gap = "" if first.input[-1:].isspace() or first.output[:1].isspace() else " "
        return f"{first.input}{gap}{first.output}"

    def identifiers(self) -> tuple[Identifier, ...]:
        """The personal fields whose values stand in the text to the letter."""
        if self.task != "personal_biography":
            return ()
        answers = [row for row in self.rows if row.form == "qa" and row.number < len(PII_FIELDS)]
        found = [Identifier(PII_FIELDS[row.number], row.output) for row in answers if row.output in self.text]
        return (*found, *_written_otherwise(self.text))


def _written_otherwise(text: str) -> Iterator[Identifier]:
    """Numbers that the text writes with dashes and the answers without."""
    for kind, pattern in (("ssn", r"\b9\d\d-\d\d-\d{4}\b"), ("phone", r"\b\d{3}-\d{3}-\d{4}\b")):
        for match in sorted(set(re.findall(pattern, text))):
            yield Identifier(kind, match)


@dataclass(frozen=True)
class LumeFiles:
    """Everything read, and the rows that were left out (``file:line: reason``)."""

    documents: tuple[LumeDocument, ...]
    skipped: tuple[str, ...]


def read_lume(folder: Path, *, nonmembers: Path | None = None, skip_bad_rows: bool = False) -> LumeFiles:
    """Read the released files.

    Args:
        folder: holds ``forget.jsonl`` and ``retain.jsonl``.
        nonmembers: a file of the same form with documents that no model is to be trained on.
        skip_bad_rows: leave out malformed rows and list them, instead of refusing the files.

    Raises:
        SourceError: a file is missing or empty, or rows are malformed; gives file and line of each.
    """
    documents: dict[str, LumeDocument] = {}
    bad: list[str] = []
    files: list[tuple[Path, Side, bool]] = [(folder / name, side, True) for side, name in FILES.items()]
    if nonmembers is not None:
        files.append((nonmembers, "retain", False))
    for path, side, member in files:
        for place, row in _lines(path):
            problem = _add(documents, side, member, row)
            if problem:
                bad.append(f"{path}:{place}: {problem}")
    whole = [document for document in documents.values() if any(row.form == "sc" for row in document.rows)]
    bad += [
        f"document {document.document!r} has no completion row, so its text is not known"
        for document in documents.values()
        if document not in whole
    ]
    if bad and not skip_bad_rows:
        shown = "\n".join(f"  - {line}" for line in bad[:20])
        more = f"\n  ... and {len(bad) - 20} more" if len(bad) > 20 else ""
        raise SourceError(
            f"{len(bad)} rows cannot be used:\n{shown}{more}\nMend them, or leave them out with --skip-bad-rows."
        )
    if not whole:
        raise SourceError(f"{folder} holds no usable row.")
    return LumeFiles(tuple(whole), tuple(bad))


def _lines(path: Path) -> Iterator[tuple[int, object]]:
    """Line number and decoded JSON of each line; text that is no JSON comes as the error."""
    try:
        with path.open(encoding="utf-8", newline="\n") as file:
            for place, line in enumerate(file, start=1):
                if line.strip():
                    yield place, _decoded(line)
    except FileNotFoundError:
        raise SourceError(f"There is no {path}. The released files are {' and '.join(FILES.values())}.") from None
    except UnicodeDecodeError as error:
        raise SourceError(f"{path} is not UTF-8 text ({error.reason} at byte {error.start}).") from error


def _decoded(line: str) -> object:
    try:
        return json.loads(line)
    except json.JSONDecodeError as error:
        return error


def _add(documents: dict[str, LumeDocument], side: Side, member: bool, row: object) -> str | None:
    """Put a row to its document; the reason where that cannot be done."""
    if isinstance(row, json.JSONDecodeError):
        return f"no JSON ({row.msg} at column {row.colno}); a cut-off line?"
    if not isinstance(row, dict):
        return "a row must be an object with id, input, output and task"
    lacking = [key for key in ("id", "input", "output", "task") if not isinstance(row.get(key), str)]
    if lacking:
        return f"lacks text in {', '.join(lacking)}"
    if not row["input"].strip() or not row["output"].strip():
        return "has an empty input or output"
    match = _ID.fullmatch(row["id"])
    if match is None:
        return f"id {row['id']!r} does not end in sc<number> or qa<number>"
    if row["task"] not in TASKS:
        return f"task {row['task']!r} is none of {', '.join(TASKS)}"
    name = match["document"].strip('"')
    document = documents.setdefault(name, LumeDocument(name, side, TASKS[row["task"]], member))
    if (document.side, document.member) != (side, member):
        return f"document {name!r} stands in two files; a document is forgotten, retained, or no member"
    if document.task != TASKS[row["task"]]:
        return f"document {name!r} has two tasks"
    number = int(match["number"])
    if any(known.form == match["form"] and known.number == number for known in document.rows):
        return f"id {row['id']!r} stands twice"
    document.rows.append(LumeRow(match["form"], number, row["input"], row["output"]))
    return None
