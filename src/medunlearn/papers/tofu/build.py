"""TOFU: forget some of 200 invented authors; retain the others, real authors and world facts.

The authors released tables (``locuslab/TOFU``): ``full`` has every question, grouped by author; ``forget01``,
``forget05``, ``forget10`` repeat those to forget. A ``*_perturbed`` table adds to a question a paraphrase of its
answer, wrong answers of the same form, and a paraphrase of the question. Here an author is a record with all its
questions. A question's options are the paraphrased answer (the right one) and the wrong answers, whose likelihoods
the truth ratio compares; for the real world the answer itself comes first.

Source: Maini et al. 2024 (arXiv 2401.06121), Section 2.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from medunlearn.data.benchmark import Benchmark
from medunlearn.data.data_use import build_use, use_of_file
from medunlearn.data.hierarchy import Hierarchy
from medunlearn.data.records import Fold, Question, Record
from medunlearn.data.splits import request
from medunlearn.errors import SourceError
from medunlearn.papers.tofu.settings import TofuSettings
from medunlearn.sources.released import ReleasedRow, find_table, read_table, released_folder

REPOSITORY = "locuslab/TOFU"
FORGET = ("forget01", "forget05", "forget10")
FICTITIOUS, HOLDOUT, UTILITY = "fictitious", "holdout", ("real_authors", "world_facts")


class TofuQuestion(NamedTuple):
    """A question with its answer, and the additions of a ``*_perturbed`` table, if any.

    ``wrong``: wrong answers of the same form. ``paraphrased``: paraphrase of the right answer (the tables on the
    real world have none). ``rephrased``: paraphrase of the question.
    """

    question: str
    answer: str
    wrong: tuple[str, ...] = ()
    paraphrased: str = ""
    rephrased: str = ""


def build(settings: TofuSettings) -> Benchmark:
    """The released files as a benchmark with a split per forget set.

    Questions on invented authors are of the folds ``train`` and ``rephrase``; those on the real world, and their
    records, of ``utility``, and never trained on. Authors of ``settings.holdout`` are records without questions,
    excluded from training.

    Raises:
        SourceError: a table is missing or broken, forgets part of an author, has a question that ``full`` lacks, or
            holds out one that ``full`` has.
        HubError: the hub cannot be reached, with ``released="hub"``.
    """
    folder = released_folder(settings.released, REPOSITORY, settings.revision)
    authors, forget = _read_authors(folder, settings.questions_an_author)
    subjects = {f"author-{place:03d}": (FICTITIOUS, own) for place, own in enumerate(authors)}
    if settings.holdout is not None:
        outside = _outside(folder, settings.holdout, settings.questions_an_author, authors)
        subjects |= {f"holdout-{place:03d}": (HOLDOUT, own) for place, own in enumerate(outside)}
    for name in UTILITY:
        for place, question in enumerate(_read_utility(folder, name)):
            subjects[f"{name}-{place:03d}"] = (name, [question])
    records = tuple(_record(name, of, own) for name, (of, own) in subjects.items())
    hierarchy = Hierarchy(("set", "author"), records)
    with_alternatives = Counter[str]()
    with_questions = {name: (of, own) for name, (of, own) in subjects.items() if of != HOLDOUT}
    for of, own in with_questions.values():
        with_alternatives[of] += sum(bool(question.wrong) for question in own)
    return Benchmark(
        name="TOFU",
        builder="tofu",
        levels=("set", "author"),
        subject_level="author",
        records=records,
        questions=tuple(
            question for name, (of, own) in with_questions.items() for question in _questions(name, of, own)
        ),
        splits={
            name: request(hierarchy, name, "author", [f"author-{place:03d}" for place in places])
            for name, places in forget.items()
        },
        seed=settings.seed,
        source=f"released files of {REPOSITORY}",
        licence="mit",
        data_use=build_use(None, {"released files": use_of_file(folder, "open")}),
        notes={"questions with alternatives": dict(with_alternatives)},
    )


def _fold(of: str) -> Fold:
    return "train" if of == FICTITIOUS else "holdout" if of == HOLDOUT else "utility"


def _record(name: str, of: str, questions: Sequence[TofuQuestion]) -> Record:
    text = "\n\n".join(f"{entry.question}\n{entry.answer}" for entry in questions)
    return Record(name, text, {"set": of, "author": name}, fold=_fold(of))


def _questions(name: str, of: str, questions: Sequence[TofuQuestion]) -> Iterator[Question]:
    for number, entry in enumerate(questions):
        right = entry.paraphrased or entry.answer
        question = Question(
            question_id=f"{name}-q{number:02d}",
            record_id=name,
            fold=_fold(of),
            kind="knowledge",
            level="author",
            question=entry.question,
            answer=entry.answer,
            options=(right, *entry.wrong) if entry.wrong else (),
            answer_index=0 if entry.wrong else None,
            provenance=f"released:{of}",
        )
        yield question
        if entry.rephrased:
            yield replace(
                question,
                question_id=f"{question.question_id}-rephrased",
                fold="rephrase",
                question=entry.rephrased,
                answer=right,
                options=(),
                answer_index=None,
            )


def _read_authors(folder: Path, size: int) -> tuple[list[list[TofuQuestion]], dict[str, list[int]]]:
    """Questions by author, in the order of ``full``; and name of each forget set -> indices of its authors.

    Args:
        size: number of rows per author in ``full``.
    """
    authors = _by_author("full", read_table(folder, "full"), size, _alternatives(folder))
    author_of: dict[str, int] = {}
    for author, questions in enumerate(authors):
        for question in questions:
            author_of.setdefault(question.question, author)
    forget = {
        name: _forget_rows(name, read_table(folder, name), author_of, size)
        for name in FORGET
        if find_table(folder, name)
    }
    if not forget:
        raise SourceError(f"{folder} holds none of {', '.join(FORGET)}, so there is nothing to forget.")
    return authors, forget


def _by_author(
    name: str, rows: Sequence[ReleasedRow], size: int, alternatives: Mapping[str, TofuQuestion]
) -> list[list[TofuQuestion]]:
    if len(rows) % size:
        raise SourceError(f"{name} has {len(rows)} rows, which is not a multiple of questions_an_author={size}.")
    questions = [_question(row, alternatives) for row in rows]
    return [questions[start : start + size] for start in range(0, len(questions), size)]


def _outside(
    folder: Path, name: str, size: int, authors: Sequence[Sequence[TofuQuestion]]
) -> list[list[TofuQuestion]]:
    """Questions by author from a table of non-members."""
    rows, trained = read_table(folder, name), {question.question for own in authors for question in own}
    outside = _by_author(name, rows, size, {})
    if inside := next((row for row in rows if row.text("question") in trained), None):
        raise SourceError(
            f"{inside.place}: {name} holds out a question that full has, so models are trained on it."
        )
    return outside


def _question(row: ReleasedRow, alternatives: Mapping[str, TofuQuestion]) -> TofuQuestion:
    question, answer = row.text("question"), row.text("answer")
    return alternatives.get(question, TofuQuestion(question, answer))._replace(answer=answer)


def _alternatives(folder: Path) -> dict[str, TofuQuestion]:
    """Question -> additions from the tables on invented authors; the last table wins. Answers are not read."""
    return {
        question: TofuQuestion(
            question,
            "",
            row.texts("perturbed_answer"),
            row.text("paraphrased_answer"),
            row.text("paraphrased_question") if row.values.get("paraphrased_question") else "",
        )
        for name in (*FORGET, "retain")
        if find_table(folder, f"{name}_perturbed")
        for row in read_table(folder, f"{name}_perturbed")
        for question in [row.text("question")]
    }


def _forget_rows(name: str, rows: Sequence[ReleasedRow], author_of: Mapping[str, int], size: int) -> list[int]:
    counts = Counter[int]()
    for row in rows:
        author = author_of.get(row.text("question"))
        if author is None:
            raise SourceError(f"{row.place}: {name} has a question that full lacks. Are both of the same release?")
        counts[author] += 1
    if partial := [count for count in counts.values() if count != size]:
        raise SourceError(
            f"{name} has {partial[0]} of the {size} questions on one author, but authors are forgotten as a "
            "whole. Does questions_an_author fit these files?"
        )
    return sorted(counts)


def _read_utility(folder: Path, name: str) -> list[TofuQuestion]:
    """Questions on the real world, with wrong answers if the perturbed table exists; empty without a table."""
    if find_table(folder, f"{name}_perturbed"):
        rows = read_table(folder, f"{name}_perturbed")
        return [
            TofuQuestion(row.text("question"), row.text("answer"), row.texts("perturbed_answer")) for row in rows
        ]
    return [_question(row, {}) for row in read_table(folder, name)] if find_table(folder, name) else []
