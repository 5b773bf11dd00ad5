"""LUME from its released files: stories, personal biographies and public biographies.

Source: LUME, Section 2. The released files count more documents than the paper's Table 1 (1,733 and 5,466
examples against 1,387 and 4,394); the benchmark is built from the files.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from medunlearn.data.benchmark import Benchmark
from medunlearn.data.data_use import build_use, use_of_file
from medunlearn.data.hierarchy import Hierarchy
from medunlearn.data.records import SIDES
from medunlearn.data.splits import request, shuffled
from medunlearn.errors import InputError
from medunlearn.papers.lume import PAPER, PUBLIC
from medunlearn.papers.lume.released import FILES, LumeDocument, read_lume
from medunlearn.papers.lume.settings import LumeSettings

SPLIT = "released"


def build(settings: LumeSettings) -> Benchmark:
    """The released files, or a seeded subset, as a benchmark with one split, ``released``.

    Raises:
        SourceError: missing files or malformed rows.
        InputError: a subset larger than the files.
    """
    files = read_lume(settings.released, nonmembers=settings.nonmembers, skip_bad_rows=settings.skip_bad_rows)
    members = [document for document in files.documents if document.member]
    outside = [document for document in files.documents if not document.member]
    nonmembers = _held_out(members, settings)
    outside += [replace(document, member=False) for document in members if document.document in nonmembers]
    documents = _subset(members, settings.documents_per_task, settings.seed, nonmembers) + outside
    records = tuple(document.record() for document in documents)
    forget = [document.document for document in documents if document.side == "forget"]
    counts = sorted(Counter((document.task, document.side) for document in documents).items())
    return Benchmark(
        name="LUME" if settings.documents_per_task is None else f"LUME, {len(documents)} documents",
        builder=PAPER.name,
        levels=("task", "document"),
        subject_level="document",
        records=records,
        questions=tuple(question for document in documents for question in document.questions()),
        splits={SPLIT: request(Hierarchy(("task", "document"), records), SPLIT, "document", forget)},
        seed=settings.seed,
        source=f"released files {' and '.join(FILES.values())}",
        licence="apache-2.0",
        data_use=build_use(None, {"released files": use_of_file(settings.released, "open")}),
        notes={
            "documents by task and side": {f"{task} {side}": n for (task, side), n in counts},
            **({"documents that no model is trained on": len(outside)} if outside else {}),
            "skipped rows": list(files.skipped),
        },
    )


def _subset(
    documents: Sequence[LumeDocument], size: int | None, seed: int, nonmembers: frozenset[str]
) -> list[LumeDocument]:
    """``size`` documents of each task, half from each side (the odd one from forget), without held-out ones."""
    if size is None:
        return [document for document in documents if document.document not in nonmembers]
    sample: set[str] = set()
    for task in sorted({document.task for document in documents}):
        for side, count in zip(SIDES, (size - size // 2, size // 2), strict=True):
            names = [document.document for document in documents if (document.task, document.side) == (task, side)]
            members = [name for name in shuffled(names, "lume", task, side, seed) if name not in nonmembers]
            if len(members) < count:
                besides = " besides non-members" if nonmembers else ""
                raise InputError(
                    f"documents_per_task={size} asks for {count} documents of {task} on the {side} side; the "
                    f"files have {len(members)}{besides}. Use at most {2 * len(members)}."
                )
            sample.update(members[:count])
    return [document for document in documents if document.document in sample]


def _held_out(documents: Sequence[LumeDocument], settings: LumeSettings) -> frozenset[str]:
    """Names of retained public biographies to exclude from all training.

    They are taken from the end of the seeded order, and subsets from its start, so a subset does not change if
    enough documents remain.

    Raises:
        InputError: more than available, or a file of non-members given too.
    """
    count = settings.nonmember_documents
    if count is None:
        return frozenset()
    if settings.nonmembers is not None:
        raise InputError("Give --nonmembers FILE or --nonmember-documents N, not both.")
    candidates = [
        document.document for document in documents if (document.task, document.side) == (PUBLIC, "retain")
    ]
    if count >= len(candidates):
        raise InputError(
            f"nonmember_documents={count}: the retain side has {len(candidates)} public biographies, and at least "
            f"one must be retained. Use at most {max(0, len(candidates) - 1)}."
        )
    return frozenset(shuffled(candidates, "lume", PUBLIC, "retain", settings.seed)[-count:])
