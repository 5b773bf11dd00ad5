"""BLEU against nltk, ROUGE-L against rouge-score, both on the first 100 tokens alone."""

from __future__ import annotations

import numpy as np
import pytest
from nltk.translate.bleu_score import SmoothingFunction, sentence_bleu
from rouge_score.rouge_scorer import RougeScorer

from medunlearn.audit.measures import Continuation, score_continuations
from medunlearn.audit.overlap import bleu
from medunlearn.errors import InputError


def pairs() -> list[tuple[list[int], list[int]]]:
    """Random pairs of all lengths, of few tokens and of many, some alike and some without a shared token."""
    draw = np.random.default_rng(7)
    found = []
    for place in range(300):
        many = int(draw.integers(2, 60))
        true = draw.integers(0, many, draw.integers(1, 120)).tolist()
        said = draw.integers(0, many, draw.integers(1, 120)).tolist()
        if place % 3 == 0:
            said = [token if draw.random() < 0.8 else int(draw.integers(0, many)) for token in true]
        if place % 10 == 1:
            said = [token + many for token in said]
        found.append((said, true))
    return found


def test_bleu_is_nltks_to_twelve_digits() -> None:
    smooth = SmoothingFunction().method3
    theirs = [sentence_bleu([true], said, smoothing_function=smooth) for said, true in pairs()]
    ours = bleu([said for said, _ in pairs()], [true for _, true in pairs()])
    np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-12)
    assert 0.0 in theirs
    assert max(theirs) > 0.5


def test_bleu_by_hand() -> None:
    # All n-grams of the shorter text match; it is penalised for its length: exp(1 - 8/4).
    np.testing.assert_allclose(bleu([[1, 2, 3, 4]], [[1, 2, 3, 4, 5, 6, 7, 8]]), [np.exp(-1)], rtol=1e-15)
    # 2 of 4 unigrams and 1 of 3 bigrams match; trigrams and 4-grams count as 1/(2 x 2) and 1/(4 x 1).
    np.testing.assert_allclose(bleu([[1, 2, 8, 9]], [[1, 2, 3, 4]]), [(2 / 4 / 3 / 4 / 4) ** 0.25], rtol=1e-15)
    assert bleu([[]], [[1, 2]]).tolist() == [0.0]
    assert bleu([], []).tolist() == []
    with pytest.raises(InputError, match="2 responses for 1"):
        bleu([[1], [2]], [[1]])


def test_only_the_first_hundred_tokens_count() -> None:
    same, other = list(range(100)), list(range(500, 600))
    texts = {"response_start": "fever and cough", "suffix_start": "fever and a dry cough"}
    cases = [
        Continuation(
            np.array([*same, *other], dtype=np.uint32), np.array([*same, *same], dtype=np.uint32), **texts
        ),
        Continuation(
            np.array([*other, *same], dtype=np.uint32), np.array([*same, *same], dtype=np.uint32), **texts
        ),
    ]
    found = score_continuations(("bleu", "rouge_l"), cases)
    assert [score.value for score in found["bleu"]] == [pytest.approx(1.0, abs=1e-12), 0.0]
    scorer = RougeScorer(["rougeL"], use_stemmer=True)
    theirs = scorer.score(texts["suffix_start"], texts["response_start"])["rougeL"].recall
    assert found["rouge_l"][0].value == pytest.approx(theirs, abs=1e-12)
