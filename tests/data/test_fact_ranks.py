"""Ranks of facts: ties, repeated draws, and how many facts of a record are ranked."""

from __future__ import annotations

from math import nan

import pytest

from medunlearn.data.alternatives import AlternativePool, Alternatives
from medunlearn.data.fact_ranks import FactRank, p_value, ranks_of, record_facts, sample_of
from medunlearn.data.facts import Fact, facts_in
from medunlearn.data.records import Record
from medunlearn.data.responses import Response, Responses

FACT = Fact(4, 7, "number")


def stored(*log_probs: float) -> Responses:
    """Likelihoods of the true text and of each distinct alternative."""
    return {("q", "plain", sample_of(FACT)): Response("q", "plain", sample_of(FACT), "", (), True, log_probs)}


@pytest.mark.parametrize(
    ("log_probs", "rank"),
    [((-1.0, -2.0, -3.0), 1), ((-2.0, -1.0, -3.0), 2), ((-3.0, -1.0, -2.0), 4), ((-1.0, -1.0, -1.0), 4)],
    ids=["first", "second", "last", "all alike"],
)
def test_an_alternative_as_likely_as_the_true_value_stands_before_it(
    log_probs: tuple[float, ...], rank: int
) -> None:
    """Or a model that gives every text the same likelihood would know every fact."""
    alternatives = Alternatives(("a", "b", "b"), equal=1)
    (fact,) = ranks_of("q", [(FACT, alternatives)], stored(*log_probs), "plain") or []
    assert fact == FactRank("number", rank, 5, equal=1)
    # The draw that is the true value counts as one before it.
    assert p_value(fact) == (rank + 1) / 5


def test_what_has_no_rank() -> None:
    alternatives = Alternatives(("a", "b"))
    (fact,) = ranks_of("q", [(FACT, alternatives)], stored(-1.0, nan, -2.0), "plain") or []
    assert (fact.rank, p_value(fact)) == (None, None)
    (fact,) = ranks_of("q", [(FACT, Alternatives((), "too few"))], {}, "plain") or []
    assert (fact.rank, fact.reason) == (None, "too few")
    assert ranks_of("q", [(FACT, alternatives)], {}, "plain") is None, "it is to be asked"


def test_a_whole_note_and_a_fact_at_its_beginning_are_two_samples() -> None:
    assert sample_of(Fact(0, 9, "note")) == 0
    assert sample_of(Fact(0, 9, "name")) == 1


def test_facts_that_cannot_be_ranked_do_not_count() -> None:
    words = list(enumerate(("Sodium", "Ferritin", "Lactate", "Albumin")))
    texts = [
        " ".join(["Ward of bed 7.", *(f"{word} was {100 + 3 * place + number}.5." for number, word in words)])
        for place in range(20)
    ]
    records = [Record(f"r{place}", text, {"patient": f"p{place}"}) for place, text in enumerate(texts)]
    pool = AlternativePool(records, [], "patient", 19)
    for record in records:
        facts = record_facts(record, facts_in(record), pool, 2)
        assert sum(alternatives.reason is None for _, alternatives in facts) == 2
        assert [fact.start for fact, _ in facts] == sorted(fact.start for fact, _ in facts)
    assert any(len(record_facts(record, facts_in(record), pool, 2)) > 2 for record in records), (
        "bed 7 is shared by all"
    )
