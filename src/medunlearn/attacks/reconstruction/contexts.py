"""Whose a text is, named in front of a question: nothing, then the nearest level, then one more at a time.

Source: MedForget, Section 5.4 and Table 6.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from medunlearn.data.benchmark import Benchmark
from medunlearn.data.records import SIDES, Question, Record
from medunlearn.data.splits import Split
from medunlearn.errors import InputError

NONE = "none"


@dataclass(frozen=True, slots=True)
class ContextLevel:
    """How much is named.

    Attributes:
        name: the coarsest level that is named; ``none`` where nothing is.
        levels: all levels that are, from the coarsest to the finest.
    """

    name: str
    levels: tuple[str, ...]

    @property
    def identifiers(self) -> str:
        """``institution + patient + study``; empty where nothing is named."""
        return " + ".join(self.levels)


@dataclass(frozen=True)
class Names:
    """What the nodes of a benchmark are called.

    Attributes:
        levels: that have names, from the coarsest to the finest.
        called: (level, node) -> name; a node that is not in it is called by its own name.
    """

    levels: tuple[str, ...]
    called: Mapping[tuple[str, str], str]

    @staticmethod
    def of(benchmark: Benchmark) -> Names:
        """Of the levels that identity questions tell the names of (MedForget: institution, patient, study).

        A benchmark without such questions has the nodes' own names, of the levels above the finest one, and of the
        finest where its nodes are the subjects (a patient under a disease), not parts of them (a section).
        """
        called = node_names(benchmark)
        told = {level for level, _ in called}
        if told:
            return Names(tuple(level for level in benchmark.levels if level in told), called)
        own = benchmark.levels[-1:] if benchmark.subject_level == benchmark.levels[-1] else ()
        return Names((*benchmark.levels[:-1], *own), called)

    def contexts(self) -> list[ContextLevel]:
        """Nothing, the finest level, it and the next one, ... and all of them."""
        count = len(self.levels)
        cumulative = [self.levels[start:] for start in reversed(range(count))]
        return [ContextLevel(NONE, ()), *(ContextLevel(levels[0], levels) for levels in cumulative)]

    def in_front(self, question: Question, record: Record, context: ContextLevel) -> Question:
        """The question with the names in front: ``For institution A, patient B: <question>``.

        Args:
            record: that the question is about; it must carry a node of every level.
        """
        if not context.levels:
            return question
        words = []
        for level in context.levels:
            node = record.groups[level]
            words.append(f"{level.replace('_', ' ')} {self.called.get((level, node), node)}")
        return replace(question, question=f"For {', '.join(words)}: {question.question}")


@dataclass(frozen=True)
class Asked:
    """What an attack asks.

    Attributes:
        names: of the nodes.
        questions: without any context.
        left_out: how many questions of the sides are not asked, since their records carry no node of some level.
    """

    names: Names
    questions: tuple[Question, ...]
    left_out: int


def attacked_questions(benchmark: Benchmark, split: Split, sides: Sequence[str]) -> Asked:
    """Questions of the train fold about what stands in the records; who they belong to (``identity``) is not asked.

    Raises:
        InputError: the benchmark has no levels to name, or no such questions.
    """
    found = Names.of(benchmark)
    if not found.levels:
        raise InputError(
            f"{benchmark.name} has no level above its {benchmark.levels[-1]}, so there is nothing to name in front "
            "of a question. Reconstruction needs a hierarchy of two levels at least."
        )
    questions = [
        question
        for side in SIDES
        if side in sides
        for question in benchmark.questions_of(split, side, ("train",))
        if question.kind != "identity"
    ]
    asked = [q for q in questions if all(level in benchmark.record[q.record_id].groups for level in found.levels)]
    if not asked:
        raise InputError(
            f"Split {split.name!r} has no question of the train fold about a record with {', '.join(found.levels)}."
        )
    return Asked(found, tuple(asked), len(questions) - len(asked))


def node_names(benchmark: Benchmark) -> dict[tuple[str, str], str]:
    """(level, node) -> the name of an institution, patient or study, from the identity questions."""
    return {
        (question.level, benchmark.record[question.record_id].groups[question.level]): question.answer
        for question in benchmark.questions
        if question.kind == "identity" and question.fold == "train"
    }
