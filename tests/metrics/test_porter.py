"""Porter stems with nltk's departures from the paper, which published ROUGE scores rest on."""

from __future__ import annotations

import pytest

from medunlearn.metrics.words import porter_stem

PAPER = {  # Porter 1980, an example of each step
    "caresses": "caress", "ponies": "poni", "agreed": "agre", "plastered": "plaster", "hopping": "hop",
    "falling": "fall", "filing": "file", "happy": "happi", "relational": "relat", "hopefulness": "hope",
    "electricity": "electr", "adjustment": "adjust", "probate": "probat", "cease": "ceas", "controlling": "control",
}  # fmt: skip
NLTK = {
    "dies": "die", "spied": "spi", "died": "die", "enjoyment": "enjoy", "geology": "geolog", "by": "by",
    "carefully": "care", "rationally": "ration",
    "dying": "die", "lying": "lie", "tying": "tie", "skies": "sky", "news": "news", "innings": "inning",
    "outing": "outing", "cannings": "canning", "howe": "howe", "proceed": "proceed", "exceed": "exceed",
}  # fmt: skip
OTHERS = {"ing": "ing", "s": "s", "é": "é", "öfen": "öfen", "3rd": "3rd", "mmhg": "mmhg", "ies": "i", "sses": "ss"}


@pytest.mark.parametrize("stems", [PAPER, NLTK, OTHERS], ids=["paper", "nltk", "others"])
def test_by_hand(stems: dict[str, str]) -> None:
    assert {word: porter_stem(word) for word in stems} == stems


def test_a_long_run_of_y_takes_no_recursion() -> None:
    assert porter_stem("y" * 10_000).startswith("yyy")
