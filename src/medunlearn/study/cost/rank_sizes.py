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
    sizes: TokenSizes,
    settings: EvaluateSettings,
    metrics: Sequence[str],
    rendering: Rendering,
    max_length: int | None,
) -> RankLengths:
    """Lengths of what an evaluation ranks; empty without ranking measures.

    Args:
        rendering: of questions.
        max_length: of chunks of records.
    """
    plan = rank_plan(sizes.benchmark, settings.split, settings, metrics)
    if not plan.needs:
        nothing = sizes.of_records((), None)
        return RankLengths(nothing, nothing, 0, 0)
    few = settings.model_copy(update={"ranked": min(SUBJECTS, settings.ranked or SUBJECTS)})
    sample = _CountedRanks(plan.benchmark, plan.fingerprint, plan.split, few, plan.key, plan.needs - {NOTES})
    whole, part = ([own for side in SIDES for own in ranks.records_of(side).values()] for ranks in (plan, sample))
    notes = [record for records in part for record in records] if NOTES in plan.needs else []
    facts = [*_branches(sizes, sample, rendering, max_length or np.inf)]
    shared, own, count = np.array(facts, dtype=float).reshape(-1, 3).T
    family, times = np.arange(len(facts)), len(whole) / max(1, len(part))
    branches = Lengths(shared + own, own, shared, family, family).only(np.repeat(family, count.astype(int)))
    versions = sizes.of_records(notes * (1 + settings.versions), max_length)
    return RankLengths(branches, versions, len(facts) * times, times)


def _branches(
    sizes: TokenSizes, plan: RankPlan, rendering: Rendering, chunk: float
) -> Iterator[tuple[float, float, int]]:
    """Of each fact tokens in front of it, and tokens and number of its branches."""
    questions = [sizes.benchmark.question[key] for key in plan.questions]
    records = [sizes.benchmark.record[key] for key in plan.records]
    asked, tokens = sizes.of_questions(questions, rendering), sizes.notes.tokens([r.text for r in records])
    texts = [question.answer for question in questions] + [record.text for record in records]
    facts, before = [*plan.questions.values(), *plan.records.values()], [*(asked.whole - asked.scored), *0 * tokens]
    for own, text, prompt, count in zip(facts, texts, before, [*asked.scored, *tokens], strict=True):
        letter = count / max(1, len(text))
        for fact, others in own:
            value = max(1.0, letter * (fact.end - fact.start))
            yield prompt + letter * fact.start % chunk, value + AFTER, 1 + len(others.texts)
