"""MUSE: forget news articles or a book; verbatim memorization, knowledge memorization, privacy leakage.

The authors released (``muse-bench/MUSE-News``, ``-Books``) folders ``raw`` (forget, retain1, retain2, holdout:
text), ``verbmem`` (forget: prompt, gt), ``knowmem`` (forget_qa, retain_qa and their in-context examples
forget_qa_icl, retain_qa_icl: question, answer) and ``privleak`` (forget, retain, holdout: text).

Documents are records of the sets forget, retain and holdout (never trained on: non-members). The authors cut
prompts and the pieces of ``privleak`` from the concatenated documents, so that many span several: a prompt belongs
to the document in which its continuation begins. The released questions do not name their documents, so each has a
separate record, excluded from training; its text is the side's in-context examples, so that ``--context note``
prompts with them as in the paper.

Source: Shi et al. 2024 (arXiv 2407.06460), Sections 3 and 4, the data sets' cards and swj0419/muse_bench.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from medunlearn.data.benchmark import Benchmark
from medunlearn.data.data_use import build_use, use_of_file
from medunlearn.data.hierarchy import Hierarchy
from medunlearn.data.records import MEMBERSHIP, SIDES, Fold, Question, Record
from medunlearn.data.splits import request
from medunlearn.errors import SourceError
from medunlearn.papers.muse.settings import MuseSettings
from medunlearn.sources.released import find_table, read_table, released_folder

REPOSITORIES = {"news": "muse-bench/MUSE-News", "books": "muse-bench/MUSE-Books"}
SPLIT = "forget"


def build(settings: MuseSettings) -> Benchmark:
    """The released files as a benchmark with one split, ``forget``.

    Its notes count blank rows, which are skipped, and prompts by position.

    Raises:
        SourceError: missing or malformed files.
        HubError: the hub cannot be reached, with ``released="hub"``.
    """
    repository = REPOSITORIES[settings.corpus]
    folder = released_folder(settings.released, repository, settings.revision)
    retained = _retain_tables(folder / "raw", settings.retain)
    documents, blank = _documents(folder, retained, settings.membership)
    to_forget = [record for record in documents if record.record_id.startswith("forget-")]
    verbatim, homeless, places = _verbatim(folder, to_forget)
    knowledge, carriers = _knowledge(folder)
    records = (*documents, *homeless, *carriers)
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
        data_use=build_use(None, {"released files": use_of_file(folder, "open")}),
        notes={
            "retained documents": " and ".join(retained),
            "texts of membership attacks": settings.membership,
            "blank rows left out": blank,
            "verbatim prompts": places,
        },
    )


def _record(name: str, text: str, of: str, fold: Fold) -> Record:
    return Record(name, text, {"set": of, "document": name}, fold=fold)


def _retain_tables(raw: Path, choice: str | None) -> list[str]:
    """Names of the tables of retained documents."""
    if choice is not None:
        return ["retain1", "retain2"] if choice == "both" else [choice]
    name = next((name for name in ("retain2", "retain1", "retain") if find_table(raw, name)), None)
    if name is None:
        raise SourceError(f"{raw} has neither retain2 nor retain1, the documents to retain.")
    return [name]


def _documents(folder: Path, retained: Sequence[str], membership: str) -> tuple[list[Record], dict[str, int]]:
    """Documents to forget, to retain, and never trained on, with pieces for membership; and blank rows by table."""
    raw, pieces = folder / "raw", folder / "privleak"
    tables: list[_Table] = [_Table(raw, "forget", "forget", "train")]
    tables += [_Table(raw, name, "retain", "train", name if len(retained) > 1 else "retain") for name in retained]
    if membership == "privleak":
        tables.append(_Table(pieces, "forget", "forget", "rephrase", "member", {MEMBERSHIP: "member"}))
        tables.append(_Table(pieces, "holdout", "holdout", "holdout", "holdout", {MEMBERSHIP: "non-member"}))
    elif unseen := [where for where in (raw, pieces) if find_table(where, "holdout")]:
        tables.append(_Table(unseen[0], "holdout", "holdout", "holdout"))
    records, blank = [], {}
    for table in tables:
        rows = read_table(table.folder, table.name)
        # A row keeps its number, whether or not blank ones stand before it.
        numbered = [(place, row) for place, row in enumerate(rows, start=1) if not row.is_blank("text")]
        if not numbered:
            raise SourceError(f"{table.folder}/{table.name} has no row with a text in `text`.")
        if len(numbered) < len(rows):
            blank[f"{table.folder.name}/{table.name}"] = len(rows) - len(numbered)
        for place, row in numbered:
            record = _record(f"{table.prefix or table.of}-{place:04d}", row.text("text"), table.of, table.fold)
            records.append(replace(record, groups={**record.groups, **table.more}))
    return records, blank


class _Table(NamedTuple):
    """A table of texts, with its records' set, fold, id prefix, and further groups."""

    folder: Path
    name: str
    of: str
    fold: Fold
    prefix: str = ""
    more: Mapping[str, str] = MappingProxyType({})


