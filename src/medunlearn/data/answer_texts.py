"""Normalised answers, for comparison regardless of case and punctuation."""

from __future__ import annotations

import re
from functools import lru_cache

BLANK = "[blank]"
"""Stands in a cloze question where its answer belongs."""

_WORDS = re.compile(r"[^\W_]+(?:[.,]\d+)*")
_GRAMMAR_WORDS = "a an and are as at be by for from has have in is it of on or that the there this to was with"
GRAMMAR = frozenset(_GRAMMAR_WORDS.split())


@lru_cache(maxsize=16384)
def normalised(text: str) -> str:
    """Lower-case words and numbers without punctuation; two options must differ in this form."""
    return " ".join(_WORDS.findall(text.casefold()))


def stands_in(phrase: str, text: str) -> bool:
    """True if a phrase occurs in a text as whole words, ignoring case, punctuation and white space."""
    words = normalised(phrase)
    return bool(words) and f" {words} " in f" {normalised(text)} "
