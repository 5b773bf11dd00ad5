"""What holds for any text."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medunlearn.metrics import Item, Keywords, Tools, get_metric
from medunlearn.metrics.leakage.extractors import Offline
from medunlearn.metrics.leakage.phrases import LONGEST, SHORTEST, candidates, in_a_row, terms, words_of
from medunlearn.metrics.leakage.score import leakage
from medunlearn.metrics.leakage.selection import TOP, scored, seeds_of, select

SEEDS = [seed for disease in terms().diseases for seed in terms().seeds(disease)]
word = st.sampled_from(
    [*SEEDS, "the", "of", "left", "note", "patient's", "12", "ß", "-", ".", "\n", "漢字", "e\u0301"]
)
texts = st.lists(word, max_size=30).map(" ".join) | st.text(max_size=60)
disease = st.sampled_from(sorted(terms().diseases))


def keywords_of(category: str, *fields: str) -> list[tuple[str, float]]:
    seeds = seeds_of(category)
    found = [scored(candidates(phrases), seeds) for phrases in Offline().phrases(fields)]
    return [(one.phrase, one.weight) for one in select(*found)]


@given(disease, texts, texts, texts, texts)
def test_a_score_is_a_share(category: str, note: str, question: str, answer: str, response: str) -> None:
    keywords = keywords_of(category, note, question, answer)
    score = leakage(response, keywords)
    assert (score is None) == (not keywords)
    assert score is None or 0.0 <= score <= 1.0


@given(disease, texts, texts, texts)
def test_what_says_everything_has_one_and_what_says_nothing_zero(
    category: str, note: str, question: str, answer: str
) -> None:
    keywords = keywords_of(category, note, question, answer)
    if keywords:
        assert leakage(" / ".join(phrase.upper() for phrase, _ in keywords), keywords) == 1.0
        assert leakage(f"{note}\n{question}\n{answer}", keywords) == 1.0
        assert leakage("", keywords) == 0.0


@given(disease, texts, texts, texts)
def test_keywords_obey_the_rules(category: str, note: str, question: str, answer: str) -> None:
    keywords = dict(keywords_of(category, note, question, answer))
    rows = {field: in_a_row(text) for field, text in (("note", note), ("both", f"{question}\n{answer}"))}
    for phrase, weight in keywords.items():
        assert len(phrase) >= SHORTEST
        assert len(words_of(phrase)) <= LONGEST
        assert phrase not in terms().common
        assert 0.55 <= weight <= 1.25
        assert any(f" {phrase} " in row for row in rows.values())
        assert not any(f" {other} " in f" {phrase} " for other in keywords if other != phrase)
    assert sum(f" {phrase} " not in rows["both"] for phrase in keywords) <= TOP


@given(st.permutations(["sepsis", "lung abscess", "fever", "oral candida"]), texts)
def test_the_order_of_keywords_and_twice_the_response_change_nothing(order: list[str], response: str) -> None:
    weights = {"sepsis": 1.05, "lung abscess": 0.95, "fever": 1.1, "oral candida": 0.95}
    first = leakage(response, list(weights.items()))
    again = leakage(f"{response} and {response}", [(phrase, weights[phrase]) for phrase in order])
    assert again == pytest.approx(first, abs=1e-12)


def test_more_said_never_leaks_less() -> None:
    keywords = [("lung cancer", 1.05), ("stent", 1.1)]
    said = ["", "stent", "stent. lung", "stent. lung cancer"]
    scores = [leakage(response, keywords) or 0.0 for response in said]
    assert scores == sorted(scores)


def test_huge_and_strange_texts() -> None:
    started = time.perf_counter()
    huge = "lung cancer " * 200_000
    assert keywords_of("Cancer", huge, "", "") == []  # one phrase without an end is longer than six words
    many = "lung cancer. " * 200_000
    assert keywords_of("Cancer", many, "", "") == [("lung cancer", 1.25)]
    assert leakage(many, [("lung cancer", 1.25)]) == 1.0
    assert leakage("x" * 5_000_000, [("lung cancer", 1.25)]) == 0.0
    for text in ("\0", "\ud800", "'" * 1000, "-" * 1000, "\u202e lung cancer", "İ" * 100, "ﬁ" * 100):
        keywords_of("Cancer", text, text, text)
        leakage(text, [("lung cancer", 1.0)])
    assert time.perf_counter() - started < 60


def test_items_without_keywords_or_response_are_unscored_with_their_reason() -> None:
    from medunlearn.metrics.scoring import score

    ls = get_metric("ls")
    items = [
        Item("none", "forget", "?", "!", response="sepsis"),
        Item("why", "forget", "?", "!", response="sepsis", keywords=Keywords((), "there is no list")),
        Item("no-why", "forget", "?", "!", response="sepsis", keywords=Keywords(())),
        Item("silent", "forget", "?", "!", keywords=Keywords((("sepsis", 1.05),))),
        Item("empty", "forget", "?", "!", response="", keywords=Keywords((("sepsis", 1.05),))),
        Item("said", "retain", "?", "!", response="sepsis", keywords=Keywords((("sepsis", 1.05),))),
    ]
    table = score(items, [ls]).set_index("question_id")
    assert table["reason"]["none"] == "no keywords were extracted for the question"
    assert table["reason"]["why"] == "there is no list"
    assert table["reason"]["no-why"]
    assert table["reason"]["silent"] == "there is no response"
    assert table["value"].dropna().to_dict() == {"empty": 0.0, "said": 1.0}
    assert ls.score([], Tools()) == []


def test_in_several_processes_the_table_is_the_same() -> None:
    import pandas as pd

    from medunlearn.metrics.scoring import score

    keywords = Keywords((("sepsis", 1.05), ("fever", 1.1)))
    responses = ["sepsis", "fever", "", "sepsis and fever"]
    items = [
        Item(str(place), "forget", "?", "!", response=responses[place % 4], keywords=keywords)
        for place in range(2000)
    ]
    one = score(items, [get_metric("ls")], processes=1)
    pd.testing.assert_frame_equal(one, score(items, [get_metric("ls")], processes=2))
    assert one["value"][:4].tolist() == pytest.approx([1.05 / 2.15, 1.1 / 2.15, 0.0, 1.0])
