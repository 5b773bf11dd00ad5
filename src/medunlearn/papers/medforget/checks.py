"""Rules of a cloze, and of options beside a section, whoever wrote them: decided by code."""

from __future__ import annotations

import re
from functools import lru_cache

BLANK = "[blank]"
LONGEST_CLOZE = 5
"""Words of a gap's answer at most."""

_WORDS = re.compile(r"[^\W_]+(?:[.,]\d+)*")
_GRAMMAR_WORDS = "a an and are as at be by for from has have in is it of on or that the there this to was with"
_GRAMMAR = frozenset(_GRAMMAR_WORDS.split())


@lru_cache(maxsize=16384)
def normalised(text: str) -> str:
    """Words and numbers alone, in lower case: what two options must not have in common."""
    return " ".join(_WORDS.findall(text.casefold()))


def stands_in(phrase: str, text: str) -> bool:
    """Whether a phrase stands in a text as whole words; case, punctuation and white space aside."""
    wanted = normalised(phrase)
    return bool(wanted) and f" {wanted} " in f" {normalised(text)} "


def meaning(text: str) -> frozenset[str]:
    """Words and numbers of a text that carry meaning."""
    return frozenset(normalised(text).split()) - _GRAMMAR


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
    """Whether a text holds all that an option says, in whatever order."""
    return stands_in(option, text) or (bool(meaning(option)) and meaning(option) <= meaning(text))
