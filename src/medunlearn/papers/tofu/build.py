"""TOFU: forget some of 200 authors who never were, and keep the others, real authors and facts of the world.

An author is a record with all questions on it. A question's options are the answer in other words (the right one)
and the wrong answers, whose likelihoods the truth ratio compares; for the real world the answer itself comes first.

Source: Maini et al. 2024 (arXiv 2401.06121), Section 2; the files of ``locuslab/TOFU``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Literal

from medunlearn.config import TofuSettings
from medunlearn.data.benchmark import Benchmark
from medunlearn.data.hierarchy import Hierarchy
from medunlearn.data.records import Question, Record
from medunlearn.data.splits import request
from medunlearn.papers.tofu.released import REPOSITORY, TofuQuestion, read_tofu
from medunlearn.sources.released import released_folder

FICTITIOUS = "fictitious"


def build(settings: TofuSettings) -> Benchmark:
    """The released files as a benchmark with a split a forget set.

    Questions on invented authors are of the folds ``train`` and ``rephrase``; those on the real world, and their
    records, of ``utility``, and never trained on.

    Raises:
        SourceError: files that are missing or malformed.
        HubError: ``released="hub"``, and the hub cannot be reached.
    """
    folder = released_folder(settings.released, REPOSITORY, settings.revision)
    files = read_tofu(folder, questions_an_author=settings.questions_an_author)
    subjects: dict[str, tuple[str, tuple[TofuQuestion, ...]]] = {
        f"author-{place:03d}": (FICTITIOUS, asked) for place, asked in enumerate(files.authors)
    }
    for name, questions in files.utility.items():
        subjects |= {f"{name}-{place:03d}": (name, (one,)) for place, one in enumerate(questions)}
    records = tuple(_record(name, of, asked) for name, (of, asked) in subjects.items())
    hierarchy = Hierarchy(("set", "author"), records)
    return Benchmark(
        name="TOFU",
        builder="tofu",
        levels=("set", "author"),
        subject_level="author",
        records=records,
        questions=tuple(
            question for name, (of, asked) in subjects.items() for question in _questions(name, of, asked)
        ),
        splits={
            name: request(hierarchy, name, "author", [f"author-{place:03d}" for place in places])
            for name, places in files.forget.items()
        },
        seed=settings.seed,
        source=f"released files of {REPOSITORY}",
        licence="mit",
        data_use="open",
        notes={"questions with alternatives": _with_alternatives(subjects)},
    )


def _with_alternatives(subjects: Mapping[str, tuple[str, tuple[TofuQuestion, ...]]]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for of, asked in subjects.values():
        counts[of] = counts.get(of, 0) + sum(one.perturbed is not None for one in asked)
    return counts


def _record(name: str, of: str, asked: tuple[TofuQuestion, ...]) -> Record:
    text = "\n\n".join(f"{one.question}\n{one.answer}" for one in asked)
    return Record(name, text, {"set": of, "author": name}, fold="train" if of == FICTITIOUS else "utility")


def _questions(name: str, of: str, asked: tuple[TofuQuestion, ...]) -> Iterator[Question]:
    fold: Literal["train", "utility"] = "train" if of == FICTITIOUS else "utility"
    for number, one in enumerate(asked):
        other = one.perturbed
        plain = Question(
            question_id=f"{name}-q{number:02d}",
            record_id=name,
            fold=fold,
            kind="knowledge",
            level="author",
            question=one.question,
            answer=one.answer,
            provenance=f"released:{of}",
        )
        if other is None:
            yield plain
            continue
        right = other.paraphrased or one.answer
        yield replace(plain, options=(right, *other.wrong), answer_index=0)
        if other.question is not None:
            name_in_other_words = f"{plain.question_id}-rephrased"
            yield replace(
                plain, question_id=name_in_other_words, fold="rephrase", question=other.question, answer=right
            )
