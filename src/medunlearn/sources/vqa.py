"""General questions on images, unrelated to a benchmark's patients: PMC-VQA's files, or a similar table.

PMC-VQA (Zhang et al. 2023, arXiv 2305.10415): ``Figure_path, Question, Answer, Choice A, ..., Choice D,
Answer_label``. Another table has ``image``, ``question``, ``answer`` and, for multiple choice, ``options`` (a list,
or text separated by ``|``).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from medunlearn.data.data_use import DataUse, use_of_file
from medunlearn.data.images import image_problem
from medunlearn.data.records import Kind
from medunlearn.data.studies_of_patients import Exclusion
from medunlearn.errors import SourceError
from medunlearn.seeds import generator
from medunlearn.sources.table_files import read_rows

_FOLDERS = (".", "images", "figures", "images_2")
_LETTERED = re.compile(r"^\s*[A-Da-d]\s*[:.)]\s*")
_LETTERS = "ABCDEFGH"
_CHOICES = ("Choice A", "Choice B", "Choice C", "Choice D")
LONGEST_CLOZE = 5
PMC_VQA = frozenset(("Figure_path", "Question", "Answer", "Answer_label"))


@dataclass(frozen=True)
class GeneralQuestion:
    """A question on an image; ``row`` is its place (``test.csv:12``), ``right`` the index of the answer among the
    options.
    """

    row: str
    question: str = field(repr=False)
    answer: str = field(repr=False)
    options: tuple[str, ...] = field(repr=False)
    right: int | None
    image: Path | None

    @property
    def text(self) -> str:
        """Text of the question's record."""
        return f"{self.question} {self.answer}"

    def tasks(self) -> Iterator[tuple[Kind, str, str, tuple[str, ...], int | None]]:
        """(kind, question, answer, options, right) for each possible task of MedForget's three."""
        yield "generation", self.question, self.answer, (), None
        if len(self.answer.split()) <= LONGEST_CLOZE:
            yield "cloze", f"{self.question} Fill the gap: The answer is [blank].", self.answer, (), None
        if self.right is not None:
            lines = [f"{letter}) {option}" for letter, option in zip(_LETTERS, self.options, strict=False)]
            yield "classification", "\n".join([self.question, *lines]), self.answer, self.options, self.right


def read_general(path: Path, rows: int, seed: int) -> tuple[list[GeneralQuestion], list[Exclusion]]:
    """A seeded sample of a file's questions, in order; also returns unusable rows.

    A row with an unreadable image is replaced by another draw.

    Raises:
        SourceError: the file cannot be read, or all its rows are unusable.
    """
    questions: list[GeneralQuestion] = []
    excluded: list[Exclusion] = []
    for place, row in read_rows(path):
        question = row if isinstance(row, str) else _question(path, place, row)
        if isinstance(question, str):
            excluded.append(Exclusion("row", place, question))
        else:
            questions.append(question)
    if not questions:
        why = f" ({excluded[0].id}: {excluded[0].reason})" if excluded else ""
        raise SourceError(f"{path} has no question with an existing image{why}.")
    places: list[int] = []
    for place in generator("general", seed).permutation(len(questions)).tolist():
        if len(places) == rows:
            break
        image = questions[place].image
        if image is not None and (reason := image_problem(image)):
            excluded.append(Exclusion("row", questions[place].row, reason))
        else:
            places.append(place)
    if not places:
        raise SourceError(f"{path}: none of the images of its {len(questions)} questions can be read.")
    return [questions[place] for place in sorted(places)], excluded


def general_use(path: Path) -> DataUse | None:
    """Data use of a file: open for PMC-VQA's own, else from its folder; None if unknown."""
    first = next((row for _, row in read_rows(path) if not isinstance(row, str)), {})
    return use_of_file(path, "open" if first.keys() >= PMC_VQA else None)


def _question(path: Path, place: str, row: Mapping[str, Any]) -> GeneralQuestion | str:
    question, stated = _text(row, "Question", "question"), _text(row, "Answer", "answer")
    options = _options(row)
    label = _text(row, "Answer_label", "answer_index") or (stated if len(stated) == 1 and options else "")
    right = _place(label, stated, options)
    if len(options) > len(_LETTERS):
        return f"it has {len(options)} options; {len(_LETTERS)} are the most"
    if options and (right is None or len(set(options)) < len(options)):
        return "its right option cannot be told"
    answer = options[right] if right is not None else stated
    if not question or not answer:
        return "it has no question or no answer"
    name = _text(row, "Figure_path", "image", "path", "file")
    paths = [path.parent / folder / name for folder in _FOLDERS] if name else []
    image = next((file for file in paths if file.exists()), None)
    if name and image is None:
        return "its image is not there"
    return GeneralQuestion(place, question, answer, options, right, image)


def _options(row: Mapping[str, Any]) -> tuple[str, ...]:
    options = row.get("options")
    if isinstance(options, str):
        options = options.split("|") if options.strip() else None
    values: Sequence[Any] = options if options is not None else [row[name] for name in _CHOICES if row.get(name)]
    return tuple(_LETTERED.sub("", str(value)).strip() for value in values)


def _place(label: str, answer: str, options: Sequence[str]) -> int | None:
    if len(label) == 1 and label.upper() in _LETTERS[: len(options)]:
        return _LETTERS.index(label.upper())
    if re.fullmatch(r"\d{1,9}", label) and int(label) < len(options):
        return int(label)
    plain = _LETTERED.sub("", answer).strip()
    return options.index(plain) if plain in options else None


def _text(row: Mapping[str, Any], *names: str) -> str:
    return next((str(row[name]).strip() for name in names if row.get(name) not in (None, "")), "")
