"""Ranks of facts: ties, repeated draws, and how many facts of a record are ranked."""

from __future__ import annotations

from math import nan

import pytest

from medunlearn.data.alternatives import AlternativePool, Alternatives
from medunlearn.data.fact_ranks import (
    OTHER_LENGTH,
    VOCABULARY,
    FactRank,
    comparable,
    p_value,
    ranks_of,
    record_facts,
    sample_of,
)
from medunlearn.data.facts import Fact, facts_in
from medunlearn.data.records import Record
from medunlearn.data.responses import Response, Responses
from medunlearn.metrics import get_metric
from medunlearn.metrics.measure import Item, Tools

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


def test_values_are_compared_with_those_of_as_many_tokens() -> None:
    text, fact = "Dose 31 mg.", Fact(5, 7, "number")
    drawn = ["30", "7", "7", "100", *map(str, range(40, 56))]
    others = Alternatives(
        tuple(fact.replaced(text, value) for value in drawn), equal=2, reserve=("8", "31", "60", "61")
    )
    lengths = {value: len(value) for value in ("31", *drawn, *others.reserve)}
    same = comparable(text, fact, others, lengths)
    # Three draws were of another length: the true value, drawn again, and two others stand in for them.
    assert [other[5:-4] for other in same.texts] == ["30", *map(str, range(40, 56)), "60", "61"]
    assert (same.equal, same.reserve, same.reason) == (3, (), None)


@pytest.mark.parametrize(("tokens", "reason"), [(1, VOCABULARY), (9, OTHER_LENGTH)])
def test_a_value_of_its_own_number_of_tokens_is_not_ranked(tokens: int, reason: str) -> None:
    """A tokenizer that was fitted on a value writes it in fewer tokens than any other."""
    text, fact = "Dose 31 mg.", Fact(5, 7, "number")
    drawn = [*map(str, range(40, 80))]
    others = Alternatives(tuple(fact.replaced(text, value) for value in drawn), reserve=("80", "81"))
    lengths = {**dict.fromkeys((*drawn, "80", "81"), 2), "31": tokens}
    refused = comparable(text, fact, others, lengths)
    assert (refused.texts, refused.reason) == ((), reason)


def test_a_usual_value_has_a_rank_and_no_p() -> None:
    alternatives = Alternatives(("a",) * 30, "its value is usual: 29 of 59 draws are the same", equal=29)
    (fact,) = ranks_of("q", [(FACT, alternatives)], stored(-1.0, -2.0), "plain") or []
    assert (fact.rank, fact.of, p_value(fact)) == (1, 60, None)
    item = Item("q", "forget", "?", "!", fact_ranks=[fact])
    scores = {name: get_metric(name).score([item], Tools())[0] for name in ("ranked_first", "rank", "exposure")}
    # By its share: half of the draws that equal it stand before it.
    assert scores["rank"].value == pytest.approx((1 + 29 / 2 - 0.5) / 60)
    assert [scores[name].value for name in ("ranked_first", "exposure")] == [None, None]
    assert scores["ranked_first"].reason == alternatives.reason


def test_how_often_each_value_was_drawn_is_read_from_the_store() -> None:
    kept = Response("q", "plain", sample_of(FACT), "", (4, 3, 1), True, (-1.0, -0.5, -2.0))
    alternatives = Alternatives(("a", "b", "c"), inexact="few")
    (fact,) = ranks_of("q", [(FACT, alternatives)], {("q", "plain", sample_of(FACT)): kept}, "plain") or []
    assert fact == FactRank("number", 4, 9, equal=4, inexact="few")
    refused = Response("q", "plain", sample_of(FACT), VOCABULARY, (), True, ())
    (fact,) = ranks_of("q", [(FACT, alternatives)], {("q", "plain", sample_of(FACT)): refused}, "plain") or []
    assert fact == FactRank("number", None, 0, VOCABULARY)
