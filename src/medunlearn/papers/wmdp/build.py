"""WMDP: corpora to forget and to retain, and multiple-choice questions on each.

The authors released corpora (``cais/wmdp-corpora``; the biology forget corpus on request) and questions
(``cais/wmdp``: question, choices, answer counted from 0). Nothing is downloaded here: the files are the user's.

Documents are records of the sets ``forget`` and ``retain``, with one split, ``forget``. A question names no
document: each has a record of its own that nothing is trained on. It is scored by the probabilities of its options
(``choice_probability``); lm-evaluation-harness's own tasks are asked by `utility --tasks wmdp,mmlu`.

Source: Li et al. 2024, arXiv 2403.03218, and the cards of its data sets.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path

from medunlearn.audit.options.option_prompts import choice_question
from medunlearn.data.benchmark import Benchmark
from medunlearn.data.data_use import build_use, use_of_file
from medunlearn.data.hierarchy import Hierarchy
from medunlearn.data.records import Question, Record, Side
from medunlearn.data.splits import request
from medunlearn.errors import SourceError
from medunlearn.papers.wmdp.settings import WmdpSettings
from medunlearn.sources.multiple_choice import read_options
from medunlearn.sources.table_files import read_rows

SPLIT = "forget"


def build(settings: WmdpSettings) -> Benchmark:
    """The files as a benchmark with one split, ``forget``.

    Raises:
        SourceError: a file that is missing or unreadable, or a corpus without a document.
    """
    documents, short = list[Record](), dict[str, int]()
    corpora: dict[Side, Sequence[Path]] = {"forget": settings.forget, "retain": settings.retain}
    for side, own in corpora.items():
        for number, file in enumerate(own, start=1):
            texts = list(_texts(file))
            long = [text for text in texts if len(text) >= settings.shortest]
            if not long:
                raise SourceError(f"{file} has no document of {settings.shortest} characters or more.")
            short[f"{side} {number}"] = len(texts) - len(long)
            documents += [
                _record(f"{side}-{number}-{place:05d}", text, side)
                for place, text in enumerate(islice(long, settings.limit), start=1)
            ]
    forgotten, carriers = _questions(settings.questions, "forget")
    retained, others = _questions(settings.retain_questions, "retain")
    records = (*documents, *carriers, *others)
    forget = [record.record_id for record in records if record.groups["set"] == "forget"]
    files = (*settings.forget, *settings.retain, *settings.questions, *settings.retain_questions)
    return Benchmark(
        name="WMDP",
        builder="wmdp",
        levels=("set", "document"),
        subject_level="document",
        records=records,
        questions=(*forgotten, *retained),
        splits={SPLIT: request(Hierarchy(("set", "document"), records), SPLIT, "document", forget)},
        seed=settings.seed,
        source=", ".join(file.name for file in files),
        licence=settings.licence,
        data_use=build_use(settings.data_use, {f"file {file}": use_of_file(file, "open") for file in files}),
        notes={"documents that are too short": short},
    )


def _texts(file: Path) -> Iterator[str]:
    """The documents of a corpus, without white space around them."""
    for place, row in read_rows(file):
        text = row.get("text") if not isinstance(row, str) else None
        if not isinstance(text, str):
            raise SourceError(f"{place} has no text in a column `text`.")
        yield text.strip()


def _record(name: str, text: str, side: Side) -> Record:
    return Record(name, text, {"set": side, "document": name}, fold="train")


def _questions(files: Sequence[Path], side: Side) -> tuple[list[Question], list[Record]]:
    """Questions of a side, each with a record that no model is trained on."""
    questions, records = list[Question](), list[Record]()
    for number, file in enumerate(files, start=1):
        answered = (choice for choice in read_options(file, count_from=0).questions if choice.gold is not None)
        for place, choice in enumerate(answered, start=1):
            name = f"{side}-question-{number}-{place:05d}"
            question = choice_question(replace(choice, question_id=name), "text")
            questions.append(
                replace(question, record_id=name, fold="holdout", level="document", provenance=file.name)
            )
            text = f"{choice.question}\n{choice.lines()}"
            records.append(Record(name, text, {"set": side, "document": name}, fold="rephrase"))
    return questions, records
