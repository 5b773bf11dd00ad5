"""LUME: stories, personal biographies and public biographies; completions and knowledge questions.

Source: LUME, Section 2. The released files count more documents than the paper's Table 1 (1,733 and 5,466
examples against 1,387 and 4,394); what is built here is what the files hold.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from medunlearn.config import LumeSettings
from medunlearn.data.benchmark import Benchmark
from medunlearn.data.hierarchy import Hierarchy
from medunlearn.data.records import SIDES, Question, Record
from medunlearn.data.sources.lume_released import FILES, LumeDocument, read_lume
from medunlearn.data.splits import request, shuffled
from medunlearn.errors import InputError

SPLIT = "released"

LUME_UNLEARN: Mapping[str, Any] = {
    "methods": ["ga", "graddiff", "kl_min", "npo", "ngdiff"],
    "epochs": 10,
    "lr": 1e-5,
    "batch_size": 32,
    "evaluate_every": 1,
}
"""The ``unlearn`` section of the paper's experiment (Section 3): its four methods and NGDiff, which it cites,
evaluated after each epoch. Its schedule and warm-up are not told; here they are the defaults."""


def build(settings: LumeSettings) -> Benchmark:
    """The released files, or a seeded subset, as a benchmark with one split, ``released``.

    Raises:
        SourceError: files that are missing or hold malformed rows.
        InputError: a subset larger than what the files hold.
    """
    files = read_lume(settings.released, nonmembers=settings.nonmembers, skip_bad_rows=settings.skip_bad_rows)
    members = [document for document in files.documents if document.member]
    outside = [document for document in files.documents if not document.member]
    documents = _subset(members, settings.documents_per_task, settings.seed) + outside
    records = tuple(_record(document) for document in documents)
    forget = [document.document for document in documents if document.side == "forget"]
    split = request(Hierarchy(("task", "document"), records), SPLIT, "document", forget)
    return Benchmark(
        name="LUME" if settings.documents_per_task is None else f"LUME, {len(documents)} documents",
        builder="lume",
        levels=("task", "document"),
        subject_level="document",
        records=records,
        questions=tuple(question for document in documents for question in _questions(document)),
        splits={SPLIT: split},
        seed=settings.seed,
        source=f"released files {' and '.join(FILES.values())}",
        licence="apache-2.0",
        data_use="open",
        notes={
            "documents by task and side": {
                f"{task} {side}": n
                for (task, side), n in sorted(Counter((d.task, d.side) for d in documents).items())
            },
            "skipped rows": list(files.skipped),
        },
    )


def _subset(documents: Iterable[LumeDocument], size: int | None, seed: int) -> list[LumeDocument]:
    """``size`` documents of each task, half from each side (the odd one from the forget side)."""
    found = list(documents)
    if size is None:
        return found
    chosen: set[str] = set()
    for task in sorted({document.task for document in found}):
        for side, wanted in zip(SIDES, (size - size // 2, size // 2), strict=True):
            names = [document.document for document in found if (document.task, document.side) == (task, side)]
            if len(names) < wanted:
                raise InputError(
                    f"documents_per_task={size} asks for {wanted} documents of {task} on the {side} side; the "
                    f"files hold {len(names)}. Ask for {2 * len(names)} at most."
                )
            chosen.update(shuffled(names, "lume", task, side, seed)[:wanted])
    return [document for document in found if document.document in chosen]


def _record(document: LumeDocument) -> Record:
    return Record(
        record_id=document.document,
        text=document.text,
        groups={"task": document.task, "document": document.document},
        identifiers=document.identifiers(),
        fold="train" if document.member else "holdout",
    )


def _questions(document: LumeDocument) -> list[Question]:
    return [
        Question(
            question_id=f"{document.document}-{row.form}{row.number}",
            record_id=document.document,
            fold="train" if document.member else "holdout",
            kind="completion" if row.form == "sc" else "knowledge",
            level="document",
            question=row.input,
            answer=row.output,
            provenance=f"released:{document.task}",
        )
        for row in document.rows
    ]
