"""The keywords of a benchmark's questions, extracted once and cached.

The cache is in the benchmark's folder or, if that is read-only, in the run's folder. Nothing here needs torch, so
scispaCy's environment works without it.
"""

from __future__ import annotations

import os
import re
import shutil
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from medunlearn.config import EvaluateSettings
from medunlearn.data.benchmark import Benchmark
from medunlearn.data.leftovers import MARK
from medunlearn.data.records import Question, Record
from medunlearn.data.storage import refuse_existing, sha256_of
from medunlearn.errors import InputError, MedunlearnError
from medunlearn.metrics import Keywords, get_metric
from medunlearn.metrics.leakage import Extractor, extractor_class, table
from medunlearn.metrics.leakage.keyword_selection import TOP, scored, seeds_of, select
from medunlearn.metrics.leakage.phrases import candidates, terms
from medunlearn.metrics.leakage.table import Keyworded, Origin
from medunlearn.progress import progress

FOLDER = "keywords"
LEVEL = "disease"
RULES = "1"
"""Changes with the rules of candidates, relevance and selection: keywords of older rules are extracted again."""

AT_ONCE = 100
"""Records whose keywords are extracted together; a finished part stays when a long extraction is cut off."""


@dataclass(frozen=True)
class BenchmarkKeywords:
    """The keywords of a benchmark by question id, and their file.

    Attributes:
        facts: number of questions with keywords, and reasons for others; no record text.
    """

    path: Path
    by_question: Keyworded
    facts: Mapping[str, Any]

    def table(self) -> pd.DataFrame:
        """Columns question_id, keyword, weight, field; as sensitive as the records that contain the keywords."""
        return pd.DataFrame(table.rows_of(self.by_question), columns=table.SCHEMA.names)


def keywords(
    benchmark: Benchmark, *, extractor: str = "offline", out: Path | str | None = None, quiet: bool = False
) -> BenchmarkKeywords:
    """Find the disease keywords of every question, or read them from the cache. Resumes.

    Args:
        extractor: ``offline``, ``scispacy``, or ``module:Class``.
        out: the Parquet file to write; None for ``keywords/<extractor>.parquet`` in the benchmark's folder.

    Raises:
        UnknownNameError: no such extractor.
        InputError: the benchmark has no diseases, neither it nor ``out`` gives a path, or the extractor is
            not installed.
    """
    if LEVEL not in benchmark.hierarchy.groups():
        raise InputError(
            f"The records of {benchmark.name!r} have no {LEVEL!r}, and keywords are those of a disease."
        )
    if out is None and benchmark.folder is None:
        raise InputError("The benchmark has no folder yet. Save it first, or name the file: out=...")
    path = _in_folder(benchmark.folder, extractor) if out is None and benchmark.folder else Path(out or "")
    if out is not None and (path.is_symlink() or not path.is_file() or table.origin_of(path) is None):
        refuse_existing(path, why="it holds no keywords of ours")
    by_question = _read_or_extract(benchmark, extractor, path, quiet)
    without = Counter(
        why_none(benchmark.record[question.record_id])
        for question in benchmark.questions
        if question.question_id not in by_question
    )
    facts = {
        "extractor": extractor,
        "questions": len(benchmark.questions),
        "with_keywords": len(by_question),
        "keywords": sum(map(len, by_question.values())),
        "without": dict(sorted(without.items())),
    }
    return BenchmarkKeywords(path, by_question, facts)


def inputs(benchmark: Benchmark, settings: EvaluateSettings, metrics: Iterable[str]) -> dict[str, str]:
    """Key of the keywords that an evaluation depends on; empty if no metric uses them.

    Raises:
        InputError: the file in the settings cannot be read or is another benchmark's.
        UnknownNameError: no such extractor.
    """
    if not _needs_keywords(metrics):
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


def extractor_of(settings: EvaluateSettings, metrics: Iterable[str]) -> dict[str, str]:
    """``{"extractor": NAME}`` for the record of an evaluation; empty if no metric uses keywords."""
    if not _needs_keywords(metrics):
        return {}
    origin = None if settings.keywords is None else table.origin_of(settings.keywords)
    maker = "another program" if origin is None else origin.extractor
    return {"extractor": settings.extractor if settings.keywords is None else maker}


def for_evaluation(
    benchmark: Benchmark, settings: EvaluateSettings, metrics: Iterable[str], run: Path, *, quiet: bool = False
) -> dict[str, Keywords]:
    """Keywords of each question for :class:`~medunlearn.metrics.Item`; empty if no metric uses them.

    Args:
        run: the folder of the run, for a benchmark in a read-only folder.

    Raises:
        InputError: the file in the settings does not fit, or the extractor is not installed.
    """
    if not _needs_keywords(metrics):
        return {}
    by_question: Keyworded = {}
    if settings.keywords is not None:
        by_question = table.read(settings.keywords)
        ids = (question.question_id for question in benchmark.questions)
        table.refuse_strangers(settings.keywords, by_question, ids)
    elif LEVEL in benchmark.hierarchy.groups():
        by_question = _of_evaluation(benchmark, settings.extractor, run, quiet)
    return {
        question.question_id: Keywords(
            tuple((keyword.phrase, keyword.weight) for keyword in by_question.get(question.question_id, ())),
            None if question.question_id in by_question else why_none(benchmark.record[question.record_id]),
        )
        for question in benchmark.questions
    }


