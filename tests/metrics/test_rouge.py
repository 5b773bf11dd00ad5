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
from medunlearn.metrics.text import (
    NO_LETTER,
    NO_REFERENCE_TOKEN,
    OTHER_SCRIPT,
    rouge_l_recall,
    rouge_l_recalls,
    rouge_l_unicode_recalls,
    why_unread,
)
from medunlearn.metrics.words import rouge_tokens, stem_sequences, unicode_sequences, unicode_tokens

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
        assert value is None or value == pytest.approx(theirs, abs=1e-12)
        assert (value is None) == (why_unread(reference) is not None)
        assert value is not None or not THEIRS._tokenizer.tokenize(reference) or not reference.isascii()


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


@settings(max_examples=200, deadline=None)
@given(pairs=st.lists(st.tuples(TEXTS, TEXTS), max_size=6))
def test_unicode_recalls_equal_the_published_ones_on_ascii_texts(pairs: list[tuple[str, str]]) -> None:
    plain = [tuple(text.encode("ascii", "ignore").decode() for text in pair) for pair in pairs]
    responses, references = [pair[0] for pair in plain], [pair[1] for pair in plain]
    assert rouge_l_unicode_recalls(responses, references) == rouge_l_recalls(responses, references)
    # Beside a text of another script they go another way.
    mixed = rouge_l_unicode_recalls([*responses, "心"], [*references, "心"])
    assert mixed == [*rouge_l_recalls(responses, references), 1.0]


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("Пациент ПОЛУЧИЛ 5 мг.", ["пациент", "получил", "5", "мг"]),
        ("患者患有糖尿病2型", [*"患者患有糖尿病", "2", "型"]),
        ("心臓の レントゲン写真", [*"心臓のレントゲン写真"]),
        ("L'été à Besançon", ["l", "été", "à", "besançon"]),
        ("e\u0301te\u0301 x-ray patients", ["été", "x", "ray", "patient"]),
        ("हिन्दी में", ["हिन्दी", "में"]),
        ("한국어 환자", ["한국어", "환자"]),
        ("\uff15\uff4d\uff47", ["5mg"]),
        ("\ud800 — … \u0301", []),
    ],
)
def test_words_of_every_script(text: str, tokens: list[str]) -> None:
    assert unicode_tokens(text) == tokens


@settings(max_examples=100, deadline=None)
@given(texts=st.lists(st.one_of(TEXTS, st.text("пациент患者のé\u0301 5a", max_size=30)), max_size=6))
def test_unicode_sequences_are_those_of_each_text_alone(texts: list[str]) -> None:
    together = unicode_sequences(texts)
    assert [len(sequence) for sequence in together] == [len(unicode_tokens(text)) for text in texts]
    tokens = [token for text in texts for token in unicode_tokens(text)]
    signs = [sign for sequence in together for sign in sequence]
    assert len(set(signs)) == len(set(tokens)) == len(set(zip(tokens, signs, strict=True)))


@pytest.mark.parametrize(
    ("response", "reference", "published", "unicode"),
    [
        # Wrong answers, of which the published rule would see the digit alone: recall 1.
        ("Пациент принимает 5 капель йода", "Больной получил 5 мг аспирина", OTHER_SCRIPT, 1 / 5),
        ("他患有肺炎5", "患者5岁", OTHER_SCRIPT, 2 / 4),
        ("風邪 5", "心臓病 5", OTHER_SCRIPT, 1 / 4),
        ("Больной", "Больной", NO_REFERENCE_TOKEN, 1.0),
        # French: most letters are read.
        ("le patient a ete opere", "le patient a été opéré", 1 / 2, 3 / 5),
        ("le patient a été opéré", "le patient a été opéré", 1.0, 1.0),
        ("the patient has диабет", "the patient has диабет", 1.0, 1.0),
        ("the 心臓", "a 心臓 の レントゲン", OTHER_SCRIPT, 2 / 9),
        ("", "...", NO_REFERENCE_TOKEN, NO_LETTER),
    ],
)
def test_other_scripts(response: str, reference: str, published: float | str, unicode: float | str) -> None:
    item = Item("q", "forget", "", reference, response=response)
    for name, expected in (("rouge_l", published), ("rouge_l_unicode", unicode)):
        (score,) = get_metric(name).score([item], Tools())
        assert (score.reason or score.value) == (expected if isinstance(expected, str) else pytest.approx(expected))
