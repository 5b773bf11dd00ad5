"""Completion questions: continue a document from a random place in its second half, or after a prefix of given
length.

Source of the random place: LUME, Section 2.3 (regurgitation). The paper says a random position with the sentences
before it; its released files cut within a sentence in nine documents of ten, at 70% to 89% of the characters of
stories and public biographies. ``sentence`` cuts before a sentence, ``word`` before any word.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from medunlearn.data.records import Question, Record
from medunlearn.data.sentences import sentence_starts
from medunlearn.seeds import generator

At = Literal["sentence", "word"]

_WORD_START = re.compile(r"(?<=\s)\S")
_WORD = re.compile(r"\S+")


def completion(text: str, rng: np.random.Generator, at: At = "sentence") -> tuple[str, str] | None:
    """Prompt and expected continuation: the text before and after a random place in its second half.

    A text without a sentence's beginning in its second half is cut before a word; None if it has no word there
    either. Neither part has white space at the cut.
    """
    half = len(text.rstrip()) / 2
    starts = [place for place in sentence_starts(text) if place >= half] if at == "sentence" else []
    if not starts:
        starts = [match.start() for match in _WORD_START.finditer(text) if match.start() >= half]
    if not starts:
        return None
    place = starts[int(rng.integers(len(starts)))]
    prompt, expected = text[:place].rstrip(), text[place:].strip()
    return (prompt, expected) if prompt and expected else None


def completion_questions(
    records: Iterable[Record], level: str, *, seed: int = 0, at: At = "sentence"
) -> list[Question]:
    """One completion question per record, of the record's own fold; drawn by its id, so independent of other
    records.

    A record of a single word has none.
    """
    cuts = (
        (record, completion(record.text, generator("completion", record.record_id, seed), at)) for record in records
    )
    return [
        Question(
            question_id=f"{record.record_id}-sc1",
            record_id=record.record_id,
            fold=record.fold,
            kind="completion",
            level=level,
            question=cut[0],
            answer=cut[1],
            provenance=f"code:{at}",
        )
        for record, cut in cuts
        if cut is not None
    ]


@dataclass(frozen=True, slots=True)
class PrefixCut:
    """A prefix of a text and its continuation.

    Attributes:
        answer: the rest, with its leading white space if that is not a single space.
        words: number of words before the cut.
        whole: True if neither prefix nor rest was truncated.
    """

    prompt: str
    answer: str
    words: int
    whole: bool


def continuations(text: str, prefixes: Iterable[str], *, shortest: int, longest: int) -> list[PrefixCut]:
    """Cut a text after each of several prefix lengths, shortest first; equal lengths are merged.

    Args:
        prefixes: words (``64``) or a share of the text's words (``25%``).
        shortest: least number of words of the beginning and of the rest; shorter ones give no cut.
        longest: most words of the beginning (its last ones) and of the rest (its first ones).
    """
    words = [match.span() for match in _WORD.finditer(text)]
    counts = {_length(prefix, len(words)) for prefix in prefixes}
    cuts = []
    for count in sorted(count for count in counts if shortest <= count <= len(words) - shortest):
        start, end = max(0, count - longest), min(len(words), count + longest)
        whole = start == 0 and end == len(words)
        prompt, rest = text[words[start][0] : words[count - 1][1]], text[words[count - 1][1] : words[end - 1][1]]
        cuts.append(PrefixCut(prompt, rest[1:] if rest[:1] == " " and rest[1:2].strip() else rest, count, whole))
    return cuts


def _length(prefix: str, words: int) -> int:
    return round(words * int(prefix[:-1]) / 100) if prefix.endswith("%") else int(prefix)
