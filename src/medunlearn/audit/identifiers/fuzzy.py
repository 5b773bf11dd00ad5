"""Known identifiers with a slip in them: a letter wrong in a name, a digit wrong in a number.

Matching by form:
- ``words``: as many words as the identifier, at least one of them at most one letter off, equal numbers, and the
  whole at least as similar as its kind requires (``kinds.yaml``): 1 - edit distance / length of the longer.
- a name's initial: ``J. Smith`` for ``John Smith``, as a word of a single letter.
- ``number``: one character off, in numbers of at least seven digits. Shorter ones are close to too many others.
- dates and ages: never. Another day is another date.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache

from rapidfuzz.distance import Levenshtein

from medunlearn.audit.identifiers.kinds import kinds
from medunlearn.audit.identifiers.known import Hit, KnownIdentifiers, outermost
from medunlearn.audit.identifiers.text import GAP, Text

LONG_NUMBER = 7
"""Fewest digits of a number that may have one wrong."""
LONG_WORD = 4
"""Fewest letters of a word that may have one wrong."""
_NAMES = ("name", "clinician")


class FuzzyIndex:
    """Identifiers of one subject, or of all, to be found with slips.

    Args:
        known: their index.
        numbers: of the identities; None for all. Of many subjects some are similar by chance.
    """

    def __init__(self, known: KnownIdentifiers, numbers: Iterable[int] | None = None) -> None:
        self._anchors: dict[str, list[tuple[int, int, int]]] = {}
        self._numbers: dict[str, list[int]] = {}
        self._keys: dict[int, tuple[str, ...]] = {}
        self._least: dict[int, float] = {}
        self._initials: dict[tuple[str, str], list[int]] = {}
        self._cache: dict[str, list[tuple[int, int, int]]] = {}
        for number in range(len(known.identities)) if numbers is None else numbers:
            self._add(number, known.identities[number].kind, known.identities[number].key)

    def _add(self, number: int, kind_name: str, key: str) -> None:
        kind = kinds()[kind_name]
        if kind.form == "number" and sum(letter.isdigit() for letter in key) >= LONG_NUMBER:
            for near in {key, *_without_one(key)}:
                self._numbers.setdefault(near, []).append(number)
            self._keys[number] = (key,)
        elif kind.form == "words" and kind.similarity is not None:
            words = tuple(key.split(" "))
            self._keys[number], self._least[number] = words, kind.similarity
            for place, word in enumerate(words):
                for near in _near(word):
                    self._anchors.setdefault(near, []).append((number, place, len(words)))
            if kind_name in _NAMES and len(words) > 1:
                self._initials.setdefault((words[0][0], words[-1]), []).append(number)

    def find(self, text: Text, taken: Sequence[Hit] = ()) -> list[Hit]:
        """Every near match outside ``taken``, in order of place; the most similar wins."""
        free = _free(text, taken)
        best: dict[tuple[int, int], Hit] = {}
        for hit in (*self._by_words(text, free), *self._by_initial(text, free), *self._by_number(text, free)):
            place = (hit.start, hit.end)
            if place not in best or hit.similarity > best[place].similarity:
                best[place] = hit
        return _without_overlaps(best.values())

    def _by_words(self, text: Text, free: Sequence[bool]) -> Iterator[Hit]:
        seen: set[tuple[int, int]] = set()
        for place, word in enumerate(text.words):
            for number, inside, count in self._anchored(word):
                first = place - inside
                if (number, first) in seen or not _fits(text, free, first, count):
                    continue
                seen.add((number, first))
                score = self._similarity(number, text.words[first : first + count])
                if score >= self._least[number]:
                    yield Hit(text.starts[first], text.ends[first + count - 1], (number,), score)

    def _anchored(self, word: str) -> list[tuple[int, int, int]]:
        """Identifiers with a word like this one: number, the word's index in it, and its number of words."""
        if word not in self._cache:
            anchors = {anchor for near in _near(word) for anchor in self._anchors.get(near, ())}
            self._cache[word] = sorted(anchors)
        return self._cache[word]

    def _similarity(self, number: int, words: Sequence[str]) -> float:
        target = self._keys[number]
        for one, other in zip(words, target, strict=True):
            if one != other and _has_digit(one + other):
                return 0.0
        return float(Levenshtein.normalized_similarity(" ".join(words), " ".join(target)))

    def _by_initial(self, text: Text, free: Sequence[bool]) -> Iterator[Hit]:
        if not self._initials:
            return
        for first in range(len(text.words) - 1):
            letter, family = text.words[first : first + 2]
            if len(letter) == 1 and _fits(text, free, first, 2):
                for number in self._initials.get((letter, family), ()):
                    score = Levenshtein.normalized_similarity(f"{letter} {family}", " ".join(self._keys[number]))
                    yield Hit(text.starts[first], text.ends[first + 1], (number,), float(score))

    def _by_number(self, text: Text, free: Sequence[bool]) -> Iterator[Hit]:
        if not self._numbers:
            return
        for key, first, count in text.numbers:
            if len(key) < LONG_NUMBER or not all(free[first : first + count]):
                continue
            for near in {key, *_without_one(key)}:
                for number in self._numbers.get(near, ()):
                    target = self._keys[number][0]
                    if Levenshtein.distance(key, target, score_cutoff=1) == 1:
                        score = 1 - 1 / max(len(key), len(target))
                        yield Hit(text.starts[first], text.ends[first + count - 1], (number,), score)


def identities_by_subject(known: KnownIdentifiers) -> Mapping[str, Sequence[int]]:
    """Subject -> numbers of the identities in its records."""
    numbers: dict[str, dict[int, None]] = {}
    for identity in known.identities:
        for record in identity.owners:
            numbers.setdefault(known.subject[record], {})[identity.number] = None
    return {subject: tuple(own) for subject, own in numbers.items()}


def _fits(text: Text, free: Sequence[bool], first: int, count: int) -> bool:
    if first < 0 or first + count > len(text.words) or not all(free[first : first + count]):
        return False
    return text.joined(first, count, GAP)


def _free(text: Text, taken: Sequence[Hit]) -> list[bool]:
    free = [True] * len(text.words)
    for hit in taken:
        for place in range(text.word_at(hit.start), text.word_at(hit.end)):
            free[place] = False
    return free


def _without_overlaps(hits: Iterable[Hit]) -> list[Hit]:
    """The most similar of overlapping hits, in order of place."""
    nearest: list[Hit] = []
    for hit in sorted(hits, key=lambda one: (-one.similarity, one.start, -one.end)):
        if all(hit.end <= other.start or other.end <= hit.start for other in nearest):
            nearest.append(hit)
    return outermost(nearest)


@lru_cache(maxsize=1 << 16)
def _near(word: str) -> frozenset[str]:
    """A word and its one-letter deletions: words one letter apart share one of these."""
    if len(word) < LONG_WORD or _has_digit(word):
        return frozenset((word,))
    return frozenset((word, *_without_one(word)))


def _without_one(key: str) -> Iterator[str]:
    return (key[:place] + key[place + 1 :] for place in range(len(key)))


def _has_digit(word: str) -> bool:
    return any(letter.isdigit() for letter in word)
