"""LUME built anew: documents, completions, questions and the split.

Source: LUME, Section 2. What differs from the paper is said where it is made
(:mod:`medunlearn.synthetic.people`, :mod:`medunlearn.data.completions`), and in docs/lume.md.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from medunlearn.config import LumeNewSettings
from medunlearn.data.benchmark import Benchmark
from medunlearn.data.completions import completion_questions
from medunlearn.data.hierarchy import Hierarchy
from medunlearn.data.records import Question, Record
from medunlearn.data.splits import Split, request, shuffled
from medunlearn.errors import ConfigError
from medunlearn.papers.lume.documents import (
    PERSONAL,
    PUBLIC,
    TASKS,
    Exclusions,
    KnowledgeQuestion,
    LumeDocument,
    invented,
)

SPLIT = "half"
_LETTER = re.compile(r"\w")


def build(settings: LumeNewSettings) -> Benchmark:
    """The benchmark without a language model: by the grammar, and from articles where some are given.

    Raises:
        ConfigError: a server is named; asking one needs a folder (:mod:`medunlearn.papers.lume.new`).
        InputError: too few articles, or more documents than can be told apart.
    """
    if settings.llm or settings.reviewed:
        raise ConfigError(["llm and reviewed need out=FOLDER: what a model or a reviewer says is kept there"])
    documents, exclusions = invented(settings)
    return assemble(documents, settings, exclusions)


def assemble(
    documents: Sequence[LumeDocument],
    settings: LumeNewSettings,
    exclusions: Exclusions,
    notes: Mapping[str, Any] | None = None,
) -> Benchmark:
    """Records, completions, questions and the split from documents.

    Half of each task is forgotten, the odd document too; a drawn part of the third task is never trained on.

    Args:
        notes: further facts for the manifest.
    """
    outside = _nonmembers(documents, settings)
    records = tuple(_record(document, document.name in outside) for document in documents)
    return Benchmark(
        name=f"LUME built anew, {len(documents)} documents",
        builder="lume",
        levels=("task", "document"),
        subject_level="document",
        records=records,
        questions=(
            *completion_questions(records, "document", seed=settings.seed, at=settings.completion),
            *_knowledge(documents, outside),
        ),
        splits={SPLIT: _split(documents, outside, records, settings.seed)},
        seed=settings.seed,
        source="invented" if settings.articles is None else f"invented, and articles of {settings.articles.name}",
        data_use="open",
        notes={
            **({"invented": True} if settings.articles is None else {}),
            "documents by task": dict(Counter(document.task for document in documents)),
            "non-members": len(outside),
            "near-duplicates left out": [
                f"{one.name} is like {one.like} (overlap {one.overlap:.2f})" for one in exclusions.duplicates
            ],
            "left out by reviewers": list(exclusions.reviewed),
            **(notes or {}),
        },
    )


def _nonmembers(documents: Sequence[LumeDocument], settings: LumeNewSettings) -> set[str]:
    public = [document.name for document in documents if document.task == PUBLIC]
    return set(shuffled(public, "lume nonmembers", settings.seed)[: min(settings.nonmembers, len(public) - 2)])


def _record(document: LumeDocument, outside: bool) -> Record:
    groups = {"task": document.task, "document": document.name}
    fold: Any = "holdout" if outside else "train"
    return Record(document.name, document.text, groups, document.identifiers, fold=fold)


def _knowledge(documents: Sequence[LumeDocument], outside: set[str]) -> Iterator[Question]:
    before: set[str] = set()
    for document in documents:
        if document.task == PERSONAL:
            questions = list(document.questions)
        else:
            questions = [q for q in document.questions if is_askable(document, q, before)][:1]
        for number, asked in enumerate(questions):
            before.add(asked.question.casefold())
            yield Question(
                question_id=f"{document.name}-qa{number}",
                record_id=document.name,
                fold="holdout" if document.name in outside else "train",
                kind="knowledge",
                level="document",
                question=asked.question,
                answer=asked.answer,
                provenance=asked.provenance,
            )


def _split(documents: Sequence[LumeDocument], outside: set[str], records: Sequence[Record], seed: int) -> Split:
    forget: list[str] = []
    for task in TASKS:
        names = [document.name for document in documents if document.task == task and document.name not in outside]
        forget += shuffled(names, "lume sides", task, seed)[: len(names) - len(names) // 2]
    return request(Hierarchy(("task", "document"), records), SPLIT, "document", forget)


def is_askable(document: LumeDocument, asked: KnowledgeQuestion, before: set[str]) -> bool:
    """Whether the answer stands in the text and not in the question, and no other document is asked the same.

    Args:
        before: questions of other documents, in lower case.
    """
    if asked.question.casefold() in before or not asked.question.rstrip().endswith("?"):
        return False
    return _stands_in(asked.answer, document.text) and not _stands_in(asked.answer, asked.question)


def _stands_in(phrase: str, text: str) -> bool:
    wanted, whole = phrase.casefold(), text.casefold()
    place = whole.find(wanted)
    while place >= 0:
        end = place + len(wanted)
        if not (_LETTER.match(whole[place - 1 : place]) or _LETTER.match(whole[end : end + 1])):
            return True
        place = whole.find(wanted, place + 1)
    return False
