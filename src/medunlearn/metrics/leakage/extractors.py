"""Phrase extractors: word lists only, or scispaCy.

:class:`Offline` needs no model or download and is deterministic on every machine. A phrase is a run of words
between words that cannot be part of one. Punctuation and line ends also end a phrase, but a hyphen or an apostrophe
within a word does not. It is coarser than a parser: a verb missing from the lists stays in its phrase.

:class:`SciSpacy` is the paper's extractor. Its packages are not installed with ours: see docs/measure.md.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Iterator, Sequence
from functools import cache, lru_cache
from importlib import import_module
from importlib.resources import files
from typing import Any, ClassVar

import yaml

from medunlearn.errors import InputError
from medunlearn.metrics.leakage.phrases import terms

_ENDS = re.compile(r"[^\w\s'’-]|[\n\r\v\f\x85\u2028\u2029_]|(?<!\w)['’-]|['’-](?!\w)")
_POSSESSIVE = re.compile(r"['’]s$")
_CONTENT = (files(__package__) / "words.yaml").read_bytes()


class Offline:
    """Noun phrases by the closed word classes of English, verbs of clinical narrative and simple endings."""

    version: ClassVar[str] = f"1-{hashlib.sha256(_CONTENT).hexdigest()[:8]}"

    def phrases(self, texts: Sequence[str]) -> list[list[str]]:
        """Each text's phrases in order, one for every occurrence."""
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
    """True if a lower-cased word cannot be part of a noun phrase.

    These are words of the lists, adverbs by their ending, words that begin with a digit (a dose, a date, a value),
    and the possessive of the person (``patient's``).
    """
    ending, not_adverbs = _word_lists()
    if word[0].isdigit() or word in ending:
        return True
    owner = _POSSESSIVE.sub("", word)
    if owner != word:
        return owner in ending or owner in terms().common
    return word.endswith("ly") and word not in not_adverbs


@cache
def _word_lists() -> tuple[frozenset[str], frozenset[str]]:
    """Words that end a phrase, and words in -ly that are not adverbs."""
    rows = yaml.safe_load(_CONTENT)
    closed = {word for group in rows["closed"].values() for word in group}
    verbs = {form for verb in rows["verbs"] for form in regular_forms(verb)}
    return frozenset(closed | verbs | set(rows["forms"])), frozenset(rows["not_adverbs"])


def regular_forms(verb: str) -> tuple[str, str, str, str]:
    """The regular forms of a verb with -s, -ed and -ing: ``deny, denies, denied, denying``."""
    if verb.endswith("ie"):
        return verb, f"{verb}s", f"{verb}d", f"{verb[:-2]}ying"
    if verb.endswith("e"):
        return verb, f"{verb}s", f"{verb}d", f"{verb[:-1]}ing"
    if verb.endswith("y") and verb[-2] not in "aeiou":
        return verb, f"{verb[:-1]}ies", f"{verb[:-1]}ied", f"{verb}ing"
    plural = "es" if verb.endswith(("s", "x", "z", "ch", "sh", "o")) else "s"
    return verb, f"{verb}{plural}", f"{verb}ed", f"{verb}ing"


MODEL = "en_core_sci_lg"

INSTALL = (
    "It needs numpy below 2, so it has an environment of its own: docs/measure.md says how to make one, and how to "
    "use the keywords that `medunlearn build keywords BENCHMARK --extractor scispacy --out FILE` writes there."
)


class SciSpacy:
    """Biomedical entities and noun chunks of scispaCy's ``en_core_sci_lg``; a span that is both counts once.

    Source: AMNESIA, Appendix E.1.

    Raises:
        InputError: spaCy or the model is not installed, or a text is too long for it.
    """

    version: ClassVar[str] = f"1-{MODEL}"

    def __init__(self, model: str = MODEL) -> None:
        try:
            spacy = import_module("spacy")
        except ImportError:
            raise InputError(
                f"The extractor scispacy needs spaCy and scispaCy, which are not installed. {INSTALL}"
            ) from None
        try:
            self._model: Any = spacy.load(model)
        except OSError as error:
            raise InputError(f"scispaCy's model {model!r} cannot be loaded ({error}). {INSTALL}") from error
        lacking = [part for part in ("ner", "parser") if part not in self._model.pipe_names]
        if lacking:
            raise InputError(
                f"The model {model!r} has no {' and no '.join(lacking)}; entities and noun chunks need both."
            )

    def phrases(self, texts: Sequence[str]) -> list[list[str]]:
        """Each text's phrases in order, one for every occurrence."""
        longest = max(map(len, texts), default=0)
        if longest > self._model.max_length:
            raise InputError(
                f"A text has {longest} characters, and spaCy's model reads {self._model.max_length} at most. Cut "
                "the record into several, or use the extractor offline."
            )
        return [_spans(document) for document in self._model.pipe(texts)]


def _spans(document: Any) -> list[str]:
    spans = {(span.start, span.end): span.text for span in (*document.ents, *document.noun_chunks)}
    return [text for _, text in sorted(spans.items())]
