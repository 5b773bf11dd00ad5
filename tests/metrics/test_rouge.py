"""ROUGE-L recall against the rouge-score package."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rouge_score.rouge_scorer import RougeScorer

from medunlearn.metrics import Item, Tools, get_metric
from medunlearn.metrics.text import rouge_l_recall, rouge_l_recalls
from medunlearn.metrics.words import rouge_tokens, stem_sequences

RELEASED = Path(__file__).parents[3] / "shared" / "data" / "lume"
THEIRS = RougeScorer(["rougeL"], use_stemmer=True)

# Few stems with many endings, so that texts share tokens; and what could tell two tokenizers apart.
WORDS = st.sampled_from(
    [
        *("patient", "patients", "patient's", "was", "diagnosed", "diagnosis", "diagnoses", "x-ray", "X_RAY"),
        *("3.5mg", "12/03/1961", "naïve", "Straße", "İstanbul", "\u212aelvin", "K", "\ufb01brosis", "β-blocker"),
        *("²", "\u0663", "心臓", "ies", "sses", "ings", "news", "dying", "skies", "_", "__", "-", "\u2028"),
        *("\x1f", "🙂", "\ud800"),
    ]
)
SENTENCES = st.lists(WORDS, max_size=25).map(" ".join)
TEXTS = st.one_of(SENTENCES, st.text(max_size=60), st.text("abes ing_0\n", max_size=60))


@settings(max_examples=400, deadline=None)
@given(response=TEXTS, reference=TEXTS)
def test_equals_rouge_score(response: str, reference: str) -> None:
    theirs = THEIRS.score(reference, response)["rougeL"].recall
    assert rouge_l_recall(response, reference) == pytest.approx(theirs, abs=1e-12)


@settings(max_examples=200, deadline=None)
@given(pairs=st.lists(st.tuples(TEXTS, TEXTS), max_size=6))
def test_many_pairs_at_once_equal_rouge_score_on_each(pairs: list[tuple[str, str]]) -> None:
    recalls = rouge_l_recalls([response for response, _ in pairs], [reference for _, reference in pairs])
    assert len(recalls) == len(pairs)
    for value, (response, reference) in zip(recalls, pairs, strict=True):
        theirs = THEIRS.score(reference, response)["rougeL"].recall
        assert (value or 0.0) == pytest.approx(theirs, abs=1e-12)
        assert (value is None) == (not THEIRS._tokenizer.tokenize(reference))


@pytest.mark.skipif(not RELEASED.exists(), reason="the real LUME files (../shared/data/lume) are not here")
def test_real_answers_equal_rouge_score() -> None:
    lines = (RELEASED / "retain.jsonl").read_text(encoding="utf-8").splitlines()[:400]
    answers = [json.loads(line)["output"] for line in lines]
    responses, references = zip(*pairwise(answers), strict=True)
    theirs = [THEIRS.score(b, a)["rougeL"].recall for a, b in zip(responses, references, strict=True)]
    assert rouge_l_recalls(responses, references) == pytest.approx(theirs, abs=1e-12)


@settings(max_examples=200, deadline=None)
@given(texts=st.lists(TEXTS, max_size=6))
def test_sequences_are_as_alike_as_the_tokens_they_stand_for(texts: list[str]) -> None:
    tokens = [token for text in texts for token in rouge_tokens(text)]
    sequences = stem_sequences(texts)
    assert [len(sequence) for sequence in sequences] == [len(rouge_tokens(text)) for text in texts]
    signs = [sign for sequence in sequences for sign in sequence]
    assert len(set(signs)) == len(set(tokens)) == len(set(zip(tokens, signs, strict=True)))


@pytest.mark.parametrize(("name", "value"), [("text._AT_ONCE", 2), ("words._CHARACTERS", 3)])
def test_parts_and_too_many_stems_for_characters_change_nothing(
    name: str, value: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    responses = ["the lungs are clear", "no acute disease", "", "the heart is large", "clear lungs are the rule"]
    references = ["lungs are clear", "acute disease of the heart", "x", "...", "the lungs are clear"]
    whole = rouge_l_recalls(responses, references)
    monkeypatch.setattr(f"medunlearn.metrics.{name}", value)
    assert rouge_l_recalls(responses, references) == whole == [1.0, 2 / 5, 0.0, None, 2 / 4]


def test_a_response_without_a_reference_is_an_error() -> None:
    with pytest.raises(ValueError, match="2 responses for 1 references"):
        rouge_l_recalls(["a", "b"], ["a"])


@settings(max_examples=200, deadline=None)
@given(words=st.lists(st.text("aeiybdglnst", min_size=3, max_size=12), max_size=10))
def test_stems_equal_rouge_score(words: list[str]) -> None:
    assert rouge_tokens(" ".join(words)) == THEIRS._tokenizer.tokenize(" ".join(words))


def test_by_hand() -> None:
    # the cat sat on the mat | the cat is on a mat: the, cat, on, mat in order = 4 of 6.
    assert rouge_l_recall("the cat is on a mat", "The cat sat on the mat.") == pytest.approx(4 / 6)


@pytest.mark.parametrize(("response", "reference"), [("", "a"), ("a", ""), ("", ""), ("心臓", "心臓"), ("_", "_")])
def test_without_tokens_it_is_zero_as_in_the_package(response: str, reference: str) -> None:
    assert THEIRS.score(reference, response)["rougeL"].recall == 0
    assert rouge_l_recall(response, reference) == 0.0


def test_metric_leaves_a_reference_without_tokens_unscored() -> None:
    items = [
        Item("1", "forget", "q", "心臓", response="心臓"),
        Item("2", "forget", "q", "heart", response=""),
        Item("3", "retain", "q", "heart failure", response="Heart."),
    ]
    scores = get_metric("rouge_l").score(items, Tools())
    assert [score.value for score in scores] == [None, 0.0, 0.5]
    assert "nothing to recall" in str(scores[0].reason)
