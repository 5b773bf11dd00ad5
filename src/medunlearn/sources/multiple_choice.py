"""Multiple-choice questions from a file: the formats of MedQA and MedMCQA, and other common ones.

Options are searched in this order:

- ``opa``, ``opb``, ... (MedMCQA), or ``A``, ``B``, ... as columns;
- ``options`` or ``choices``: a list of texts, an object of letter -> text (MedQA), a list of objects with ``value``
  or ``text``, or an object of two lists ``label`` and ``text``; in a CSV as JSON.

The right one is a letter, a whole number, or the option's text, in ``answer_idx``, ``answer_index``, ``answerKey``,
``cop``, ``label`` or ``answer``. Whole numbers count from 0 or from 1: this is detected if one of them is 0 or the
number of options; otherwise (MedMCQA was published both ways) it must be given.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from string import ascii_uppercase
from typing import Any, Literal

from medunlearn.data.splits import shuffled
from medunlearn.errors import SourceError
from medunlearn.sources.table_files import BadRowError, Row, list_bad_rows, read_rows

CountFrom = Literal[0, 1]
IDS = ("question_id", "id", "realidx")
QUESTIONS = ("question", "query", "stem")
SUBJECTS = ("subject", "subject_name")
LISTS = ("options", "choices")
ANSWERS = ("answer_idx", "answer_index", "answerKey", "cop", "label", "answer")
NO_ANSWER = (None, "", -1, "-1")


@dataclass(frozen=True, slots=True)
class MultipleChoice:
    """One question without its options, and at least two options in file order; the first is called A.

    ``answer_index`` is the index of the right option, and ``subject`` the topic, None if unknown.
    """

    question_id: str
    question: str
    options: tuple[str, ...]
    answer_index: int | None = None
    subject: str | None = None

    @property
    def gold(self) -> str | None:
        """Letter of the right option."""
        return None if self.answer_index is None else letter(self.answer_index)

    def lines(self, *, without: int | None = None) -> str:
        """The options, one per line with letters (``B. Aspirin``), optionally without one of them."""
        remaining = [(place, text) for place, text in enumerate(self.options) if place != without]
        return "\n".join(f"{letter(place)}. {text}" for place, text in remaining)


@dataclass(frozen=True, slots=True)
class OptionsFile:
    """Questions of a file, and place and reason of each skipped row."""

    questions: tuple[MultipleChoice, ...]
    skipped: tuple[str, ...] = ()


def letter(place: int) -> str:
    """``A`` for the first option, and so on."""
    return ascii_uppercase[place]


def read_options(path: Path, *, count_from: CountFrom | None = None, skip_bad_rows: bool = False) -> OptionsFile:
    """Questions of a CSV, TSV, JSONL, JSON or Parquet file.

    Args:
        count_from: first number of numeric answers (0 or 1); None: detected.
        skip_bad_rows: skip and list unreadable rows instead of refusing the file.

    Raises:
        SourceError: unreadable rows, with their places; no question; ambiguous numeric answers.
    """
    rows: list[tuple[str, MultipleChoice, Any]] = []
    bad: list[tuple[str, str]] = []
    ids: set[str] = set()
    for number, (place, row) in enumerate(read_rows(path)):
        try:
            if isinstance(row, str):
                raise BadRowError(row)
            question, answer = _question(row, number)
            if question.question_id in ids:
                raise BadRowError(f"the id {question.question_id!r} occurred before")
            ids.add(question.question_id)
            rows.append((place, question, answer))
        except BadRowError as error:
            bad.append((place, str(error)))
    first = count_from if count_from is not None else _counted_from(path, rows)
    questions = []
    for place, question, answer in rows:
        try:
            questions.append(replace(question, answer_index=_answer(answer, question.options, first)))
        except BadRowError as error:
            bad.append((place, str(error)))
    if bad and not skip_bad_rows:
        raise SourceError(
            f"{path}: {len(bad)} rows cannot be read. Correct them, or skip them with "
            f"skip_bad_rows=true:{list_bad_rows(bad, 10)}"
        )
    if not questions:
        raise SourceError(f"{path} holds no question that can be read.")
    return OptionsFile(tuple(questions), tuple(f"{place}: {reason}" for place, reason in bad))


def draw_sample(questions: Sequence[MultipleChoice], number: int | None, seed: int) -> list[MultipleChoice]:
    """A seeded sample of questions by their ids, in file order; all of them for None."""
    if number is None or number >= len(questions):
        return list(questions)
    sample = set(
        shuffled([question.question_id for question in questions], "multiple-choice sample", seed)[:number]
    )
    return [question for question in questions if question.question_id in sample]


def _question(row: Row, number: int) -> tuple[MultipleChoice, Any]:
    text = _text(_first_value(row, QUESTIONS))
    if not text:
        raise BadRowError(f"no text in {', '.join(QUESTIONS)}")
    options = tuple(_options(row))
    if len(options) < 2:
        raise BadRowError("fewer than two options (columns opa, opb, ...; A, B, ...; options; choices)")
    if len(options) > len(ascii_uppercase):
        raise BadRowError(f"{len(options)} options; there are {len(ascii_uppercase)} letters")
    if "" in options:
        raise BadRowError(f"option {letter(options.index(''))} is empty")
    question_id = _first_value(row, IDS)
    name = f"q{number:05d}" if question_id is None else str(question_id)
    subject = _text(_first_value(row, SUBJECTS)) or None
    return MultipleChoice(name, text, options, subject=subject), _given_answer(row, options)


def _given_answer(row: Row, options: Sequence[str]) -> Any:
    """The right option in the row's own notation; a letter and a text must agree if both are given."""
    answer = _first_value(row, ANSWERS)
    text = _text(row.get("answer"))
    if isinstance(answer, str) and len(answer.strip()) == 1 and text in options and text != answer.strip():
        place = ascii_uppercase.find(answer.strip().upper())
        if 0 <= place < len(options) and options[place] != text:
            raise BadRowError(f"the answer is {answer.strip()}, and another option's text")
    return answer