def why_none(record: Record) -> str:
    """Reason why a question on a record has no keyword."""
    disease = record.groups.get(LEVEL)
    if disease is None:
        return "its record has no disease"
    if terms().category(disease) is None:
        return f"there is no term list for {disease}"
    return "its note, question and answer hold no keyword of the disease"


def of_records(records: Sequence[tuple[Record, Sequence[Question]]], extractor: Extractor) -> Keyworded:
    """The keywords of questions on records with a disease of Table 7; each text is processed once.

    Raises:
        MedunlearnError: the extractor does not return one list of phrases per text.
    """
    texts = list(dict.fromkeys(text for record, questions in records for text in _texts(record, questions)))
    phrase_lists = extractor.phrases(texts)
    if len(phrase_lists) != len(texts):
        raise MedunlearnError(
            f"{type(extractor).__name__}.phrases gave {len(phrase_lists)} lists for {len(texts)} texts; it must "
            "return one per text."
        )
    phrases = dict(zip(texts, phrase_lists, strict=True))
    by_question: Keyworded = {}
    for record, questions in records:
        category = terms().category(record.groups[LEVEL])
        if category is None:
            continue
        seeds = seeds_of(category)
        weights = {text: scored(candidates(phrases[text]), seeds) for text in _texts(record, questions)}
        note = dict(list(weights[record.text].items())[:TOP])
        for question in questions:
            selected = select(note, weights[question.question], weights[question.answer])
            if selected:
                by_question[question.question_id] = tuple(selected)
    return by_question


def missing(benchmark: Benchmark, settings: EvaluateSettings, metrics: Iterable[str]) -> bool:
    """True if an evaluation has to extract keywords, and the benchmark has a folder to store them in."""
    if not _needs_keywords(metrics) or settings.keywords is not None or benchmark.folder is None:
        return False
    path = _in_folder(benchmark.folder, settings.extractor)
    return (
        LEVEL in benchmark.hierarchy.groups() and _read_cache(path, _origin(benchmark, settings.extractor)) is None
    )


def _needs_keywords(metrics: Iterable[str]) -> bool:
    return any("keywords" in get_metric(name).needs for name in metrics)


def _of_evaluation(benchmark: Benchmark, extractor: str, run: Path, quiet: bool) -> Keyworded:
    """Keywords from the first cache that exists; else extracted and written to the first writable folder."""
    origin = _origin(benchmark, extractor)
    places = [_in_folder(folder, extractor) for folder in (benchmark.folder, run) if folder is not None]
    for place in places:
        stored_keywords = _read_cache(place, origin)
        if stored_keywords is not None:
            return stored_keywords
    return _read_or_extract(benchmark, extractor, next(filter(_writable, places), places[-1]), quiet)


def _writable(path: Path) -> bool:
    return os.access(path.parent if path.parent.exists() else path.parent.parent, os.W_OK)


def _in_folder(folder: Path, extractor: str) -> Path:
    return folder / FOLDER / f"{re.sub(r'[^A-Za-z0-9_.-]', '_', extractor)}.parquet"


def _version(extractor: str) -> str:
    return f"{extractor_class(extractor).version}/{terms().version}/{RULES}"


def _origin(benchmark: Benchmark, extractor: str) -> Origin:
    return Origin(benchmark.fingerprint, extractor, _version(extractor))


def _read_cache(path: Path, origin: Origin) -> Keyworded | None:
    """The keywords in a file with this origin; None if it is missing or broken."""
    with suppress(InputError):
        return table.read(path) if table.origin_of(path) == origin else None
    return None


def _read_or_extract(benchmark: Benchmark, extractor: str, path: Path, quiet: bool) -> Keyworded:
    origin = _origin(benchmark, extractor)
    by_question = _read_cache(path, origin)
    if by_question is None:
        parts = path.with_name(f".{path.name}.{MARK}-parts")
        by_question = _extract(benchmark, extractor, origin, parts, quiet)
        table.write(path, by_question, origin)
        shutil.rmtree(parts, ignore_errors=True)
    return by_question


def _extract(benchmark: Benchmark, name: str, origin: Origin, parts: Path, quiet: bool) -> Keyworded:
    """Extract all keywords, :data:`AT_ONCE` records at a time, resuming from the parts of an interrupted call."""
    questions: dict[str, list[Question]] = {}
    for question in benchmark.questions:
        if terms().category(benchmark.record[question.record_id].groups.get(LEVEL, "")) is not None:
            questions.setdefault(question.record_id, []).append(question)
    records = [(benchmark.record[record], own) for record, own in questions.items()]
    by_question: Keyworded = {}
    extractor: Extractor | None = None
    with progress(f"keywords by {name}", len(records), quiet=quiet) as advance:
        for start in range(0, len(records), AT_ONCE):
            some = records[start : start + AT_ONCE]
            part = parts / f"{start:07d}-{AT_ONCE}.parquet"
            of_part = _read_cache(part, origin)
            if of_part is None:
                extractor = extractor or extractor_class(name)()
                of_part = of_records(some, extractor)
                if len(records) > AT_ONCE:
                    table.write(part, of_part, origin)
            by_question |= of_part
            advance(len(some))
    return by_question


def _texts(record: Record, questions: Sequence[Question]) -> list[str]:
    return [record.text, *(text for question in questions for text in (question.question, question.answer))]
