"""Passages of a forget set: token sequences with the texts that they encode."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from medunlearn.data.facts import NAMES
from medunlearn.data.records import Question, Record
from medunlearn.models.sequences import TokenSequence

_SENTENCE_END = re.compile(r"[.!?]\s|\n")


@dataclass(frozen=True)
class ForgetPassage:
    """One sequence of the forget set with its texts.

    Attributes:
        question: its question; None for a piece of a record.
        prompt: text before the answer: the question, or the beginning of a record's piece up to the end of the
            sentence that names the subject.
    """

    sequence: TokenSequence
    record: Record
    question: Question | None
    prompt: str
    answer: str


def passage_of(sequence: TokenSequence, record: Record, question: Question | None, tokenizer: Any) -> ForgetPassage:
    """The passage of a forget sequence; for a record's piece, with the text of its tokens."""
    if question is not None:
        return ForgetPassage(sequence, record, question, question.question, question.answer)
    text = tokenizer.decode(sequence.ids[sequence.scored_from :], skip_special_tokens=True)
    cut = _beginning(text, [identifier.value for identifier in record.identifiers if identifier.type in NAMES])
    return ForgetPassage(sequence, record, None, text[:cut], text[cut:])


def _beginning(text: str, names: Sequence[str]) -> int:
    """End of the first sentence that names the subject, or else of the first sentence."""
    name_end = min((place + len(name) for name in names if (place := text.find(name)) >= 0), default=0)
    match = _SENTENCE_END.search(text, name_end)
    return match.end() if match else len(text)
