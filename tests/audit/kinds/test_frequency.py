"""How many records hold a span, against looking for each span in each record."""

from __future__ import annotations

import re

from hypothesis import given, settings
from hypothesis import strategies as st

from medunlearn.audit.kinds.rules import records_holding

RECORDS = [
    ("a", "The text of one record. All rights reserved by the owner of this text."),
    ("b", "Another. ALL RIGHTS reserved, by the owner of this text; more follows here."),
    ("c", "All rights are reserved by the owner."),
]


def test_case_marks_and_broken_words_do_not_count():
    spans = [
        "rights reserved by the owner of this",
        "ghts reserved by the own",
        "All rights reserved",
        "no such words",
    ]
    assert records_holding(spans, RECORDS) == [2, 2, 2, 0]


def test_a_record_in_pieces_counts_once():
    assert records_holding(["rights reserved by the owner"], [*RECORDS, RECORDS[0]]) == [2]


def test_too_short_to_look_for():
    assert records_holding(["the owner", ""], RECORDS) == [0, 0]


WORDS = st.lists(st.sampled_from("abcd"), min_size=3, max_size=14).map(" ".join)


@settings(deadline=None)
@given(spans=st.lists(WORDS, min_size=1, max_size=4), texts=st.lists(WORDS, min_size=1, max_size=6))
def test_as_looking_for_each_span_in_each_record(spans: list[str], texts: list[str]):
    records = [(str(number), text) for number, text in enumerate(texts)]
    slowly = [sum(bool(re.search(rf"\b{span}\b", text)) for text in texts) for span in spans]
    assert records_holding(spans, records) == slowly
