"""MUSE: forget news articles or a book; verbatim memorization, knowledge memorization, privacy leakage.

Documents are records of the sets forget, retain and holdout (never trained on: non-members).
Verbatim prompts belong to the document that holds them. The released questions do not say which document they are
about, so each has a record of its own, which nothing is trained on.

Source: Shi et al. 2024 (arXiv 2407.06460), Section 3; the files of ``muse-bench/MUSE-News`` and ``-Books``.
"""

from __future__ import annotations

from collections.abc import Iterator

from medunlearn.config import MuseSettings
from medunlearn.data.benchmark import Benchmark
from medunlearn.data.hierarchy import Hierarchy
from medunlearn.data.records import Fold, Question, Record
from medunlearn.data.splits import request
from medunlearn.papers.muse.released import REPOSITORIES, MuseFiles, read_muse
from medunlearn.sources.released import released_folder

SPLIT = "forget"


def build(settings: MuseSettings) -> Benchmark:
    """The released files as a benchmark with one split, ``forget``.

    Raises:
        SourceError: files that are missing or malformed.
        HubError: ``released="hub"``, and the hub cannot be reached.
    """
    repository = REPOSITORIES[settings.corpus]
    files = read_muse(released_folder(settings.released, repository, settings.revision))
    documents = tuple(_documents(files))
    probes, questions = _probes(files, documents)
    records = (*documents, *probes)
    forget = [record.record_id for record in records if record.groups["set"] == "forget"]
    return Benchmark(
        name=f"MUSE-{settings.corpus.capitalize()}",
        builder="muse",
        levels=("set", "document"),
        subject_level="document",
        records=records,
        questions=questions,
        splits={SPLIT: request(Hierarchy(("set", "document"), records), SPLIT, "document", forget)},
        seed=settings.seed,
        source=f"released files of {repository}",
        licence="cc-by-4.0",
        data_use="open",
        notes={
            "verbatim prompts outside every document": sum(one.record_id.startswith("verbatim") for one in probes)
        },
    )


def _documents(files: MuseFiles) -> Iterator[Record]:
    for of, texts in (("forget", files.forget), ("retain", files.retain), ("holdout", files.holdout)):
        fold: Fold = "holdout" if of == "holdout" else "train"
        for place, text in enumerate(texts, start=1):
            yield _record(f"{of}-{place:04d}", text, of, fold)


def _record(name: str, text: str, of: str, fold: Fold) -> Record:
    return Record(name, text, {"set": of, "document": name}, fold=fold)


def _probes(files: MuseFiles, documents: tuple[Record, ...]) -> tuple[list[Record], tuple[Question, ...]]:
    """Questions, and records for those that belong to no document."""
    probes: list[Record] = []
    questions: list[Question] = []
    to_forget = [record for record in documents if record.groups["set"] == "forget"]
    for place, (prompt, continuation) in enumerate(files.verbatim, start=1):
        name = f"verbatim-{place:04d}"
        home = next((record for record in to_forget if prompt.strip() in record.text), None)
        if home is None:
            home = _record(name, f"{prompt}{continuation}", "forget", "rephrase")
            probes.append(home)
        questions.append(
            Question(
                name, home.record_id, "train", "completion", "document", prompt, continuation,
                provenance="released:verbmem",
            )
        )  # fmt: skip
    for side, pairs in files.knowledge.items():
        for place, (asked, answer) in enumerate(pairs, start=1):
            home = _record(f"{side}-qa-{place:04d}", f"{asked}\n{answer}", side, "rephrase")
            probes.append(home)
            # The target model was trained on texts, and never saw a question.
            questions.append(
                Question(
                    home.record_id, home.record_id, "holdout", "knowledge", "document", asked, answer,
                    provenance="released:knowmem",
                )
            )  # fmt: skip
    return probes, tuple(questions)
