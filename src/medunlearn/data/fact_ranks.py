"""Ranks of facts among their alternatives by likelihood, as stored in a response store."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import isnan

from medunlearn.data.alternatives import VERSION, AlternativePool, Alternatives
from medunlearn.data.facts import Fact, facts_of
from medunlearn.data.note_versions import note_versions
from medunlearn.data.records import Question, Record
from medunlearn.data.responses import Responses
from medunlearn.data.value_draws import FEWEST
from medunlearn.seeds import generator

Facts = Sequence[tuple[Fact, Alternatives]]
"""Facts of one text, each with its alternatives."""


IN_RECORD = "record"
"""Variant of a store, and context in tables: a fact in its record's own text, as models are trained on it."""
AFTER = 2
"""Tokens behind a fact that count beside its own: they show whether it fits; the rest is the same for all."""
AT_ONCE = 8
"""Branches in one pass, for each prompt that is decoded at a time: their beginnings are shared, nothing is kept."""
NOT_A_NUMBER = "the model gives no number (NaN)"
VOCABULARY = "the tokenizer writes it in fewer tokens than others, as if made for it"
OTHER_LENGTH = "too few alternatives take as many tokens"


@dataclass(frozen=True, slots=True)
class FactRank:
    """Rank of a fact's true value among its alternatives by likelihood, or None and the reason.

    Attributes:
        kind: as of :class:`medunlearn.data.facts.Fact`.
        rank: 1 = likelier than every alternative; an equally likely alternative counts as likelier.
        of: number of values, the true one included.
        reason: why it has no rank; with a rank, why this tells nobody: the value is usual.
        equal: alternatives that are the true value, drawn again; a rank does not count them, a p-value does.
        inexact: why its p-value is not exact (:class:`~medunlearn.data.alternatives.Alternatives`); None if it is.
    """

    kind: str
    rank: int | None
    of: int
    reason: str | None = None
    equal: int = 0
    inexact: str | None = None


def rank_settings(alternatives: int, versions: int) -> dict[str, int]:
    """Settings that key a store of ranks: everything its likelihoods depend on besides model and prompt."""
    return {"alternatives": alternatives, "versions": versions, "alternatives_version": VERSION}


def p_value(fact: FactRank) -> float | None:
    """Exact p-value of a fact: (rank + equal) / (alternatives + 1), from 1 / (alternatives + 1) to 1.

    The chance that a model that cannot distinguish true value and alternatives ranks it as high. None without a
    rank and for a usual value.
    """
    return None if fact.rank is None or fact.reason is not None else (fact.rank + fact.equal) / fact.of


def facts_with_alternatives(question: Question, records: Mapping[str, Record], pool: AlternativePool) -> Facts:
    """The facts of a question's reference answer with their alternatives."""
    facts = facts_of(question, records[question.record_id].identifiers)
    return [(fact, pool.of(question, fact)) for fact in facts]


def record_facts(
    record: Record, candidates: Sequence[Fact], pool: AlternativePool, most: int | None, *, notes: int = 0
) -> Facts:
    """Facts in a record's own text with their alternatives, in text order; skipped facts without alternatives are
    included.

    Args:
        candidates: facts that may be drawn.
        most: number of rankable facts to draw (seeded by the record's id); None for all.
        notes: versions of the whole note for one more fact of kind ``note``, the first; 0 for none.
    """
    facts, rankable = list[tuple[Fact, Alternatives]](), 0
    for place in generator("record facts", pool.seed, record.record_id).permutation(len(candidates)).tolist():
        if rankable == most:
            break
        alternatives = pool.in_record(record, candidates[place])
        facts.append((candidates[place], alternatives))
        rankable += alternatives.reason is None
    facts.sort(key=lambda entry: entry[0].start)
    return [(Fact(0, len(record.text), "note"), note_versions(record, pool, notes)), *facts] if notes else facts


def stored_ranks(facts: Mapping[str, Facts], stored: Responses, variant: str) -> dict[str, list[FactRank]]:
    """Ranks by question or record, for texts whose facts are all stored."""
    ranks = {key: ranks_of(key, own, stored, variant) for key, own in facts.items()}
    return {key: complete for key, complete in ranks.items() if complete is not None}


def texts_to_rate(true: str, alternatives: Alternatives) -> list[str]:
    """The true text, then the alternatives, each once."""
    return [true, *dict.fromkeys(alternatives.texts)]


def draws_of(alternatives: Alternatives) -> tuple[int, ...]:
    """Number of draws that gave the true value, then that of each distinct other one."""
    return alternatives.equal, *Counter(alternatives.texts).values()


def comparable(text: str, fact: Fact, alternatives: Alternatives, lengths: Mapping[str, int]) -> Alternatives:
    """The alternatives that take as many tokens as the true value, filled up from the reserve.

    The likelihood of a value falls with its number of tokens, whatever it is. A tokenizer fitted on the subject's
    texts writes the true value in fewer. Among values of one length, the true one is as exchangeable as among all.

    Args:
        text: the fact's text.
        lengths: number of tokens of each value.

    Returns:
        Alternatives without texts, but with the reason, if there are too few.
    """
    true, behind = fact.of(text), len(text) - fact.end
    values = [other[fact.start : len(other) - behind] for other in alternatives.texts]
    count = len(values) + alternatives.equal
    alike = [value for value in values if lengths[value] == lengths[true]]
    equal = alternatives.equal
    for value in alternatives.reserve:
        if len(alike) + equal == count:
            break
        equal += value == true
        alike += [value] if value != true and lengths[value] == lengths[true] else []
    if len(alike) + equal < min(FEWEST, count) or not alike:
        longer = sum(lengths[value] > lengths[true] for value in values)
        return Alternatives((), VOCABULARY if 2 * longer > len(values) else OTHER_LENGTH)
    return replace(
        alternatives, texts=tuple(fact.replaced(text, value) for value in alike), equal=equal, reserve=()
    )


def sample_of(fact: Fact) -> int:
    """Number of a fact in a store: its end position, or 0 for a whole note."""
    return 0 if fact.kind == "note" else fact.start + 1


def ranks_of(key: str, facts: Facts, stored: Responses, variant: str) -> list[FactRank] | None:
    """Ranks of the facts of a question or record from stored likelihoods; None if one is missing."""
    ranks = []
    for fact, alternatives in facts:
        if not alternatives.texts:
            ranks.append(FactRank(fact.kind, None, 0, alternatives.reason))
            continue
        response = stored.get((key, variant, sample_of(fact)))
        if response is None or response.answer_log_probs is None:
            return None
        if not response.answer_log_probs:
            ranks.append(FactRank(fact.kind, None, 0, response.response))
            continue
        true, *others = response.answer_log_probs
        equal, *times = response.response_tokens or draws_of(alternatives)
        if any(isnan(value) for value in (true, *others)):
            ranks.append(FactRank(fact.kind, None, 0, NOT_A_NUMBER))
        else:
            ahead = sum(n for other, n in zip(others, times, strict=True) if other >= true)
            of, reason = 1 + sum(times) + equal, alternatives.reason
            ranks.append(FactRank(fact.kind, 1 + ahead, of, reason, equal, alternatives.inexact))
    return ranks
