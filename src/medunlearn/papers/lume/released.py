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
from typing import NamedTuple

from medunlearn.data.builders import PII_FIELDS
from medunlearn.data.records import Fold, Identifier, Question, Record, Side
from medunlearn.errors import SourceError
from medunlearn.input_files import regular_file
from medunlearn.papers.lume.identifiers import identifiers_in
from medunlearn.sources.table_files import refuse_bad_rows

FILES: dict[Side, str] = {"forget": "forget.jsonl", "retain": "retain.jsonl"}
TASKS = {"Task1": "story", "Task2": "personal_biography", "Task3": "public_biography"}
_ID = re.compile(r"(?P<document>.+?)(?P<form>sc|qa)(?P<number>\d{1,9})", re.DOTALL)
_LONE_SURROGATE = re.compile(r"[\ud800-\udfff]")


class LumeRow(NamedTuple):
    """One example: a completion (``sc``) or a knowledge question (``qa``) with its number."""

    form: str
    number: int
    input: str
    output: str


@dataclass
class LumeDocument:
    """A document with its examples; the target model never saw one that is no member (its side is ``retain``)."""

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

    @property
    def fold(self) -> Fold:
        return "train" if self.member else "holdout"

    def identifiers(self) -> tuple[Identifier, ...]:
        """The person's name, birth date, numbers, e-mail and address, each as it stands in the text."""
        if self.task != "personal_biography":
            return ()
        rows = [row for row in self.rows if row.form == "qa"]
        return identifiers_in(
            self.text, {row.number: row.input for row in rows}, {row.number: row.output for row in rows}
        )

    def record(self) -> Record:
        groups = {"task": self.task, "document": self.document}
        return Record(self.document, self.text, groups, self.identifiers(), fold=self.fold)

    def questions(self) -> Iterator[Question]:
        """Provenance is ``released:story``; where a personal field is asked for, ``released:<task>:ssn``."""
        for row in self.rows:
            is_field = self.task == "personal_biography" and row.form == "qa" and row.number < len(PII_FIELDS)
            yield Question(
                question_id=f"{self.document}-{row.form}{row.number}",
                record_id=self.document,
                fold=self.fold,
                kind="completion" if row.form == "sc" else "knowledge",
                level="document",
                question=row.input,
                answer=row.output,
                provenance=f"released:{self.task}" + (f":{PII_FIELDS[row.number]}" if is_field else ""),
            )


class LumeFiles(NamedTuple):
    """Everything read, and the rows that were left out (``file:line: reason``)."""

    documents: tuple[LumeDocument, ...]
    skipped: tuple[str, ...]


def read_lume(folder: Path, *, nonmembers: Path | None = None, skip_bad_rows: bool = False) -> LumeFiles:
    """Read the released files.

    Args:
        nonmembers: a file of the same form with documents that no model is to be trained on.
        skip_bad_rows: leave out malformed rows and list them, instead of refusing the files.

    Raises:
        SourceError: a file is missing or empty, or rows are malformed; gives file and line of each.
    """
    documents: dict[str, LumeDocument] = {}
    files: list[tuple[Path, Side, bool]] = [(folder / name, side, True) for side, name in FILES.items()]
    if nonmembers is not None:
        files.append((nonmembers, "retain", False))
    bad = [
        (f"{path}:{place}", problem)
        for path, side, member in files
        for place, line in _lines(path)
        if (problem := _add(documents, side, member, line))
    ]
    complete = {name for name, document in documents.items() if any(row.form == "sc" for row in document.rows)}
    bad += [
        (f"document {name!r}", "no completion row, so its text is not known")
        for name in documents
        if name not in complete
    ]
    if not skip_bad_rows:
        refuse_bad_rows(bad)
    if not complete:
        raise SourceError(f"{folder} holds no usable row.")
    usable = tuple(document for name, document in documents.items() if name in complete)
    return LumeFiles(usable, tuple(f"{place}: {reason}" for place, reason in bad))


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    empty = True
    try:
        with regular_file(path, SourceError).open(encoding="utf-8-sig", newline="\n") as file:
            for place, line in enumerate(file, start=1):
                if line.strip():
                    empty = False
                    yield place, line
    except FileNotFoundError:
        raise SourceError(f"There is no {path}. The released files are {' and '.join(FILES.values())}.") from None
    except UnicodeDecodeError as error:
        raise SourceError(f"{path} is not UTF-8 text ({error.reason} at byte {error.start}).") from error
    except OSError as error:
        raise SourceError(f"{path} cannot be read: {error.strerror or error}.") from error
    if empty:
        raise SourceError(f"{path} is empty. Download it again.")


def _add(documents: dict[str, LumeDocument], side: Side, member: bool, line: str) -> str:
    """Put a row to its document; the reason where that cannot be done."""
    try:
        row = json.loads(line)
    except json.JSONDecodeError as error:
        return f"no JSON ({error.msg} at column {error.colno}); a cut-off line?"
    except (ValueError, RecursionError) as error:
        # A number of thousands of digits, or thousands of brackets: no row of ours, whatever it is.
        return f"no JSON ({str(error) or 'too deep'} at column 1); a cut-off line?"
    if not isinstance(row, dict):
        return "a row must be an object with id, input, output and task"
    lacking = [key for key in ("id", "input", "output", "task") if not isinstance(row.get(key), str)]
    if lacking:
        return f"lacks text in {', '.join(lacking)}"
    if any(_LONE_SURROGATE.search(row[key]) for key in ("id", "input", "output")):
        return "holds half a character (a lone surrogate), which no file can keep"
    if not row["input"].strip() or not row["output"].strip():
        return "has an empty input or output"
    match = _ID.fullmatch(row["id"])
    if match is None:
        return f"id {row['id']!r} does not end in sc<number> or qa<number>"
    if row["task"] not in TASKS:
        return f"task {row['task']!r} is none of {', '.join(TASKS)}"
    name, form, number = match["document"].strip('"'), match["form"], int(match["number"])
    document = documents.setdefault(name, LumeDocument(name, side, TASKS[row["task"]], member))
    if (document.side, document.member) != (side, member):
        return f"document {name!r} stands in two files; a document is forgotten, retained, or no member"
    if document.task != TASKS[row["task"]]:
        return f"document {name!r} has two tasks"
    if any((known.form, known.number) == (form, number) for known in document.rows):
        return f"id {row['id']!r} stands twice"
    document.rows.append(LumeRow(form, number, row["input"], row["output"]))
    return ""
