"""What can be wrong with a benchmark's content: one line a mistake."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING

from medunlearn.data.hierarchy import Hierarchy
from medunlearn.data.records import FOLDS, KINDS, Question
from medunlearn.data.splits import Split
from medunlearn.errors import BenchmarkError

if TYPE_CHECKING:
    from medunlearn.data.benchmark import Benchmark


def contradictions(benchmark: Benchmark) -> Iterable[str]:
    """Everything that is wrong with a benchmark's content, a line each."""
    yield from _twice("record_id", (record.record_id for record in benchmark.records))
    yield from _twice("question_id", (question.question_id for question in benchmark.questions))
    if not benchmark.records:
        yield "it has no records"
    if benchmark.data_use not in ("open", "credentialed"):
        yield f"data_use is {benchmark.data_use!r}, not open or credentialed"
    known = {record.record_id for record in benchmark.records}
    for record in benchmark.records:
        if not record.text.strip():
            yield f"record {record.record_id!r} has no text"
        if record.fold not in FOLDS:
            yield f"record {record.record_id!r} has the unknown fold {record.fold!r}"
        if benchmark.subject_level not in record.groups:
            yield f"record {record.record_id!r} names no {benchmark.subject_level} (the subject level)"
    for question in benchmark.questions:
        yield from (f"question {question.question_id!r} {wrong}" for wrong in _wrong(question, known))
    try:
        hierarchy = benchmark.hierarchy
    except BenchmarkError as error:
        yield str(error)
        return
    for name, split in benchmark.splits.items():
        if name != split.name:
            yield f"split {split.name!r} stands under the name {name!r}"
        yield from (f"split {split.name!r} {wrong}" for wrong in _wrong_split(split, hierarchy))


def _wrong(question: Question, known: set[str]) -> Iterable[str]:
    if question.record_id not in known:
        yield f"asks about a record that is not there: {question.record_id!r}"
    if question.fold not in FOLDS:
        yield f"has the unknown fold {question.fold!r}"
    if question.kind not in KINDS:
        yield f"has the unknown kind {question.kind!r}"
    if not question.answer:
        yield "has no answer"
    if question.answer_index is not None and not 0 <= question.answer_index < len(question.options):
        yield f"has answer_index {question.answer_index} for {len(question.options)} options"


def _wrong_split(split: Split, hierarchy: Hierarchy) -> Iterable[str]:
    if split.level not in hierarchy.groups():
        yield f"is on a level that no record has: {split.level!r}"
        return
    nodes = set(hierarchy.nodes(split.level))
    forget, retain = set(split.forget), set(split.retain)
    if both := sorted(forget & retain):
        yield f"has nodes on both sides: {', '.join(both[:5])}"
    if strange := sorted((forget | retain) - nodes):
        yield f"names {split.level} nodes that do not exist: {', '.join(strange[:5])}"
    if twice := sorted(
        node for node, n in Counter((*split.forget, *split.retain)).items() if n > 1 and node not in both
    ):
        yield f"names nodes twice: {', '.join(twice[:5])}"
    if left := sorted(nodes - forget - retain):
        yield f"does not cover its level; neither side has: {', '.join(left[:5])}"
    if not forget or not retain:
        yield f"has an empty {'forget' if not forget else 'retain'} set"


def _twice(what: str, ids: Iterable[str]) -> Iterable[str]:
    return (f"{what} {name!r} stands {n} times" for name, n in Counter(ids).items() if n > 1)
