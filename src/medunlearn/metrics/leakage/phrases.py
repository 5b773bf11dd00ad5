"""Phrases of a text as sequences of words, and AMNESIA's term lists (Table 7)."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import ClassVar, Protocol

import yaml


@dataclass(frozen=True, slots=True)
class Terms:
    """The lists of Table 7: category -> subcategory -> terms, as printed; and terms that are never keywords.

    ``names`` maps lower-cased spellings to categories; ``version`` changes with the file.
    """

    diseases: Mapping[str, Mapping[str, tuple[str, ...]]]
    common: frozenset[str]
    names: Mapping[str, str]
    version: str

    def category(self, disease: str) -> str | None:
        """The category with a term list for a disease name, ignoring case; None if there is none."""
        return self.names.get(" ".join(disease.lower().split()))

    def seeds(self, category: str) -> tuple[str, ...]:
        """All terms of a category, in the order of the table."""
        return tuple(term for terms in self.diseases[category].values() for term in terms)


@cache
def terms() -> Terms:
    """The term lists shipped with the package."""
    content = (files(__package__) / "terms.yaml").read_bytes()
    rows = yaml.safe_load(content)
    diseases = {
        name: {part: tuple(own) for part, own in row["terms"].items()} for name, row in rows["diseases"].items()
    }
    names = {other.lower(): name for name, row in rows["diseases"].items() for other in (name, *row["also"])}
    return Terms(diseases, frozenset(rows["common"]), names, hashlib.sha256(content).hexdigest()[:8])


SHORTEST = 3
"""Characters of the shortest phrase that is kept (AMNESIA, Appendix E.1)."""

LONGEST = 6
"""Words of the longest phrase that is kept (AMNESIA, Appendix E.1)."""

_WORD = re.compile(r"[^\W_]+")
_ASCII = {code: chr(code).lower() if chr(code).isalnum() else " " for code in range(128)}
# fmt: off
_LEADING = frozenset({
    "a", "an", "the", "this", "that", "these", "those", "his", "her", "its", "their", "our", "my", "your", "some",
    "any", "no", "each", "every", "all", "both", "such",
})
# fmt: on


class Extractor(Protocol):
    """Extractor of noun phrases and medical entities from texts.

    Attributes:
        version: changes whenever the phrases of a text may change; available before anything is loaded.
    """

    version: ClassVar[str]

    def phrases(self, texts: Sequence[str]) -> list[list[str]]:
        """Each text's phrases in order, one for every occurrence."""
        ...


def words_of(text: str) -> list[str]:
    """Case-folded runs of letters and digits of any script; everything else separates them.

    Source: AMNESIA, Section 5.1 ("case-insensitive, alphanumeric only").
    """
    if text.isascii():
        # Several times as fast as an expression.
        return text.translate(_ASCII).split()
    return _WORD.findall(unicodedata.normalize("NFC", text).casefold())


def in_a_row(text: str) -> str:
    """The words of a text with one space before, between and after them.

    A phrase occurs in a text as whole contiguous words exactly if its padded form is a substring of the text's.
    """
    return f" {' '.join(words_of(text))} "


def cleaned(phrase: str) -> str | None:
    """A phrase in lower case, without leading articles and possessives; None if it is not a candidate.

    Common clinical terms (Table 7) are not candidates, nor phrases with fewer than 3 characters or more than 6
    words.

    Source: AMNESIA, Appendix E.1 and Algorithm 1, step 1. Cutting leading articles is ours: a parser's noun
    chunks begin with them, and a response would have to repeat them.
    """
    words = words_of(phrase)
    start = next((place for place, word in enumerate(words) if word not in _LEADING), len(words))
    row = " ".join(words[start:])
    return None if len(row) < SHORTEST or len(words) - start > LONGEST or row in terms().common else row


def candidates(phrases: Iterable[str]) -> Counter[str]:
    """The candidates of one field with their counts, in the field's order."""
    return Counter(row for row in map(cleaned, phrases) if row is not None)