_INSIDE, _ACROSS, _OUTSIDE = "in one document", "across documents", "in no document"
_AROUND = 8
"""Words on each side of a prompt's end that tell the document that it ends in."""


def _verbatim(folder: Path, documents: Sequence[Record]) -> tuple[list[Question], list[Record], dict[str, int]]:
    """Prompts with their continuations, records for prompts outside of all documents, and prompts by position."""
    texts = {record.record_id: " ".join(record.text.split()) for record in documents}
    questions, homeless, places = [], [], dict.fromkeys((_INSIDE, _ACROSS, _OUTSIDE), 0)
    for number, row in enumerate(read_table(folder / "verbmem", "forget"), start=1):
        name, prompt, continuation = f"verbatim-{number:04d}", row.text("prompt"), row.text("gt")
        home, place = _home(prompt.split(), continuation.split(), texts)
        places[place] += 1
        if home is None:
            homeless.append(_record(name, f"{prompt}{continuation}", "forget", "rephrase"))
        questions.append(
            Question(
                name, home or name, "train", "completion", "document", prompt, continuation,
                provenance="released:verbmem",
            )
        )  # fmt: skip
    return questions, homeless, places


def _home(prompt: Sequence[str], continuation: Sequence[str], texts: Mapping[str, str]) -> tuple[str | None, str]:
    """The document in which the continuation begins, and the prompt's position; ignores white space."""
    passages: list[Sequence[str]] = [
        (*prompt, *continuation),
        (*prompt[-_AROUND:], *continuation[:_AROUND]),
        # The prompt ends where its document does.
        continuation[: 2 * _AROUND] if len(continuation) >= _AROUND else prompt,
        prompt,
    ]
    for passage in map(" ".join, passages):
        if home := next((name for name, text in texts.items() if passage in text), None):
            return home, _INSIDE if " ".join(prompt) in texts[home] else _ACROSS
    return None, _OUTSIDE


def _knowledge(folder: Path) -> tuple[list[Question], list[Record]]:
    """Questions, each with a record; the target model was trained on texts and never saw a question."""
    questions, records = [], []
    for side in SIDES:
        where = folder / "knowmem"
        # The authors' repository and the hub's first revisions call the tables of the retain side retain2_...
        of = "retain2" if side == "retain" and find_table(where, "retain2_qa") else side
        examples = read_table(where, f"{of}_qa_icl") if find_table(where, f"{of}_qa_icl") else []
        context = "\n\n".join(f"Question: {row.text('question')}\nAnswer: {row.text('answer')}" for row in examples)
        for place, row in enumerate(read_table(where, f"{of}_qa"), start=1):
            name, question, answer = f"{side}-qa-{place:04d}", row.text("question"), row.text("answer")
            records.append(_record(name, context or question, side, "rephrase"))
            questions.append(
                Question(
                    name, name, "holdout", "knowledge", "document", question, answer,
                    provenance="released:knowmem",
                )
            )  # fmt: skip
    return questions, records
