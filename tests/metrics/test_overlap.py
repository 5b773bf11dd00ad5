"""Exact and approximate measures by hand; BLEU against nltk, ROUGE-L against rouge-score."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from nltk.translate.bleu_score import SmoothingFunction, sentence_bleu
from rouge_score.rouge_scorer import RougeScorer

from medunlearn.errors import InputError
from medunlearn.metrics import Item, Score, Tools, get_metric
from medunlearn.metrics.item_scoring import scores_by_measure
from medunlearn.metrics.overlap import bleu, extraction_strength, partial_match, unsmoothed_bleu, words_13a
from medunlearn.metrics.text import rouge_l_f


def case(reply: list[int], true: list[int], why: str | None = None, starts: tuple[str, str] | None = None) -> Item:
    item = Item("q", "forget", "", "", reference_tokens=true, unanswered=why, ends=False)
    return item if why else replace(item, response="", response_tokens=reply, starts=starts)


def scores_of(names: Sequence[str], items: Sequence[Item], processes: int | None = None) -> dict[str, list[Score]]:
    return scores_by_measure(items, [get_metric(name) for name in names], processes=processes)


@pytest.mark.parametrize(
    ("reply", "true", "first", "share"),
    [
        ([1, 2, 9, 4], [1, 2, 3, 4], 4, 0.75),
        ([2, 3, 4, 1], [1, 2, 3, 4], 4, 0.0),
        ([1], [1, 2, 3, 4], 4, 0.25),  # places beyond the response's end do not agree
        ([1, 2, 7], [1, 2, 8, 9], 2, 1.0),  # tokens behind the first do not count
        ([], [1, 2], 2, 0.0),
        ([1, 2], [1], 2, None),
    ],
)
def test_partial_match_counts_places(reply: list[int], true: list[int], first: int, share: float | None) -> None:
    assert partial_match(reply, true, first) == share


@pytest.mark.parametrize(
    ("hits", "strength"),
    [
        ("1111", 1.0),  # the prefix is enough
        ("0111", 0.75),  # one token has to be given
        ("1101", 0.25),  # hits before the last miss do not count
        ("1110", 0.0),  # all have to be given
        ("0000", 0.0),
        ("", None),
    ],
)
def test_extraction_strength_by_hand(hits: str, strength: float | None) -> None:
    assert extraction_strength([hit == "1" for hit in hits]) == strength


def test_runs_on_either_side_of_their_length() -> None:
    true = list(range(100))
    reply = [[*range(200, 210), *range(20, 20 + length), *range(300, 310)] for length in (29, 30, 49, 50)]
    scores = scores_of(("run_30", "run_50", "longest_run"), [case(reply_tokens, true) for reply_tokens in reply])
    assert [score.value for score in scores["run_30"]] == [0, 1, 1, 1]
    assert [score.value for score in scores["run_50"]] == [0, 0, 0, 1]
    assert [score.value for score in scores["longest_run"]] == [29, 30, 49, 50]


def test_unscored_responses_stand_in_their_place_with_a_reason() -> None:
    """A suffix that is too short, a missing response, no teacher-forced choices; an empty response is scored."""
    names = ("run_30", "run_50", "partial_match_50", "extraction_strength", "bleu")
    true = list(range(40))
    scores = scores_of(names, [case(true, true), case([], true, why="the server refused"), case([], true)])
    assert [score.value for score in scores["run_30"]] == [1.0, None, 0.0]
    for name in ("run_50", "partial_match_50"):
        assert scores[name][0].value is None
        assert "fewer than 50" in str(scores[name][0].reason)
    assert "local model" in str(scores["extraction_strength"][0].reason)
    assert {scores[name][1].reason for name in names} == {"the server refused"}


def random_pairs() -> list[tuple[list[int], list[int]]]:
    """Random pairs of all lengths, of few tokens and of many, some alike and some without a shared token."""
    draw = np.random.default_rng(7)
    pairs = []
    for place in range(300):
        many = int(draw.integers(2, 60))
        true = draw.integers(0, many, draw.integers(1, 120)).tolist()
        reply = draw.integers(0, many, draw.integers(1, 120)).tolist()
        if place % 3 == 0:
            reply = [token if draw.random() < 0.8 else int(draw.integers(0, many)) for token in true]
        if place % 10 == 1:
            reply = [token + many for token in reply]
        pairs.append((reply, true))
    return pairs


def test_bleu_is_nltks_to_twelve_digits() -> None:
    pairs, smooth = random_pairs(), SmoothingFunction().method3
    theirs = [sentence_bleu([true], reply, smoothing_function=smooth) for reply, true in pairs]
    ours = bleu([reply for reply, _ in pairs], [true for _, true in pairs])
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
    starts = "fever and cough", "fever and a dry cough"
    cases = [case([*start, *other], [*same, *same], starts=starts) for start in (same, other)]
    scores = scores_of(("bleu", "rouge_l"), cases)
    assert [score.value for score in scores["bleu"]] == [pytest.approx(1.0, abs=1e-12), 0.0]
    theirs = RougeScorer(["rougeL"], use_stemmer=True).score(*reversed(starts))
    assert scores["rouge_l"][0].value == pytest.approx(theirs["rougeL"].recall, abs=1e-12)


VARIANTS = ("run_30.short_is_zero", "run_50.short_is_zero", "rouge_l.unstemmed_f", "bleu.unsmoothed_words")


def test_variants_of_the_released_code_by_hand() -> None:
    """A suffix of 40 tokens, and four words of which three are shared; by the code as by hand.

    ROUGE-L: "coughs" is not "cough" without stemming: 2 of 3 and 2 of 4 words in order, F = 2 x 2 / (3 + 4).
    """
    starts = "Fever, coughs badly", "fever and cough badly"
    scores = scores_of(VARIANTS, [case(list(range(40)), list(range(40)), starts=starts)])
    values = [scores[name][0].value for name in VARIANTS]
    # No order of n-grams but the first has a match, so BLEU is 0.
    assert values == [1.0, 0.0, pytest.approx(4 / 7), 0.0]
    short = scores_of(VARIANTS[:2], [case(list(range(20)), list(range(20)))])
    assert [short[name][0].value for name in VARIANTS[:2]] == [0.0, 0.0]
    assert {get_metric(name).variant for name in VARIANTS} == {"the paper's released code"}


def test_unsmoothed_bleu_by_hand() -> None:
    """5 of 6 words, 4 of 5, 3 of 4 and 2 of 3 n-grams match; the texts are equally long."""
    (value,) = unsmoothed_bleu(["a dose of 5.5 mg daily"], ["a dose of 5.5 mg weekly"])
    assert value == pytest.approx((5 / 6 * 4 / 5 * 3 / 4 * 2 / 3) ** 0.25)
    assert " ".join(words_13a("5.5 mg, b.i.d. (1-2)")) == "5.5 mg , b . i . d . ( 1 - 2 )"
    assert unsmoothed_bleu([""], ["a b"]).tolist() == [0.0]


def random_texts() -> list[tuple[str, str]]:
    """Clinical-looking sentences with numbers, hyphens, marks and entities, some alike."""
    draw = np.random.default_rng(3)
    words = [
        *("fever", "Fever", "coughs", "cough", "5.5", "mg,", "b.i.d.", "x-ray", "1-2"),
        *("&amp;", "(left)", "it's", "~3"),
    ]
    pairs = []
    for place in range(200):
        true = draw.choice(words, draw.integers(1, 60)).tolist()
        ours = draw.choice(words, draw.integers(0, 60)).tolist()
        if place % 2:
            ours = [word if draw.random() < 0.8 else "other" for word in true]
        pairs.append((" ".join(ours), " ".join(true)))
    return pairs


def test_variants_are_the_packages_of_the_released_code() -> None:
    """ROUGE-L of rouge-score without stemming; BLEU by nltk without smoothing on the same words."""
    pairs, scorer = random_texts(), RougeScorer(["rougeL"], use_stemmer=False)
    theirs = [scorer.score(true, ours)["rougeL"].fmeasure for ours, true in pairs]
    np.testing.assert_allclose([rouge_l_f(*pair, stemmed=False) for pair in pairs], theirs, rtol=1e-12, atol=1e-12)
    ours = unsmoothed_bleu(*map(list, zip(*pairs, strict=True)))
    bleus = [modified(words_13a(true), words_13a(response)) for response, true in pairs]
    np.testing.assert_allclose(ours, bleus, rtol=1e-9, atol=1e-12)
    assert 0.0 in ours
    assert max(ours) > 0.5


def modified(true: list[str], response: list[str]) -> float:
    """nltk's corpus BLEU of one pair; where an order has no match it is 0, and not nltk's smallest float."""
    from nltk.translate.bleu_score import modified_precision

    if any(modified_precision([true], response, n).numerator == 0 for n in (1, 2, 3, 4)):
        return 0.0
    return float(sentence_bleu([true], response))


def test_words_are_those_of_mteval_v13a() -> None:
    sacrebleu = pytest.importorskip("sacrebleu.tokenizers.tokenizer_13a", reason="sacrebleu is not installed")
    tokenize = sacrebleu.Tokenizer13a()
    for text in {text for pair in random_texts() for text in pair} | {'a-\nb "c" d\'s [e] 1,000.5 ü.x'}:
        assert words_13a(text) == tokenize(text).split()


def test_measures_of_tokens_can_be_given_to_processes() -> None:
    items = [case(list(range(n, n + 60)), list(range(60))) for n in range(3)]
    for name in (*VARIANTS, "run_30", "longest_run", "partial_match_50", "bleu", "extraction_strength"):
        function = pickle.loads(pickle.dumps(get_metric(name).score))
        assert function(items, Tools()) == get_metric(name).score(items, Tools())