def _options(row: Row) -> Iterator[str]:
    for names in ([f"op{name.lower()}" for name in ascii_uppercase], list(ascii_uppercase)):
        if names[0] in row and names[1] in row:
            yield from _without_empty_end(_text(row.get(name)) for name in names)
            return
    options = _first_value(row, LISTS)
    if isinstance(options, str):
        try:
            options = json.loads(options)
        except ValueError:
            raise BadRowError("the options are not a JSON list or object") from None
    if isinstance(options, Mapping) and isinstance(options.get("text"), Sequence) and "label" in options:
        options = options["text"]
    if isinstance(options, Mapping):
        options = _without_empty_end(_text(text) for _, text in sorted(options.items()))
    for option in options if isinstance(options, Sequence) else ():
        yield _text(option.get("value", option.get("text")) if isinstance(option, Mapping) else option)


def _without_empty_end(texts: Iterable[str]) -> list[str]:
    """Options without trailing empty ones, such as for a question with four in a file of five."""
    options = list(texts)
    while options and not options[-1]:
        options.pop()
    return options


def _counted_from(path: Path, rows: Sequence[tuple[str, MultipleChoice, Any]]) -> CountFrom:
    numbers = [(_place_number(answer, question.options), len(question.options)) for _, question, answer in rows]
    places = [(number, count) for number, count in numbers if number is not None]
    zero, last = any(number == 0 for number, _ in places), any(number == count for number, count in places)
    if places and zero == last:
        raise SourceError(
            f"{path}: the answers are numbers, and "
            + ("some are 0 and some the number of options" if zero else "it is unknown whether A is 0 or 1")
            + ". Say it: --count-from 0 or --count-from 1."
        )
    return 1 if last else 0


def _place_number(answer: Any, options: Sequence[str]) -> int | None:
    """Number of an option given by a numeric answer; None for other answers.

    If the answer equals exactly one option's text, it is that option and not a number.
    """
    if answer in NO_ANSWER or isinstance(answer, bool) or options.count(_text(answer)) == 1:
        return None
    if isinstance(answer, float) and answer.is_integer():
        return int(answer)
    if isinstance(answer, str) and re.fullmatch(r"\d{1,9}", answer.strip()):
        return int(answer)
    return answer if isinstance(answer, int) else None


def _answer(answer: Any, options: Sequence[str], first: CountFrom) -> int | None:
    if answer in NO_ANSWER:
        return None
    text = _text(answer)
    if (number := _place_number(answer, options)) is not None:
        place = number - first
    elif len(text) == 1 and text.upper() in ascii_uppercase and text not in options:
        place = ascii_uppercase.index(text.upper())
    elif options.count(text) == 1:
        place = options.index(text)
    else:
        raise BadRowError("the answer is neither a letter, a number, nor one of the options")
    if not 0 <= place < len(options):
        raise BadRowError(f"the answer is option {place + 1} of {len(options)}")
    return place


def _first_value(row: Row, names: Sequence[str]) -> Any:
    return next((row[name] for name in names if row.get(name) is not None), None)


def _text(value: Any) -> str:
    return "" if value is None else str(value).strip()
