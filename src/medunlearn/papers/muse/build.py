"""MUSE: forget news articles or a book; verbatim memorization, knowledge memorization, privacy leakage.

The authors released (``muse-bench/MUSE-News``, ``-Books``) folders ``raw`` (forget, retain1, retain2, holdout:
text), ``verbmem`` (forget: prompt, gt), ``knowmem`` (forget_qa, retain_qa: question, answer) and ``privleak``
(forget, retain, holdout: text).

Documents are records of the sets forget, retain and holdout (never trained on: non-members). Verbatim prompts
belong to the document that holds them. The released questions do not say which document they are about, so each has
a record of its own, which nothing is trained on.

Source: Shi et al. 2024 (arXiv 2407.06460), Sections 3 and 4, and the data sets' cards.
"""

from __future__ import annotations

from pathlib import Path

from medunlearn.config import MuseSettings
from medunlearn.data.benchmark import Benchmark
from medunlearn.data.hierarchy import Hierarchy
from medunlearn.data.records import SIDES, Fold, Question, Record
from medunlearn.data.splits import request
from medunlearn.errors import SourceError
from medunlearn.sources.released import find_table, read_table, released_folder

REPOSITORIES = {"news": "muse-bench/MUSE-News", "books": "muse-bench/MUSE-Books"}
SPLIT = "forget"


def build(settings: MuseSettings) -> Benchmark:
    """The released files as a benchmark with one split, ``forget``.

    Raises:
        SourceError: files that are missing or malformed.
        HubError: ``released="hub"``, and the hub cannot be reached.
    """
    repository = REPOSITORIES[settings.corpus]
    folder = released_folder(settings.released, repository, settings.revision)
    documents = _documents(folder)
    verbatim, homeless = _verbatim(folder, documents)
    knowledge, own = _knowledge(folder)
    records = (*documents, *homeless, *own)
    forget = [record.record_id for record in records if record.groups["set"] == "forget"]
    return Benchmark(
        name=f"MUSE-{settings.corpus.capitalize()}",
        builder="muse",
        levels=("set", "document"),
        subject_level="document",
        records=records,
        questions=(*verbatim, *knowledge),
        splits={SPLIT: request(Hierarchy(("set", "document"), records), SPLIT, "document", forget)},
        seed=settings.seed,
        source=f"released files of {repository}",
        licence="cc-by-4.0",
        data_use="open",
        notes={"verbatim prompts outside every document": len(homeless)},
    )


def _record(name: str, text: str, of: str, fold: Fold) -> Record:
    return Record(name, text, {"set": of, "document": name}, fold=fold)


def _documents(folder: Path) -> list[Record]:
    """Documents to forget, to keep (``retain2``, which the target saw, else ``retain1``), and never seen."""
    raw = folder / "raw"
    retain = next((name for name in ("retain2", "retain1", "retain") if find_table(raw, name)), None)
    if retain is None:
        raise SourceError(f"{raw} holds no retain2 (nor retain1): documents that are to be kept.")
    tables: list[tuple[str, Path, str, Fold]] = [
        ("forget", raw, "forget", "train"),
        ("retain", raw, retain, "train"),
    ]
    if unseen := [folder / part for part in ("raw", "privleak") if find_table(folder / part, "holdout")]:
        tables.append(("holdout", unseen[0], "holdout", "holdout"))
    return [
        _record(f"{of}-{place:04d}", row.text("text"), of, fold)
        for of, where, name, fold in tables
        for place, row in enumerate(read_table(where, name), start=1)
    ]


def _verbatim(folder: Path, documents: list[Record]) -> tuple[list[Question], list[Record]]:
    """Prompts with their continuations, and records for those that no document holds."""
    to_forget = [record for record in documents if record.groups["set"] == "forget"]
    questions, homeless = [], []
    for place, row in enumerate(read_table(folder / "verbmem", "forget"), start=1):
        name, prompt, continuation = f"verbatim-{place:04d}", row.text("prompt"), row.text("gt")
        home = next((record for record in to_forget if prompt.strip() in record.text), None)
        if home is None:
            home = _record(name, f"{prompt}{continuation}", "forget", "rephrase")
            homeless.append(home)
        questions.append(
            Question(
                name, home.record_id, "train", "completion", "document", prompt, continuation,
                provenance="released:verbmem",
            )
        )  # fmt: skip
    return questions, homeless


def _knowledge(folder: Path) -> tuple[list[Question], list[Record]]:
    """Questions, each with a record; the target model was trained on texts, and never saw a question."""
    questions, records = [], []
    for side in SIDES:
        for place, row in enumerate(read_table(folder / "knowmem", f"{side}_qa"), start=1):
            name, question, answer = f"{side}-qa-{place:04d}", row.text("question"), row.text("answer")
            records.append(_record(name, f"{question}\n{answer}", side, "rephrase"))
            questions.append(
                Question(
                    name, name, "holdout", "knowledge", "document", question, answer,
                    provenance="released:knowmem",
                )
            )  # fmt: skip
    return questions, records
