"""Rules of a cloze, and of options beside a section, whoever wrote them: decided by code."""

from __future__ import annotations

from medunlearn.data.answer_texts import BLANK, GRAMMAR, normalised, stands_in

__all__ = ["BLANK", "meaning", "normalised", "says", "stands_in", "wrong_cloze"]

LONGEST_CLOZE = 5
"""Words of a gap's answer at most."""


def meaning(text: str) -> frozenset[str]:
    """Words and numbers of a text that carry meaning."""
    return frozenset(normalised(text).split()) - GRAMMAR


def wrong_cloze(statement: str, answer: str, text: str) -> str:
    """Error of a gap, without words of the record; empty for none.

    It must be one gap, whose answer of one to five words stands in the section and not in the statement.
    """
    if statement.count(BLANK) != 1:
        return f"the statement must have exactly one {BLANK}"
    if not 1 <= len(normalised(answer).split()) <= LONGEST_CLOZE:
        return f"the answer must have 1 to {LONGEST_CLOZE} words"
    if not stands_in(answer, text):
        return "the answer is not in the section word for word"
    if stands_in(answer, statement.replace(BLANK, " / ")):
        return "the statement gives its own answer away"
    return ""


def says(text: str, option: str) -> bool:
    """True if a text holds all that an option says, in whatever order."""
    return stands_in(option, text) or (bool(meaning(option)) and meaning(option) <= meaning(text))
