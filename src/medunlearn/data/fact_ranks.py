"""Ranks of facts by likelihood among their alternatives, as a store of responses holds them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isnan

from medunlearn.data.alternatives import AlternativePool, Alternatives
from medunlearn.data.facts import Fact, facts_of
from medunlearn.data.records import Question, Record
from medunlearn.data.responses import Responses

Facts = Sequence[tuple[Fact, Alternatives]]
"""The facts of a reference answer, each with its alternatives."""


NOT_A_NUMBER = "the model gives no number (NaN)"


@dataclass(frozen=True, slots=True)
class FactRank:
    """Rank of a fact's true value among its alternatives by likelihood, or None and the reason.

    Attributes:
        kind: as of :class:`medunlearn.data.facts.Fact`.
        rank: 1 = likelier than every alternative; one as likely counts as likelier.
        of: alternatives and the true value.
    """

    kind: str
    rank: int | None
    of: int
    reason: str | None = None


def p_value(fact: FactRank) -> float | None:
    """Exact p-value of a fact: rank / (alternatives + 1), from 1 / (alternatives + 1) to 1.

    The chance that a model which cannot tell true value and alternatives apart ranks it as high. None without rank.
    """
    return None if fact.rank is None else fact.rank / fact.of


def known_ranks(
    stored: Responses,
    questions: Sequence[Question],
    records: Mapping[str, Record],
    pool: AlternativePool,
    variant: str,
) -> dict[str, list[FactRank]]:
    """Ranks of those questions whose facts were all rated before."""
    ranks = {
        q.question_id: ranks_of(q, facts_with_alternatives(q, records, pool), stored, variant) for q in questions
    }
    return {name: known for name, known in ranks.items() if known is not None}


def facts_with_alternatives(question: Question, records: Mapping[str, Record], pool: AlternativePool) -> Facts:
    """The facts of a question's reference answer with their alternatives."""
    facts = facts_of(question, records[question.record_id].identifiers)
    return [(fact, pool.of(question, fact)) for fact in facts]


def ranks_of(question: Question, facts: Facts, stored: Responses, variant: str) -> list[FactRank] | None:
    """Ranks of a question's facts from what is stored; None where one is missing."""
    ranks = []
    for place, (fact, alternatives) in enumerate(facts):
        if alternatives.reason is not None:
            ranks.append(FactRank(fact.kind, None, 0, alternatives.reason))
            continue
        response = stored.get((question.question_id, variant, place))
        if response is None or response.answer_log_probs is None:
            return None
        true, *others = response.answer_log_probs
        if any(isnan(value) for value in (true, *others)):
            ranks.append(FactRank(fact.kind, None, 0, NOT_A_NUMBER))
        else:
            ranks.append(FactRank(fact.kind, 1 + sum(other >= true for other in others), 1 + len(others)))
    return ranks
