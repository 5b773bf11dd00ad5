"""TOFU as its authors released it (``locuslab/TOFU``): questions on authors who never were, and on the real world.

``full`` holds every question, an author's together; ``forget01``, ``forget05``, ``forget10`` repeat those to
forget. A ``*_perturbed`` table adds to a question its answer in other words, wrong answers of the same form, and
the question in other words.

Source: Maini et al. 2024 (arXiv 2401.06121), Section 2.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from medunlearn.errors import SourceError
from medunlearn.sources.released import Row, find_table, read_table

REPOSITORY = "locuslab/TOFU"
FORGET = ("forget01", "forget05", "forget10")
UTILITY = ("real_authors", "world_facts")


@dataclass(frozen=True, slots=True)
class Perturbed:
    """What a ``*_perturbed`` table says of a question.

    Attributes:
        paraphrased: the right answer in other words; None in the tables on the real world, which have none.
        wrong: answers of the same form that are not right.
        question: the question in other words; None where the table has none.
    """

    wrong: tuple[str, ...] = field(repr=False)
    paraphrased: str | None = field(default=None, repr=False)
    question: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class TofuQuestion:
    """A question with its answer, and alternatives to it where a table has some."""

    question: str = field(repr=False)
    answer: str = field(repr=False)
    perturbed: Perturbed | None = field(default=None, repr=False)


@dataclass(frozen=True)
class TofuFiles:
    """Everything read.

    Attributes:
        authors: questions by author, in the order of ``full``.
        forget: name of a forget set -> places of its authors.
        utility: ``real_authors``, ``world_facts`` -> questions; those that are there.
    """

    authors: tuple[tuple[TofuQuestion, ...], ...]
    forget: dict[str, tuple[int, ...]]
    utility: dict[str, tuple[TofuQuestion, ...]]


def read_tofu(folder: Path, *, questions_an_author: int = 20) -> TofuFiles:
    """Read the released files: ``full``, at least one forget set, and whatever perturbed tables are there.

    Args:
        questions_an_author: rows of ``full`` that are about one author.

    Raises:
        SourceError: a table is missing or broken, forgets part of an author, or asks what ``full`` does not.
    """
    alternatives = _alternatives(folder)
    rows = read_table(folder, "full")
    if len(rows) % questions_an_author:
        raise SourceError(
            f"full holds {len(rows)} rows, which is no multiple of questions_an_author={questions_an_author}."
        )
    questions = [_question(row, alternatives) for row in rows]
    author_of: dict[str, int] = {}
    for place, question in enumerate(questions):
        author_of.setdefault(question.question, place // questions_an_author)
    forget = {
        name: _forgotten(name, read_table(folder, name), author_of, questions_an_author)
        for name in FORGET
        if find_table(folder, name)
    }
    if not forget:
        raise SourceError(f"{folder} holds none of {', '.join(FORGET)}, so nothing is to be forgotten.")
    starts = range(0, len(questions), questions_an_author)
    authors = tuple(tuple(questions[start : start + questions_an_author]) for start in starts)
    return TofuFiles(authors, forget, {name: _utility(folder, name) for name in UTILITY if _has(folder, name)})


def _question(row: Row, alternatives: dict[str, Perturbed]) -> TofuQuestion:
    question = row.text("question")
    return TofuQuestion(question, row.text("answer"), alternatives.get(question))


def _alternatives(folder: Path) -> dict[str, Perturbed]:
    """Question -> what the tables on invented authors add to it."""
    found: dict[str, Perturbed] = {}
    for name in (*FORGET, "retain"):
        if find_table(folder, f"{name}_perturbed"):
            for row in read_table(folder, f"{name}_perturbed"):
                asked = row.text("paraphrased_question") if row.values.get("paraphrased_question") else None
                found[row.text("question")] = Perturbed(
                    row.texts("perturbed_answer"), row.text("paraphrased_answer"), asked
                )
    return found


def _forgotten(name: str, rows: list[Row], author_of: dict[str, int], size: int) -> tuple[int, ...]:
    counts: dict[int, int] = {}
    for row in rows:
        author = author_of.get(row.text("question"))
        if author is None:
            raise SourceError(
                f"{row.place}: {name} asks something that full does not hold. Are both of one release?"
            )
        counts[author] = counts.get(author, 0) + 1
    if partial := [author for author, count in counts.items() if count != size]:
        raise SourceError(
            f"{name} holds {counts[partial[0]]} of the {size} questions on one author, and an author is forgotten "
            "whole. Does questions_an_author fit these files?"
        )
    return tuple(sorted(counts))


def _has(folder: Path, name: str) -> bool:
    return bool(find_table(folder, f"{name}_perturbed") or find_table(folder, name))


def _utility(folder: Path, name: str) -> tuple[TofuQuestion, ...]:
    """Questions on the real world, with wrong answers where the perturbed table is there."""
    if not find_table(folder, f"{name}_perturbed"):
        return tuple(_question(row, {}) for row in read_table(folder, name))
    return tuple(
        TofuQuestion(row.text("question"), row.text("answer"), Perturbed(row.texts("perturbed_answer")))
        for row in read_table(folder, f"{name}_perturbed")
    )
