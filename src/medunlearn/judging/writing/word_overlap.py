"""Overlap of an answer's words with a text: simple measures used by the tasks' checks."""

from __future__ import annotations

import re
from functools import lru_cache

from medunlearn.metrics.words import porter_stem

# Words that say nothing of a patient: grammar, and what every note and every question is about.
_EMPTY_WORDS = """
a about after all also an and any are as at be because been before between both but by can could did do does
during each for from had has have he her his how i if in indicate indicated indicates into is it its likely
may might more most no not of on or other our over own patient patients rather reported same she should showed
shown shows so some such suggest suggested suggesting suggests than that the their them then there these they
this those through to together too under until up was we were what when where which while who whose why will
with within would yes you your
"""
_EMPTY = frozenset(_EMPTY_WORDS.split())
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety"
_SMALL = "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen"
_NUMBERS = {word: number for number, word in enumerate(f"{_SMALL} seventeen eighteen nineteen".split())}
_NUMBERS |= {word: 20 + 10 * place for place, word in enumerate(_TENS.split())}
_WORD = re.compile(r"\d+(?:[.,]\d+)*|[^\W\d_]+")
_THOUSANDS = re.compile(r"\d{1,3}(,\d{3})+(\.\d+)?")
_TYPOGRAPHY = str.maketrans("‘’“”‐‑–—−", "''\"\"-----")
_SENTENCE_END = re.compile(r"[.!?]+[\"')\]]*(?=\s+[\"'(\[]?[A-Z0-9]|\s*$)")
# A full stop after these ends no sentence. After one letter it does: notes end on "hepatitis B.", "mmol/L."
_ABBREVIATION = re.compile(
    r"\b(?:dr|mr|mrs|ms|prof|st|vs|nos|fig|figs|approx|ca|cf|e\.g|i\.e|resp|spp?|subsp|var)$", re.IGNORECASE
)


@lru_cache(maxsize=1024)
def content(text: str) -> frozenset[str]:
    """Content words of a text as a set: stems of words and values of numbers, without stop words.

    ``three``, ``3`` and ``3.0`` are equal; ``1,200`` is ``1200``.
    """
    return frozenset(
        value for word in _WORD.findall(text.casefold()) if word not in _EMPTY and (value := _value(word))
    )


def support(answer: str, text: str) -> float:
    """Share of an answer's content that the text contains, in [0, 1]; 0 for an answer without content."""
    words = content(answer)
    return len(words & content(text)) / len(words) if words else 0.0


def has_strange_number(answer: str, text: str) -> bool:
    """True if an answer contains a number that the text does not."""
    return any(word[0].isdigit() for word in content(answer) - content(text))


def holds(text: str, phrase: str) -> bool:
    """True if a phrase occurs in a text as whole words, ignoring case, white space and punctuation at its ends."""
    plain = squeezed(phrase).strip(" .,;:!?")
    return bool(plain) and bool(re.search(rf"(?<!\w){re.escape(plain)}(?!\w)", squeezed(text)))


@lru_cache(maxsize=1024)
def squeezed(text: str) -> str:
    """A text in lower case, with plain quotation marks and dashes, and single spaces."""
    return " ".join(text.translate(_TYPOGRAPHY).casefold().split())


def sentences(text: str) -> int:
    """Number of sentences; at least 1 unless the text is empty."""
    text = text.strip()
    ends = [end for end in _SENTENCE_END.finditer(text) if not _ABBREVIATION.search(text[: end.start()])]
    open_end = bool(text) and (not ends or ends[-1].end() < len(text))
    return len(ends) + open_end


def words(text: str) -> int:
    """Number of words, by white space."""
    return len(text.split())


def same(first: str, second: str) -> bool:
    """True if two texts are equal up to case, final punctuation, leading articles, and white space."""
    return _plain(first) == _plain(second)


def _plain(text: str) -> str:
    return re.sub(r"^(?:the|an?)\s+", "", squeezed(text).strip(" .,;:!?\"'()[]"))


def _value(word: str) -> str:
    if word in _NUMBERS:
        return str(_NUMBERS[word])
    if not word[0].isdigit():
        return porter_stem(word)
    plain = word.replace(",", "") if _THOUSANDS.fullmatch(word) else word.replace(",", ".")
    try:
        return f"{float(plain):.12g}"
    except ValueError:
        return plain  # 1.2.2020, say
