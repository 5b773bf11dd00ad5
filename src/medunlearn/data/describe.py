"""Descriptive tables of any benchmark, as in AMNESIA's paper: Tables 1, 4 and 5.

Groups are the nodes of the coarsest level: AMNESIA's diseases, LUME's tasks, MedForget's institutions. A patient of
the paper is a subject here. The paper does not define its tokens; here the caller chooses how to count them.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import pandas as pd

from medunlearn.data.benchmark import Benchmark
from medunlearn.data.records import KINDS, SIDES, Question, Record
from medunlearn.data.splits import Split

TOTAL = "Total"
WORDS = "words (runs of letters and digits)"
_WORD = re.compile(r"\w+")
_PERCENT = re.compile(r"(.+)_(\d\d)")
Count = Callable[[Sequence[str]], Sequence[int]]


def words(texts: Sequence[str]) -> list[int]:
    """Words in each text: runs of letters, digits and underscores."""
    return [len(_WORD.findall(text)) for text in texts]


@dataclass(frozen=True, slots=True)
class GroupSize:
    """A row of Table 1; ``shortest``, ``mean`` and ``longest`` are tokens, None if all records are images."""

    group: str
    subjects: int
    share: float
    questions: int
    shortest: int | None
    mean: float | None
    longest: int | None


@dataclass(frozen=True, slots=True)
class GroupLengths:
    """A row of Table 4: kind of question -> mean tokens; kinds without questions are missing."""

    group: str
    question: Mapping[str, float]
    answer: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class SplitSize:
    """A row of Table 5.

    Attributes:
        size: ``5%``, or the split's name where it has no percentage.
        subjects: number on that side with a training document; for the holdout, with a held-out question.
        questions: number in the train fold, or in the holdout fold for the holdout.
        available: scopes with a split of this size: ``random``, ``cancer``, ...
    """

    side: str
    size: str
    subjects: int
    questions: int
    available: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Description:
    """A benchmark in Tables 1, 4 and 5; the largest group comes first, the total last.

    Attributes:
        level: level whose nodes are the groups.
        subject: the level of one subject: ``patient``, ``document``.
        tokens: name of the counted unit.
    """

    level: str
    subject: str
    tokens: str
    groups: tuple[GroupSize, ...]
    lengths: tuple[GroupLengths, ...]
    splits: tuple[SplitSize, ...]

    def facts(self) -> dict[str, Any]:
        """All numbers, for JSON."""
        return asdict(self)

    def tables(self) -> dict[str, pd.DataFrame]:
        """``groups``, ``lengths`` and ``splits`` as data frames."""
        kinds = self.kinds()
        lengths = [
            {
                "group": row.group,
                **{f"question/{kind}": row.question.get(kind) for kind in kinds},
                **{f"answer/{kind}": row.answer.get(kind) for kind in kinds},
            }
            for row in self.lengths
        ]
        return {
            "groups": pd.DataFrame([asdict(row) for row in self.groups]),
            "lengths": pd.DataFrame(lengths),
            "splits": pd.DataFrame([asdict(row) for row in self.splits]),
        }

    def kinds(self) -> list[str]:
        """Kinds of question in the benchmark, in definition order."""
        return [kind for kind in KINDS if kind in self.lengths[-1].question]


def describe(benchmark: Benchmark, *, count: Count = words, tokens: str = WORDS) -> Description:
    """The three tables of a benchmark.

    Args:
        count: tokens in each of several texts.
        tokens: name of the unit that ``count`` counts.
    """
    level = benchmark.levels[0]
    records: dict[str, list[Record]] = defaultdict(list)
    questions: dict[str, list[Question]] = defaultdict(list)
    for record in benchmark.documents:
        records[record.groups.get(level, "none")].append(record)
    for question in benchmark.questions:
        questions[benchmark.record[question.record_id].groups.get(level, "none")].append(question)
    everyone = _subjects(benchmark, benchmark.documents)
    sizes = dict(zip(benchmark.record, count([record.text for record in benchmark.records]), strict=True))
    question_lengths = count([question.question for question in benchmark.questions])
    answer_lengths = count([question.answer for question in benchmark.questions])
    lengths_by_question = dict(
        zip(benchmark.question, zip(question_lengths, answer_lengths, strict=True), strict=True)
    )
    groups = [
        _group(benchmark, name, group_records, questions[name], len(everyone), sizes)
        for name, group_records in records.items()
    ]
    groups.sort(key=lambda row: (-row.subjects, row.group))
    total = _group(benchmark, TOTAL, benchmark.documents, benchmark.questions, len(everyone), sizes)
    lengths = [_lengths(row.group, questions[row.group], lengths_by_question) for row in groups]
    return Description(
        level,
        benchmark.subject_level,
        tokens,
        (*groups, total),
        (*lengths, _lengths(TOTAL, benchmark.questions, lengths_by_question)),
        tuple(_splits(benchmark)),
    )


def _subjects(benchmark: Benchmark, records: Iterable[Record]) -> set[str]:
    return {record.groups[benchmark.subject_level] for record in records}


def _group(
    benchmark: Benchmark,
    name: str,
    records: Sequence[Record],
    questions: Sequence[Question],
    everyone: int,
    sizes: Mapping[str, int],
) -> GroupSize:
    subjects = len(_subjects(benchmark, records))
    tokens = [sizes[record.record_id] for record in records if record.text]
    return GroupSize(
        name,
        subjects,
        subjects / everyone,
        len(questions),
        min(tokens, default=None),
        sum(tokens) / len(tokens) if tokens else None,
        max(tokens, default=None),
    )


def _lengths(group: str, questions: Sequence[Question], lengths: Mapping[str, tuple[int, int]]) -> GroupLengths:
    by_kind: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for question in questions:
        by_kind[question.kind].append(lengths[question.question_id])
    question_lengths, answer_lengths = (
        {kind: sum(pair[place] for pair in pairs) / len(pairs) for kind, pairs in by_kind.items()}
        for place in (0, 1)
    )
    return GroupLengths(group, question_lengths, answer_lengths)


def _splits(benchmark: Benchmark) -> Iterable[SplitSize]:
    """Group splits of equal percentage and counts into one row; a split without a percentage gets its own row."""
    scopes: dict[tuple[str, str, int, int], list[str]] = defaultdict(list)
    trained: dict[str, int] = defaultdict(int)
    for question in benchmark.questions:
        trained[question.record_id] += question.fold == "train"
    for split in benchmark.splits.values():
        size, scope = _size(split)
        sides = benchmark.sides(split)
        for side in SIDES:
            questions = sum(n for record_id, n in trained.items() if sides[record_id] == side)
            records = [r for r in benchmark.records if sides[r.record_id] == side and r.fold == "train"]
            scopes[side, size, len(_subjects(benchmark, records)), questions].append(scope)
    for side in SIDES:
        rows = [SplitSize(*key, tuple(available)) for key, available in scopes.items() if key[0] == side]
        # The same order for both sides: what forgets less first.
        yield from sorted(rows, key=lambda row: row.subjects, reverse=side == "retain")
    holdout = [question for question in benchmark.questions if question.fold == "holdout"]
    if holdout:
        subjects = {benchmark.subject(question.record_id) for question in holdout}
        subjects &= _subjects(benchmark, benchmark.documents)
        yield SplitSize("holdout", "", len(subjects), len(holdout), ("all",))


def _size(split: Split) -> tuple[str, str]:
    """Label of a split's row in Table 5, and the scope listed there."""
    percent = _PERCENT.fullmatch(split.name)
    return (f"{int(percent[2])}%", percent[1]) if percent else (split.name, split.level)
