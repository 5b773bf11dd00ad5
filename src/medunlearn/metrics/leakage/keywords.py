"""The keywords of a benchmark's questions, found once and kept.

They are kept beside the benchmark's tables, or, where nothing can be written there, in the folder of the run that
is evaluated. Nothing here needs torch, so that scispaCy's environment can do without.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from medunlearn.config import EvaluateSettings
from medunlearn.data.benchmark import Benchmark
from medunlearn.data.records import Question, Record
from medunlearn.data.storage import sha256_of
from medunlearn.errors import InputError, MedunlearnError
from medunlearn.metrics import Keywords, get_metric
from medunlearn.metrics.leakage import Extractor, extractor_class, table
from medunlearn.metrics.leakage.phrases import candidates, terms
from medunlearn.metrics.leakage.selection import Keyword, scored, seeds_of, select, top
from medunlearn.metrics.leakage.table import Keyworded, Origin
from medunlearn.progress import progress

FOLDER = "keywords"
LEVEL = "disease"
RULES = "1"
"""Changes with the rules of candidates, relevance and selection: keywords that older ones gave are found again."""

AT_ONCE = 100
"""Records whose keywords are found together; what is done of them stays when a long extraction is cut off."""


@dataclass(frozen=True)
class Found:
    """The keywords of a benchmark.

    Attributes:
        path: the file that they are in.
        by_question: question id -> keywords.
        facts: how many questions have keywords, and why others have none; no record's text.
    """

    path: Path
    by_question: Keyworded
    facts: Mapping[str, Any]

    def table(self) -> pd.DataFrame:
        """question_id, keyword, weight, field; as sensitive as the records that the keywords stand in."""
        return pd.DataFrame(table.rows_of(self.by_question), columns=table.SCHEMA.names)


def keywords(
    benchmark: Benchmark, *, extractor: str = "offline", out: Path | str | None = None, quiet: bool = False
) -> Found:
    """Find the disease keywords of every question, or read them where they were found before. Resumes.

    Args:
        extractor: ``offline``, ``scispacy``, or ``module:Class``.
        out: the Parquet file to write; None for ``keywords/<extractor>.parquet`` in the benchmark's folder.

    Raises:
        UnknownNameError: no such extractor.
        InputError: the benchmark has no diseases, neither it nor ``out`` says where to write, or the extractor is
            not installed.
    """
    if LEVEL not in benchmark.hierarchy.groups():
        raise InputError(
            f"The records of {benchmark.name!r} have no {LEVEL!r}, and keywords are those of a disease."
        )
    if out is None and benchmark.folder is None:
        raise InputError("The benchmark has no folder yet. Save it first, or name the file: out=...")
    path = _in_folder(benchmark.folder, extractor) if out is None and benchmark.folder else Path(out or "")
    if path.is_dir():
        raise InputError(f"{path} is a folder; --out is the Parquet file to write.")
    if out is not None and path.exists() and table.origin_of(path) is None:
        raise InputError(f"{path} is another table, and would be written over. Choose another --out.")
    found = _found(benchmark, extractor, path, quiet)
    return Found(path, found, _facts(benchmark, extractor, found))


def needed(metrics: Iterable[str]) -> bool:
    """Whether one of the metrics reads keywords."""
    return any("keywords" in get_metric(name).needs for name in metrics)


def inputs(benchmark: Benchmark, settings: EvaluateSettings, metrics: Iterable[str]) -> dict[str, str]:
    """Key of the keywords that an evaluation depends on; empty where no metric reads them.

    Raises:
        InputError: the file that the settings name cannot be read or is another benchmark's.
        UnknownNameError: no such extractor.
    """
    if not needed(metrics):
        return {}
    if settings.keywords is None:
        return {"keywords": f"{settings.extractor} {_version(settings.extractor)}"}
    origin = table.origin_of(settings.keywords)
    if origin is not None and origin.benchmark != benchmark.fingerprint:
        raise InputError(
            f"{settings.keywords} is of another benchmark. `medunlearn build keywords BENCHMARK --out "
            "FILE` writes those of this one."
        )
    return {"keywords": sha256_of(settings.keywords)}


def for_evaluation(
    benchmark: Benchmark, settings: EvaluateSettings, metrics: Iterable[str], run: Path, *, quiet: bool = False
) -> dict[str, Keywords]:
    """Keywords of each question for :class:`~medunlearn.metrics.Item`; empty where no metric reads them.

    Args:
        run: the folder of the run, for a benchmark beside whose tables nothing can be written.

    Raises:
        InputError: the file that the settings name does not fit, or the extractor is not installed.
    """
    if not needed(metrics):
        return {}
    if settings.keywords is not None:
        found = table.read(settings.keywords)
        table.refuse_strangers(settings.keywords, found, (question.question_id for question in benchmark.questions))
    elif LEVEL in benchmark.hierarchy.groups():
        found = _of_evaluation(benchmark, settings.extractor, run, quiet)
    else:
        found = {}
    return {
        question.question_id: Keywords(
            tuple((one.phrase, one.weight) for one in found.get(question.question_id, ())),
            None if question.question_id in found else why_none(benchmark.record[question.record_id]),
        )
        for question in benchmark.questions
    }


def why_none(record: Record) -> str:
    """Why a question on a record has no keyword."""
    disease = record.groups.get(LEVEL)
    if disease is None:
        return "its record has no disease"
    if terms().category(disease) is None:
        return f"there is no term list for {disease}"
    return "its note, question and answer hold no keyword of the disease"


def _of_evaluation(benchmark: Benchmark, extractor: str, run: Path, quiet: bool) -> Keyworded:
    """Where they are kept already, they are read; else they are kept in the first folder that can be written."""
    origin = _origin(benchmark, extractor)
    places = [_in_folder(folder, extractor) for folder in (benchmark.folder, run) if folder is not None]
    for place in places:
        known = _known(place, origin)
        if known is not None:
            return known
    return _found(benchmark, extractor, next(filter(_may_be_written, places), places[-1]), quiet)


def _may_be_written(path: Path) -> bool:
    return os.access(path.parent if path.parent.exists() else path.parent.parent, os.W_OK)


def _in_folder(folder: Path, extractor: str) -> Path:
    return folder / FOLDER / f"{re.sub(r'[^A-Za-z0-9_.-]', '_', extractor)}.parquet"


def _version(extractor: str) -> str:
    return f"{extractor_class(extractor).version}/{terms().version}/{RULES}"


def _origin(benchmark: Benchmark, extractor: str) -> Origin:
    return Origin(benchmark.fingerprint, extractor, _version(extractor))


def _found(benchmark: Benchmark, extractor: str, path: Path, quiet: bool) -> Keyworded:
    """The keywords in the file, where it was made of the same; else they are found and written there."""
    origin = _origin(benchmark, extractor)
    known = _known(path, origin)
    if known is not None:
        return known
    found = _extract(benchmark, extractor, origin, path.with_name(f"{path.name}.parts"), quiet)
    table.write(path, found, origin)
    shutil.rmtree(path.with_name(f"{path.name}.parts"), ignore_errors=True)
    return found


def _extract(benchmark: Benchmark, name: str, origin: Origin, parts: Path, quiet: bool) -> Keyworded:
    """All keywords, some records at a time; what was done of them when an earlier call was cut off is read."""
    asked: dict[str, list[Question]] = {}
    for question in benchmark.questions:
        if terms().category(benchmark.record[question.record_id].groups.get(LEVEL, "")) is not None:
            asked.setdefault(question.record_id, []).append(question)
    records = list(asked)
    found: Keyworded = {}
    extractor: Extractor | None = None
    with progress(f"keywords by {name}", len(records), quiet=quiet) as advance:
        for start in range(0, len(records), AT_ONCE):
            some = [(benchmark.record[record], asked[record]) for record in records[start : start + AT_ONCE]]
            part = parts / f"{start:07d}-{AT_ONCE}.parquet"
            known = _known(part, origin)
            if known is None:
                extractor = extractor or extractor_class(name)()
                known = of_records(some, extractor)
                if len(records) > AT_ONCE:
                    table.write(part, known, origin)
            found |= known
            advance(len(some))
    return found


def _known(path: Path, origin: Origin) -> Keyworded | None:
    """The keywords in a file that was made of the same; None where there is none, or it is broken."""
    with suppress(InputError):
        return table.read(path) if table.origin_of(path) == origin else None
    return None


def of_records(asked: Sequence[tuple[Record, Sequence[Question]]], extractor: Extractor) -> Keyworded:
    """The keywords of questions on records with a disease of Table 7; each text is read once.

    Raises:
        MedunlearnError: the extractor does not give one list of phrases a text.
    """
    texts = list(dict.fromkeys(text for record, questions in asked for text in _texts(record, questions)))
    given = extractor.phrases(texts)
    if len(given) != len(texts):
        raise MedunlearnError(
            f"{type(extractor).__name__}.phrases gave {len(given)} lists for {len(texts)} texts; it must give "
            "one a text."
        )
    phrases = dict(zip(texts, given, strict=True))
    found: dict[str, tuple[Keyword, ...]] = {}
    for record, questions in asked:
        category = terms().category(record.groups[LEVEL])
        if category is None:
            continue
        seeds = seeds_of(category)
        of = {text: scored(candidates(phrases[text]), seeds) for text in _texts(record, questions)}
        note = top(of[record.text])
        for question in questions:
            keywords = select(note, of[question.question], of[question.answer])
            if keywords:
                found[question.question_id] = tuple(keywords)
    return found


def _texts(record: Record, questions: Sequence[Question]) -> list[str]:
    return [record.text, *(text for question in questions for text in (question.question, question.answer))]


def _facts(benchmark: Benchmark, extractor: str, found: Keyworded) -> dict[str, Any]:
    without: dict[str, int] = {}
    for question in benchmark.questions:
        if question.question_id not in found:
            why = why_none(benchmark.record[question.record_id])
            without[why] = without.get(why, 0) + 1
    return {
        "extractor": extractor,
        "questions": len(benchmark.questions),
        "with_keywords": len(found),
        "keywords": sum(map(len, found.values())),
        "without": dict(sorted(without.items())),
    }
