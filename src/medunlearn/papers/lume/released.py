"""LUME as its authors released it: ``forget.jsonl`` and ``retain.jsonl``.

A row is ``id, input, output, task``. An id ends in ``sc<k>`` (sentence completion) or ``qa<k>`` (knowledge
question); the part before it names the document. The document's text is the completion's input and
output together.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple

from medunlearn.data.records import Fold, Identifier, Question, Record, Side
from medunlearn.errors import SourceError
from medunlearn.input_files import regular_file, told_unreadable
from medunlearn.papers.lume import PERSONAL, PII_FIELDS, TASKS
from medunlearn.sources.table_files import BROKEN, READERS, refuse_bad_rows
from medunlearn.synthetic.people import written_date

FILES: dict[Side, str] = {"forget": "forget.jsonl", "retain": "retain.jsonl"}
TASK_NAMES = dict(zip(("Task1", "Task2", "Task3"), TASKS, strict=True))
_ID = re.compile(r"(?P<document>.+?)(?P<form>sc|qa)(?P<number>\d{1,9})", re.DOTALL)
_NAME = re.compile(r"What is (?:the [\w ]+ of (?P<of>.+)|(?P<own>.+?)['’]s? [\w ]+)\?")
_EMAIL = re.compile(r"[A-Za-z0-9_.+\\-]+@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+")
_PHONE = re.compile(r"(?<![\d-])(?:1[-. ])?\(?\d{3}\)?[-. ]{1,2}\d{3}[-. ]\d{4}(?![\d-])")


class LumeRow(NamedTuple):
    """One example: a completion (``sc``) or a knowledge question (``qa``) with its number."""

    form: str
    number: int
    input: str
    output: str


@dataclass
class LumeDocument:
    """A document with its examples; a non-member was never seen by the target model (its side is ``retain``)."""

    document: str
    side: Side
    task: str
    member: bool = True
    rows: list[LumeRow] = field(default_factory=list)

    @property
    def text(self) -> str:
        """Input and output of the first completion, joined as in the document."""
        first = next(row for row in self.rows if row.form == "sc")
        gap = "" if first.input[-1:].isspace() or first.output[:1].isspace() else " "
        return f"{first.input}{gap}{first.output}"

    @property
    def fold(self) -> Fold:
        return "train" if self.member else "holdout"

    def identifiers(self) -> tuple[Identifier, ...]:
        """The person's name, birth date, numbers, e-mail and address, each as it stands in the text."""
        if self.task != PERSONAL:
            return ()
        rows = [row for row in self.rows if row.form == "qa"]
        return identifiers_in(
            self.text, {row.number: row.input for row in rows}, {row.number: row.output for row in rows}
        )

    def record(self) -> Record:
        groups = {"task": self.task, "document": self.document}
        return Record(self.document, self.text, groups, self.identifiers(), fold=self.fold)

    def questions(self) -> Iterator[Question]:
        """Questions with provenance ``released:story``; for a personal field ``released:<task>:ssn``."""
        for row in self.rows:
            is_field = self.task == PERSONAL and row.form == "qa" and row.number < len(PII_FIELDS)
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
    """Everything read, and the skipped rows (``file:line: reason``)."""

    documents: tuple[LumeDocument, ...]
    skipped: tuple[str, ...]


def read_lume(folder: Path, *, nonmembers: Path | None = None, skip_bad_rows: bool = False) -> LumeFiles:
    """Read the released files.

    Args:
        nonmembers: a file of the same form with documents to exclude from training.
        skip_bad_rows: skip and list malformed rows instead of refusing the files.

    Raises:
        SourceError: a file is missing or empty, or rows are malformed; gives file and line of each.
    """
    documents: dict[str, LumeDocument] = {}
    files: list[tuple[Path, Side, bool]] = [(folder / name, side, True) for side, name in FILES.items()]
    if nonmembers is not None:
        files.append((nonmembers, "retain", False))
    bad = [
        (str(path.parent / place), problem)
        for path, side, member in files
        for place, row in _rows(path)
        if (problem := _add(documents, side, member, row))
    ]
    complete = {name for name, document in documents.items() if any(row.form == "sc" for row in document.rows)}
    textless = (name for name in documents if name not in complete)
    bad += [(f"document {name!r}", "no completion row, so its text is not known") for name in textless]
    if not skip_bad_rows:
        refuse_bad_rows(bad)
    if not complete:
        raise SourceError(f"{folder} holds no usable row.")
    usable = tuple(document for name, document in documents.items() if name in complete)
    return LumeFiles(usable, tuple(f"{place}: {reason}" for place, reason in bad))


