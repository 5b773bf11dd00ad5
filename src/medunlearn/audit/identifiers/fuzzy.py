"""Known identifiers with a typo: one letter wrong in a name, one digit wrong in a number.

Matching by form:
- ``words``: as many words as the identifier, at least one of them at most one letter off, equal numbers, and the
  whole at least as similar as its kind requires (``kinds.yaml``): 1 - edit distance / length of the longer.
- a name's short forms: ``J. Smith`` and ``Mr. Smith`` for ``John Smith``.
- ``number``: one character off, in numbers of at least seven digits. Shorter ones are close to too many others.
- dates and ages: never. Another day is another date.

Also parts of addresses, in the patient's own responses alone: a town is many people's.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Literal

from rapidfuzz.distance import Levenshtein

from medunlearn.audit.identifiers.kinds import kinds
from medunlearn.audit.identifiers.known import Hit, KnownIdentifier, KnownIdentifiers, is_written, outermost
from medunlearn.audit.identifiers.normalized_text import HEAD, IndexedText

Fuzziness = Literal["own", "all", "none"]
_LESS = 0.999
"""Similarity of a short form that is spelt as another identifier."""
LONG_NUMBER = 7
"""Fewest digits of a number that may have one wrong."""
LONG_WORD = 4
"""Fewest letters of a word that may have one wrong."""


def fuzzy_indexes(exact: KnownIdentifiers, fuzzy: Fuzziness) -> Callable[[str], FuzzyIndex | None]:
    """Function from a subject to the index of identifiers that are matched fuzzily for it.

    Args:
        fuzzy: those of the subject itself, of all (some are similar by chance), or none.
    """
    if fuzzy != "own":
        parts = {part.number for part in exact.parts}
        whole = [identifier for identifier in exact.identifiers if identifier.number not in parts]
        index = FuzzyIndex(whole, exact.short) if fuzzy == "all" else None
        return lambda subject: index
    by_subject: dict[str, dict[int, KnownIdentifier]] = defaultdict(dict)
    for identifier in exact.identifiers:
        for record in identifier.owners:
            by_subject[exact.subject[record]][identifier.number] = identifier
    # Responses come sorted by record, so a few subjects at a time are enough.
    return lru_cache(maxsize=256)(
        lambda subject: FuzzyIndex(list(by_subject.get(subject, {}).values()), exact.short)
    )


class FuzzyIndex:
    """Index of identifiers for fuzzy matching, and of their short forms.

    Args:
        short: number of an identifier -> further forms of it.
    """

    def __init__(
        self, identifiers: Sequence[KnownIdentifier], short: Mapping[int, Sequence[str]] | None = None
    ) -> None:
        self._anchors: dict[str, list[tuple[int, int, int]]] = defaultdict(list)
        self._numbers: dict[str, list[int]] = defaultdict(list)
        self._short: dict[str, list[int]] = defaultdict(list)
        self._keys: dict[int, str] = {}
        self._least: dict[int, float] = {}
        for number, name, key, _ in identifiers:
            kind, words = kinds()[name], key.split(" ")
            self._keys[number] = key
            if kind.form == "number" and sum(letter.isdigit() for letter in key) >= LONG_NUMBER:
                for near in {key, *_without_one(key)}:
                    self._numbers[near].append(number)
            elif kind.form == "words" and kind.similarity is not None:
                self._least[number] = kind.similarity
                for place, word in enumerate(words):
                    for near in _near(word):
                        self._anchors[near].append((number, place, len(words)))
            for form in (short or {}).get(number, ()):
                self._short[form].append(number)
        lengths: dict[str, set[int]] = defaultdict(set)
        for first, *rest in (form.split(" ") for form in self._short):
            lengths[first].add(1 + len(rest))
        self._lengths = {word: sorted(counts, reverse=True) for word, counts in lengths.items()}
        self._near_words = frozenset(self._anchors)
        longest = max(map(len, self._numbers), default=0)
        self._number_lengths = range(LONG_NUMBER, longest + 2)
        # One wrong character leaves the first ones or the last ones as they are.
        self._number_ends = {end for key in self._numbers for end in ((key[:HEAD], ""), ("", key[-HEAD:]))}

    def find(self, text: IndexedText, exact: Sequence[Hit] = ()) -> list[Hit]:
        """Every near match outside ``exact``, sorted by position; of overlapping ones the most similar."""
        free = [True] * len(text.words)
        for hit in exact:
            for place in range(text.word_at(hit.start), text.word_at(hit.end)):
                free[place] = False
        best: dict[tuple[int, int], Hit] = {}
        for hit in (*self._by_words(text, free), *self._by_short_form(text, free), *self._by_number(text, free)):
            extent = (hit.start, hit.end)
            if extent not in best or hit.similarity > best[extent].similarity:
                best[extent] = hit
        nearest: list[Hit] = []
        for hit in sorted(best.values(), key=lambda hit: (-hit.similarity, hit.start, -hit.end)):
            if all(hit.end <= other.start or other.end <= hit.start for other in nearest):
                nearest.append(hit)
        return outermost(nearest)

    def _by_words(self, text: IndexedText, free: Sequence[bool]) -> Iterator[Hit]:
        compared: set[tuple[int, int]] = set()
        near_words = self._near_words
        for place, word in enumerate(text.words) if near_words else ():
            if near_words.isdisjoint(_near(word)):
                continue
            for number, inside, count in self._anchored(word):
                first = place - inside
                if (number, first) in compared or not _fits(text, free, first, count):
                    continue
                compared.add((number, first))
                score = self._similarity(number, text.words[first : first + count])
                if score >= self._least[number]:
                    yield Hit(text.starts[first], text.ends[first + count - 1], (number,), score)

    def _anchored(self, word: str) -> list[tuple[int, int, int]]:
        """Identifiers with a similar word: number, index of the word in it, and its number of words."""
        return sorted({anchor for near in _near(word) for anchor in self._anchors.get(near, ())})

    def _similarity(self, number: int, words: Sequence[str]) -> float:
        key = self._keys[number]
        for word, other in zip(words, key.split(" "), strict=True):
            if word != other and _has_digit(word + other):
                return 0.0
        return float(Levenshtein.normalized_similarity(" ".join(words), key))

    def _by_short_form(self, text: IndexedText, free: Sequence[bool]) -> Iterator[Hit]:
        lengths = self._lengths
        for first, word in enumerate(text.words) if lengths else ():
            for count in lengths.get(word, ()):
                form = " ".join(text.words[first : first + count])
                numbers = self._short.get(form)
                if numbers and _fits(text, free, first, count):
                    for number in numbers:
                        score = min(Levenshtein.normalized_similarity(form, self._keys[number]), _LESS)
                        yield Hit(text.starts[first], text.ends[first + count - 1], (number,), float(score))

    def _by_number(self, text: IndexedText, free: Sequence[bool]) -> Iterator[Hit]:
        ends = self._number_ends
        for key, first, count in text.numbers(self._number_lengths) if ends else ():
            if (key[:HEAD], "") not in ends and ("", key[-HEAD:]) not in ends:
                continue
            if not all(free[first : first + count]):
                continue
            for near in {key, *_without_one(key)}:
                for number in self._numbers.get(near, ()):
                    target = self._keys[number]
                    if Levenshtein.distance(key, target, score_cutoff=1) == 1:
                        score = 1 - 1 / max(len(key), len(target))
                        yield Hit(text.starts[first], text.ends[first + count - 1], (number,), score)


def _fits(text: IndexedText, free: Sequence[bool], first: int, count: int) -> bool:
    if first < 0 or first + count > len(text.words) or not all(free[first : first + count]):
        return False
    return is_written(text, first, count)


@lru_cache(maxsize=1 << 16)
def _near(word: str) -> frozenset[str]:
    """A word and its one-letter deletions: words one edit apart share one of these."""
    if len(word) < LONG_WORD or _has_digit(word):
        return frozenset((word,))
    return frozenset((word, *_without_one(word)))


def _without_one(key: str) -> Iterator[str]:
    return (key[:place] + key[place + 1 :] for place in range(len(key)))


def _has_digit(word: str) -> bool:
    return any(letter.isdigit() for letter in word)
