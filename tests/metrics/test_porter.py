"""Our Porter stemmer against nltk's, which rouge-score uses."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nltk.stem.porter import PorterStemmer

from medunlearn.metrics.porter import porter_stem

THEIRS = PorterStemmer().stem
ENDINGS = [
    *(
        "ational",
        "tional",
        "enci",
        "anci",
        "izer",
        "bli",
        "alli",
        "entli",
        "eli",
        "ousli",
        "ization",
        "ation",
        "ator",
    ),
    *("alism", "iveness", "fulness", "ousness", "aliti", "iviti", "biliti", "fulli", "logi", "icate", "ative"),
    *("alize", "iciti", "ical", "ful", "ness", "al", "ance", "ence", "er", "ic", "able", "ible", "ant", "ement"),
    *(
        "ment",
        "ent",
        "ou",
        "ism",
        "ate",
        "iti",
        "ous",
        "ive",
        "ize",
        "ion",
        "ed",
        "ing",
        "eed",
        "ied",
        "ies",
        "sses",
    ),
    *("ss", "s", "y", "e", "ll", "at", "bl", "iz"),
]
IRREGULAR = [
    *("sky", "skies", "dying", "lying", "tying", "news", "inning", "innings", "outing", "outings", "canning"),
    *("cannings", "howe", "proceed", "exceed", "succeed"),
]


@settings(max_examples=500, deadline=None)
@given(st.text("abcdefghijklmnopqrstuvwxyz0123456789éöñşж", min_size=1, max_size=12))
def test_any_word_is_stemmed_as_nltk_does(word: str) -> None:
    assert porter_stem(word) == THEIRS(word)


def test_every_rule_after_every_kind_of_stem() -> None:
    draw = random.Random(0)
    beginnings = ["".join(draw.choice("aeiybdlstw0") for _ in range(draw.randint(0, 4))) for _ in range(60)]
    words = [begin + first + last for begin in beginnings for first in ("", "al", "at") for last in ENDINGS]
    wrong = [word for word in words if word and porter_stem(word) != THEIRS(word)]
    assert wrong == []


def test_two_endings_in_a_row() -> None:
    words = [f"{begin}{first}{last}" for begin in ("b", "tr", "cra") for first in ENDINGS for last in ENDINGS]
    assert [word for word in words if porter_stem(word) != THEIRS(word)] == []


@pytest.mark.parametrize("word", IRREGULAR)
def test_irregular_words(word: str) -> None:
    assert porter_stem(word) == THEIRS(word)


def test_by_hand() -> None:
    # Examples of the 1980 paper, and of nltk's departures from it.
    assert [porter_stem(word) for word in ("caresses", "ponies", "hopping", "filing", "relational")] == [
        *("caress", "poni", "hop", "file", "relat")
    ]
    assert [porter_stem(word) for word in ("dies", "enjoyment", "geology", "by")] == [
        "die",
        "enjoy",
        "geolog",
        "by",
    ]
    assert porter_stem("y" * 10_000).startswith("yyy")
