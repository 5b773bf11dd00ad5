"""Beginnings of sentences, and cuts at their ends."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medunlearn.data.sentences import cut_to, sentence_starts


def parts(text: str) -> list[str]:
    starts = sentence_starts(text)
    return [text[start:end].strip() for start, end in zip(starts, [*starts[1:], len(text)], strict=False)]


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("One. Two! Three? Four", ["One.", "Two!", "Three?", "Four"]),
        ('He said "Go." Then he left.', ['He said "Go."', "Then he left."]),
        ("Dr. Quill met J. R. Vorn at 5 p.m. in St. Isk.", ["Dr. Quill met J. R. Vorn at 5 p.m. in St. Isk."]),
        ("Title\n\nThe text begins. and goes on.", ["Title", "The text begins. and goes on."]),
        ("It cost 3.50 in 1999. 12 came.", ["It cost 3.50 in 1999.", "12 came."]),
        ("  Spaced.  ", ["Spaced."]),
        ("", []),
        ("   ", []),
    ],
)
def test_sentences(text: str, sentences: list[str]) -> None:
    assert parts(text) == sentences


def test_cut_at_the_end_of_a_sentence() -> None:
    text = "One two three. Four five six seven. Eight nine."
    assert cut_to(text, 1, 9) == text
    assert cut_to(text, 1, 8) == "One two three. Four five six seven."
    assert cut_to(text, 1, 6) == "One two three."
    assert cut_to(text, 4, 6) is None, "one sentence is too short, two are too long"
    assert cut_to(text, 1, 2) is None


@given(st.text(alphabet="aB. \n!?\"'1", max_size=60))
def test_parts_are_the_text(text: str) -> None:
    starts = sentence_starts(text)
    assert starts == sorted(set(starts))
    assert all(not text[start].isspace() for start in starts)
    assert "".join("".join(parts(text)).split()) == "".join(text.split())
