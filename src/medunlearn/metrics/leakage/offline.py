"""Noun phrases by word lists alone: no model, no download, the same on every machine.

A phrase is a run of words between words that cannot stand in one. Punctuation and the end of a line end a phrase,
too, but a hyphen or an apostrophe within a word does not. It is rougher than a parser: a verb that the lists lack
stays in its phrase.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Iterator, Sequence
from functools import cache, lru_cache
from importlib.resources import files
from typing import ClassVar

import yaml

from medunlearn.metrics.leakage.terms import terms

FILE = "words.yaml"

_ENDS = re.compile(r"[^\w\s'’-]|[\n\r\v\f\x85\u2028\u2029_]|(?<!\w)['’-]|['’-](?!\w)")
_POSSESSIVE = re.compile(r"['’]s$")
_CONTENT = (files(__package__) / FILE).read_bytes()


class Offline:
    """Noun phrases by the closed word classes of English, verbs of clinical narrative and simple endings."""

    version: ClassVar[str] = f"1-{hashlib.sha256(_CONTENT).hexdigest()[:8]}"

    def phrases(self, texts: Sequence[str]) -> list[list[str]]:
        """Each text's phrases in the order of the text, one for every place where one stands."""
        return [list(_phrases(text)) for text in texts]


def _phrases(text: str) -> Iterator[str]:
    if not text.isascii():
        text = unicodedata.normalize("NFC", text)
    for piece in _ENDS.split(text.lower()):
        run: list[str] = []
        for word in piece.split():
            if not ends_phrase(word):
                run.append(word)
            elif run:
                yield " ".join(run)
                run = []
        if run:
            yield " ".join(run)


@lru_cache(maxsize=1 << 16)
def ends_phrase(word: str) -> bool:
    """Whether a lower-cased word stands outside of noun phrases.

    Words of the lists do, adverbs by their ending, words that begin with a digit (a dose, a date, a value), and the
    possessive of the person (``patient's``).
    """
    known = _known()
    if word[0].isdigit() or word in known.ending:
        return True
    owner = _POSSESSIVE.sub("", word)
    if owner != word:
        return owner in known.ending or owner in terms().common
    return word.endswith("ly") and word not in known.not_adverbs


class _Known:
    def __init__(self) -> None:
        rows = yaml.safe_load(_CONTENT)
        closed = {word for group in rows["closed"].values() for word in group}
        verbs = {form for verb in rows["verbs"] for form in regular_forms(verb)}
        self.ending = frozenset(closed | verbs | set(rows["forms"]))
        self.not_adverbs = frozenset(rows["not_adverbs"])


@cache
def _known() -> _Known:
    return _Known()


def regular_forms(verb: str) -> tuple[str, str, str, str]:
    """A regular verb with -s, -ed and -ing: ``deny, denies, denied, denying``."""
    if verb.endswith("ie"):
        return verb, f"{verb}s", f"{verb}d", f"{verb[:-2]}ying"
    if verb.endswith("e"):
        return verb, f"{verb}s", f"{verb}d", f"{verb[:-1]}ing"
    if verb.endswith("y") and verb[-2] not in "aeiou":
        return verb, f"{verb[:-1]}ies", f"{verb[:-1]}ied", f"{verb}ing"
    plural = "es" if verb.endswith(("s", "x", "z", "ch", "sh", "o")) else "s"
    return verb, f"{verb}{plural}", f"{verb}ed", f"{verb}ing"
