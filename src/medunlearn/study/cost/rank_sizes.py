"""Lengths of the branches by which an evaluation ranks facts. No alternative is drawn: each fact has all of them.

Facts are found in the texts of a few subjects of each side; the others have as many on average.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from medunlearn.config import EvaluateSettings
from medunlearn.data.alternatives import Alternatives
from medunlearn.data.fact_ranks import AFTER
from medunlearn.data.facts import Fact
from medunlearn.data.records import SIDES, Question, Record
from medunlearn.models.sequences import Rendering
from medunlearn.probes.rank_plan import NOTES, RankPlan, rank_plan
from medunlearn.study.cost.sizes import Lengths, TokenSizes

SUBJECTS = 20
"""Subjects a side whose texts are searched for facts."""


@dataclass(frozen=True)
class _CountedPool:
    """Stand-in for a pool of alternatives, in which every fact has as many as asked for."""

    count: int
    seed: int = 0

    def of(self, question: Question, fact: Fact) -> Alternatives:
        return Alternatives(("",) * (len(question.options) - 1 if fact.kind == "option" else self.count))

    def in_record(self, record: Record, fact: Fact) -> Alternatives:
        return Alternatives(("",) * self.count)


class _CountedRanks(RankPlan):
    """Ranks of which only numbers are known."""

    @cached_property
    def pool(self) -> Any:
        return _CountedPool(self.settings.alternatives)


@dataclass(frozen=True)
class RankLengths:
    """Branches of facts, and whole notes with their versions; ``times`` as many on average are ranked.

    Attributes:
        facts: number of ranked facts.
    """

    branches: Lengths
    notes: Lengths
    facts: float
    times: float


def rank_lengths(
    sizes: TokenSizes, settings: EvaluateSettings, metrics: Sequence[str], rendering: Rendering
) -> RankLengths:
    """Lengths of what an evaluation ranks; empty without ranking measures."""
    plan = rank_plan(sizes.benchmark, settings.split, settings, metrics)
    if not plan.needs:
        return RankLengths(sizes.of_records((), None), sizes.of_records((), None), 0, 0)
    few = settings.model_copy(update={"ranked": min(SUBJECTS, settings.ranked or SUBJECTS)})
    sample = _CountedRanks(plan.benchmark, plan.fingerprint, plan.split, few, plan.key, plan.needs - {NOTES})
    whole, part = (
        [records for side in SIDES for records in own.records_of(side).values()] for own in (plan, sample)
    )
    notes = [record for records in part for record in records] if NOTES in plan.needs else []
    facts = [*_in_answers(sizes, sample, rendering), *_in_records(sizes, sample, rendering)]
    times = len(whole) / max(1, len(part))
    return RankLengths(
        _branches(facts),
        sizes.of_records(notes * (1 + settings.versions), rendering.max_length),
        len(facts) * times,
        times,
    )


class _Branches(NamedTuple):
    """Branches of one fact: tokens of their common beginning and of each, their number, and the record's place."""

    shared: float
    own: float
    branches: int
    record: int


def _in_answers(sizes: TokenSizes, plan: RankPlan, rendering: Rendering) -> Iterator[_Branches]:
    questions = [sizes.benchmark.question[key] for key in plan.questions]
    lengths = sizes.of_questions(questions, rendering)
    for place, question in enumerate(questions):
        letters = max(1, len(question.answer))
        for fact, others in plan.questions[question.question_id]:
            before = lengths.whole[place] - lengths.scored[place] * (1 - fact.start / letters)
            own = lengths.scored[place] * (fact.end - fact.start) / letters + AFTER
            yield _Branches(before, own, 1 + len(others.texts), int(lengths.record[place]))


def _in_records(sizes: TokenSizes, plan: RankPlan, rendering: Rendering) -> Iterator[_Branches]:
    records = [sizes.benchmark.record[key] for key in plan.records]
    for record, tokens in zip(records, sizes.notes(records), strict=True):
        letters, most = max(1, len(record.text)), (rendering.max_length or np.inf) - AFTER
        for fact, others in plan.records[record.record_id]:
            own = max(1.0, tokens * (fact.end - fact.start) / letters) + AFTER
            # Longer notes are cut in chunks.
            before = (tokens * fact.start / letters) % most
            yield _Branches(before, own, 1 + len(others.texts), sizes.places[record.record_id])


def _branches(facts: Sequence[_Branches]) -> Lengths:
    columns = np.array(facts, dtype=float).reshape(-1, 4).T
    count = columns[2].astype(int)
    shared, own, record = (np.repeat(columns[place], count) for place in (0, 1, 3))
    return Lengths(shared + own, own, shared, np.repeat(np.arange(len(facts)), count), record)
