"""Consistency checks of a benchmark's content: one message per problem."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from medunlearn.data.hierarchy import Hierarchy
from medunlearn.data.records import FOLDS, KINDS, Question, Record
from medunlearn.data.splits import Split
from medunlearn.errors import BenchmarkError


def content_problems(
    records: Sequence[Record],
    questions: Sequence[Question],
    splits: Mapping[str, Split],
    levels: Sequence[str],
    subject_level: str,
) -> Iterable[str]:
    """Every problem of a benchmark's content: duplicate ids, unknown folds and kinds, splits that do not cover."""
    yield from _duplicates("record_id", (record.record_id for record in records))
    yield from _duplicates("question_id", (question.question_id for question in questions))
    if not records:
        yield "it has no records"
    for record in records:
        yield from (f"record {record.record_id!r} {problem}" for problem in _record_problems(record, subject_level))
    record_ids = {record.record_id for record in records}
    for question in questions:
        problems = _question_problems(question, record_ids)
        yield from (f"question {question.question_id!r} {problem}" for problem in problems)
    try:
        hierarchy = Hierarchy(levels, records)
    except BenchmarkError as error:
        yield str(error)
        return
    for name, split in splits.items():
        if name != split.name:
            yield f"split {split.name!r} stands under the name {name!r}"
        yield from (f"split {split.name!r} {problem}" for problem in _split_problems(split, hierarchy))


def _record_problems(record: Record, subject_level: str) -> Iterable[str]:
    if not record.text.strip():
        yield "has no text"
    if record.fold not in FOLDS:
        yield f"has the unknown fold {record.fold!r}"
    if subject_level not in record.groups:
        yield f"names no {subject_level} (the subject level)"


def _question_problems(question: Question, record_ids: set[str]) -> Iterable[str]:
    if question.record_id not in record_ids:
        yield f"asks about a record that is not there: {question.record_id!r}"
    if question.fold not in FOLDS:
        yield f"has the unknown fold {question.fold!r}"
    if question.kind not in KINDS:
        yield f"has the unknown kind {question.kind!r}"
    if not question.answer:
        yield "has no answer"
    if question.answer_index is not None and not 0 <= question.answer_index < len(question.options):
        yield f"has answer_index {question.answer_index} for {len(question.options)} options"


def _split_problems(split: Split, hierarchy: Hierarchy) -> Iterable[str]:
    if split.level not in hierarchy.groups():
        yield f"is on a level that no record has: {split.level!r}"
        return
    nodes = set(hierarchy.nodes(split.level))
    forget, retain = set(split.forget), set(split.retain)
    if both := sorted(forget & retain):
        yield f"has nodes on both sides: {', '.join(both[:5])}"
    if unknown := sorted((forget | retain) - nodes):
        yield f"names {split.level} nodes that do not exist: {', '.join(unknown[:5])}"
    if repeated := sorted(
        node for node, n in Counter((*split.forget, *split.retain)).items() if n > 1 and node not in both
    ):
        yield f"names nodes twice: {', '.join(repeated[:5])}"
    if missing := sorted(nodes - forget - retain):
        yield f"does not cover its level; neither side has: {', '.join(missing[:5])}"
    if not forget or not retain:
        yield f"has an empty {'forget' if not forget else 'retain'} set"


def _duplicates(what: str, ids: Iterable[str]) -> Iterable[str]:
    return (f"{what} {name!r} stands {n} times" for name, n in Counter(ids).items() if n > 1)