def _rows(path: Path) -> list[tuple[str, Any]]:
    with told_unreadable(path, SourceError):
        rows = list(READERS[".jsonl"](regular_file(path, SourceError)))
    if not rows:
        raise SourceError(f"{path} is empty. Download it again.")
    return rows


def _add(documents: dict[str, LumeDocument], side: Side, member: bool, row: Any) -> str:
    """Add a row to its document; returns a reason if that is impossible."""
    if isinstance(row, str):
        return row
    lacking = [key for key in ("id", "input", "output", "task") if not isinstance(row.get(key), str)]
    if lacking:
        return f"lacks text in {', '.join(lacking)}"
    if any(BROKEN.search(row[key]) for key in ("id", "input", "output")):
        return "holds half a character (a lone surrogate) or a zero byte; what wrote the file broke it"
    if not row["input"].strip() or not row["output"].strip():
        return "has an empty input or output"
    match = _ID.fullmatch(row["id"])
    if match is None:
        return f"id {row['id']!r} does not end in sc<number> or qa<number>"
    if row["task"] not in TASK_NAMES:
        return f"task {row['task']!r} is none of {', '.join(TASK_NAMES)}"
    name, form, number = match["document"].strip('"'), match["form"], int(match["number"])
    document = documents.setdefault(name, LumeDocument(name, side, TASK_NAMES[row["task"]], member))
    if (document.side, document.member) != (side, member):
        return f"document {name!r} stands in two files; a document is forgotten, retained, or no member"
    if document.task != TASK_NAMES[row["task"]]:
        return f"document {name!r} has two tasks"
    if any((other.form, other.number) == (form, number) for other in document.rows):
        return f"id {row['id']!r} stands twice"
    document.rows.append(LumeRow(form, number, row["input"], row["output"]))
    return ""


def identifiers_in(text: str, questions: Mapping[int, str], answers: Mapping[int, str]) -> tuple[Identifier, ...]:
    """Every personal field that occurs in a text, exactly as written there, without duplicates.

    Answers are in one form (``1969-12-21``, ``900226238``); texts have others (``December 21, 1969``,
    ``900-22-6238``, an e-mail with its underscore escaped).

    Args:
        questions, answers: by number, in the order of :data:`PII_FIELDS`; questions contain the person's name.
    """
    value = {field: answers.get(number, "").strip() for number, field in enumerate(PII_FIELDS)}
    matches = [_NAME.fullmatch(questions[number].strip()) for number in sorted(questions)]
    names = [match["of"] or match["own"] for match in matches if match]
    values = {
        "name": [name for name in names if name in text],
        "birth_date": [form for form in _date_forms(value["birth_date"]) if form in text],
        "ssn": _numbers(value["ssn"], text),
        # A few texts give the number per digit more than the answer has; it stands there all the same.
        "phone": list(_numbers(value["phone"], text)) or _PHONE.findall(text),
        "email": _EMAIL.findall(text),
        "address": _address(value["address"].rstrip("."), text),
    }
    return tuple(dict.fromkeys(Identifier(kind, form) for kind, forms in values.items() for form in forms))


def _date_forms(value: str) -> tuple[str, ...]:
    """A date in every notation used in the texts."""
    try:
        day = date.fromisoformat(value)
    except ValueError:
        return (value,) if value else ()
    in_words = written_date(day)
    month = in_words.partition(" ")[0]
    return (value, in_words, f"{day.day} {month} {day.year}", f"{day:%m/%d/%Y}")


def _numbers(value: str, text: str) -> Iterator[str]:
    """A number's digits with the spaces, dashes, points and brackets that the text puts between them."""
    digits = re.sub(r"\D", "", value)
    if len(digits) < 7:
        return
    pattern = r"(?<!\d)\(?" + r"[-. ()]{0,2}".join(digits) + r"(?!\d)"
    for match in re.finditer(pattern, text):
        form = match.group()
        yield form if ")" in form else form.lstrip("(")


def _address(value: str, text: str) -> Iterator[str]:
    """The address; if the text words it differently ("Apt. #4"), everything from its house number to its ZIP
    code.
    """
    if not value:
        return
    if value in text:
        yield value
        return
    start, zips = re.match(r"\S+ \S+", value), re.findall(r"\b\d{5}\b", value)
    if start is None:
        return
    if zips and (match := re.search(rf"{re.escape(start.group())}.{{0,100}}?\b{zips[-1]}\b", text)):
        yield match.group()
        return
    parts = value.split(", ")
    for length in range(len(parts) - 1, 0, -1):
        if (beginning := ", ".join(parts[:length])) in text:
            yield beginning
            return
