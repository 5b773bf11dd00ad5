"""Private questions: those whose answers occur only in their own record.

A question on a section is *private* if neither its answer nor, for a cloze, the sentence around the gap occurs in a
record that the model may keep. Correct answers to other questions say nothing about what a model remembers of a
patient.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from medunlearn.data.answer_texts import BLANK, GRAMMAR, normalised, stands_in
from medunlearn.data.benchmark import Benchmark
from medunlearn.data.records import Question
from medunlearn.data.splits import Split

RECURS, SAME_STATEMENT, ALL_GAP = (
    "its answer stands in another record",
    "another record holds the same statement",
    "the gap is the whole statement",
)


def recurring_answers(benchmark: Benchmark, split: Split) -> dict[str, str]:
    """Questions that are not private, with the reason.

    For a question to forget, the retain side's records count; for a retained one, those of other subjects. General
    questions (fold ``utility``) are never listed. A rephrased question is marked like its original.

    Returns:
        question id -> :data:`RECURS`, :data:`SAME_STATEMENT` or :data:`ALL_GAP`.
    """
    sides = benchmark.sides(split)
    texts = {r.record_id: f" {normalised(r.text)} " for r in benchmark.records if r.fold == "train"}
    subject = {name: benchmark.subject(name) for name in texts}
    with_word: dict[str, list[str]] = {}
    for name, text in texts.items():
        for word in set(text.split()):
            with_word.setdefault(word, []).append(name)

    @cache
    def holders(phrase: str) -> tuple[str, ...]:
        """Records that hold a phrase; only those with its rarest word are read."""
        rarest = min((with_word.get(word, []) for word in phrase.split()), key=len, default=[])
        return tuple(name for name in rarest if f" {phrase} " in texts[name])

    def elsewhere(phrase: str, record_id: str) -> bool:
        if sides[record_id] == "forget":
            return any(sides[name] == "retain" for name in holders(phrase))
        own = benchmark.subject(record_id)
        return any(subject[name] != own for name in holders(phrase))

    reasons = {}
    for question in benchmark.questions:
        if question.fold != "utility" and (reason := _reason(question, benchmark, elsewhere)):
            reasons[question.question_id] = reason
    return reasons


def _reason(question: Question, benchmark: Benchmark, elsewhere: Callable[[str, str], bool]) -> str:
    record = question.record_id
    if question.kind != "cloze":
        return RECURS if elsewhere(normalised(question.answer), record) else ""
    statement = filled_statement(question, benchmark.record[record].text)
    if _content_words(statement) <= _content_words(normalised(question.answer)):
        return ALL_GAP
    return SAME_STATEMENT if elsewhere(statement, record) else ""


def _content_words(text: str) -> int:
    return sum(word not in GRAMMAR for word in text.split())


def filled_statement(question: Question, text: str) -> str:
    """The statement of a cloze with its answer filled in, as :func:`normalised` words, if the record contains
    it.
    """
    before, _, after = question.question.partition(BLANK)
    filled = normalised(question.answer)
    for word in reversed(normalised(before).split()):
        if not stands_in(f"{word} {filled}", text):
            break
        filled = f"{word} {filled}"
    for word in normalised(after).split():
        if not stands_in(f"{filled} {word}", text):
            break
        filled = f"{filled} {word}"
    return filled
