"""Context levels: questions with ever more names of the text's owner in front.

Source: MedForget, Section 5.4 and Table 6.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from medunlearn.data.benchmark import Benchmark
from medunlearn.data.records import SIDES, Question
from medunlearn.data.splits import Split
from medunlearn.errors import InputError

NONE = "none"


@dataclass(frozen=True, slots=True)
class ContextLevel:
    """Levels whose names are put in front of a question, coarse to fine; no levels: the plain question."""

    levels: tuple[str, ...]

    @property
    def name(self) -> str:
        """The coarsest named level; ``none`` without names."""
        return self.levels[0] if self.levels else NONE

    @property
    def identifiers(self) -> str:
        """``institution + patient + study``; empty if nothing is named."""
        return " + ".join(self.levels)


@dataclass(frozen=True)
class NodeNames:
    """Names of a benchmark's nodes.

    Attributes:
        levels: that have names, from the coarsest to the finest.
        by_node: (level, node) -> name; a node that is not in it is called by its own name.
    """

    benchmark: Benchmark
    levels: tuple[str, ...]
    by_node: Mapping[tuple[str, str], str]

    @staticmethod
    def of(benchmark: Benchmark) -> NodeNames:
        """Names on the levels of the identity questions (MedForget: institution, patient, study).

        A benchmark without such questions has the nodes' own names, of the levels above the finest one, and of the
        finest where its nodes are the subjects (a patient under a disease), not parts of them (a section).
        """
        by_node = node_names(benchmark)
        levels = {level for level, _ in by_node}
        if not levels:
            levels = {
                level for level in benchmark.levels if level in (benchmark.subject_level, *benchmark.levels[:-1])
            }
        return NodeNames(benchmark, tuple(level for level in benchmark.levels if level in levels), by_node)

    def contexts(self) -> list[ContextLevel]:
        """Context levels from none to all: no names, the finest level, the two finest, ..., all."""
        return [ContextLevel(self.levels[start:]) for start in range(len(self.levels), -1, -1)]

    def in_front(self, question: Question, context: ContextLevel) -> Question:
        """The question with the names in front: ``For institution A, patient B: <question>``."""
        if not context.levels:
            return question
        groups = self.benchmark.record[question.record_id].groups
        nodes = [(level, groups[level]) for level in context.levels]
        words = [f"{level.replace('_', ' ')} {self.by_node.get((level, node), node)}" for level, node in nodes]
        return replace(question, question=f"For {', '.join(words)}: {question.question}")


def attacked_questions(
    benchmark: Benchmark, split: Split, sides: Sequence[str], among: Collection[str] | None = None
) -> tuple[NodeNames, list[Question], int]:
    """Names, questions of the train fold except kind ``identity``, and the number skipped because their record has
    no node at some level.

    Args:
        among: ids of the questions that may be asked; None: all.
    """
    names = NodeNames.of(benchmark)
    if not names.levels:
        raise InputError(
            f"{benchmark.name} has no level above its {benchmark.levels[-1]}, so there is nothing to name in front "
            "of a question. Reconstruction needs a hierarchy of two levels at least."
        )
    questions = [
        question
        for side in SIDES
        if side in sides
        for question in benchmark.questions_of(split, side, ("train",))
        if question.kind != "identity" and (among is None or question.question_id in among)
    ]
    whole = [q for q in questions if benchmark.record[q.record_id].groups.keys() >= set(names.levels)]
    if not whole:
        raise InputError(
            f"Split {split.name!r} has no question of the train fold about a record with {', '.join(names.levels)}"
            f"{'' if among is None else ' in the probe set'}."
        )
    return names, whole, len(questions) - len(whole)


def node_names(benchmark: Benchmark) -> dict[tuple[str, str], str]:
    """(level, node) -> the name of an institution, patient or study, from the identity questions."""
    return {
        (question.level, benchmark.record[question.record_id].groups[question.level]): question.answer
        for question in benchmark.questions
        if question.kind == "identity" and question.fold == "train"
    }
