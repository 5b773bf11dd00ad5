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


class RankLengths(NamedTuple):
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
        nothing = sizes.of_records((), None)
        return RankLengths(nothing, nothing, 0, 0)
    few = settings.model_copy(update={"ranked": min(SUBJECTS, settings.ranked or SUBJECTS)})
    sample = _CountedRanks(plan.benchmark, plan.fingerprint, plan.split, few, plan.key, plan.needs - {NOTES})
    whole, part = ([own for side in SIDES for own in ranks.records_of(side).values()] for ranks in (plan, sample))
    notes = [record for records in part for record in records] if NOTES in plan.needs else []
    facts = [*_branches(sizes, sample, rendering)]
    shared, own, count, record = np.array(facts, dtype=float).reshape(-1, 4).T
    family, count = np.arange(len(facts)), count.astype(int)
    branches = Lengths(shared + own, own, shared, family, record).only(np.repeat(family, count))
    times = len(whole) / max(1, len(part))
    versions = sizes.of_records(notes * (1 + settings.versions), None)
    return RankLengths(branches, versions, len(facts) * times, times)


def _branches(sizes: TokenSizes, plan: RankPlan, rendering: Rendering) -> Iterator[tuple[float, float, int, int]]:
    """Of each fact in an answer or a record: tokens before it and of a branch, number of branches, its record."""
    questions = [sizes.benchmark.question[key] for key in plan.questions]
    records = [sizes.benchmark.record[key] for key in plan.records]
    prompted, tokens = sizes.of_questions(questions, rendering), sizes.notes.tokens([r.text for r in records])
    texts = [
        *zip(
            plan.questions.values(),
            (q.answer for q in questions),
            prompted.whole - prompted.scored,
            prompted.scored,
            prompted.record,
            strict=True,
        ),
        *zip(
            plan.records.values(),
            (r.text for r in records),
            0 * tokens,
            tokens,
            sizes.places_of(records),
            strict=True,
        ),
    ]
    for facts, text, before, length, record in texts:
        for fact, others in facts:
            a_letter = length / max(1, len(text))
            own = max(1.0, a_letter * (fact.end - fact.start)) + AFTER
            yield before + a_letter * fact.start, own, 1 + len(others.texts), record
