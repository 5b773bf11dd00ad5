"""In how many records of its corpus a span stands: what many records share is a set phrase, and nobody's own."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

_WORDS = 8
_WORD = re.compile(r"\w+")


def records_holding(spans: Sequence[str], records: Iterable[tuple[str, str]]) -> list[int]:
    """Number of distinct records that hold each span, by words alone: case, spaces and marks do not count.

    A span may begin or end in the middle of a word, so its first and last word need only be the end and the
    beginning of the record's. Time grows with the text, not with spans times records: a span is looked for only
    where its first whole words stand.

    Args:
        spans: texts.
        records: record_id and text; one record may come in several pieces.

    Returns:
        One number a span, in their order; 0 for a span of fewer than three words.
    """
    words = [_WORD.findall(span.lower()) for span in spans]
    wanted: dict[int, dict[tuple[str, ...], list[int]]] = defaultdict(lambda: defaultdict(list))
    for number, one in enumerate(words):
        if len(one) >= 3:
            inner = tuple(one[1:-1][:_WORDS])
            wanted[len(inner)][inner].append(number)
    holders: list[set[str]] = [set() for _ in spans]
    for record, text in records:
        _look(record, _WORD.findall(text.lower()), wanted, words, holders)
    return [len(found) for found in holders]


def _look(
    record: str,
    text: list[str],
    wanted: Mapping[int, Mapping[tuple[str, ...], list[int]]],
    words: Sequence[Sequence[str]],
    holders: Sequence[set[str]],
) -> None:
    for length, starts in wanted.items():
        for place in range(1, len(text) - length):
            for number in starts.get(tuple(text[place : place + length]), ()):
                if _stands(text, place - 1, words[number]):
                    holders[number].add(record)


def _stands(text: Sequence[str], at: int, span: Sequence[str]) -> bool:
    end = at + len(span) - 1
    if end >= len(text) or not text[at].endswith(span[0]) or not text[end].startswith(span[-1]):
        return False
    return list(text[at + 1 : end]) == list(span[1:-1])
