"""Convert many texts to stemmed words at once, each text as a string with one character per word.

Strings are compared fastest in C, since characters are contiguous numbers. All texts are split into words together,
each distinct word is stemmed once, and each distinct stem gets its own character.
"""

from __future__ import annotations

import itertools
import re
import unicodedata
from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Ids = npt.NDArray[np.int64]
SplitWords = Callable[[Sequence[str]], tuple[pa.Array, Ids]]
"""Texts -> their words concatenated, shape [words], and their offsets by text, shape [len(texts) + 1]."""

_WORD = re.compile("[a-z0-9]+")
_WORD_BYTES = b"0123456789abcdefghijklmnopqrstuvwxyz"
_IN_WORD = bytes(letter in _WORD_BYTES for letter in range(256))
_SHORTEST_STEMMED = 4
_CHARACTERS = 0x110000
_EMPTY = 0


def plain_words(text: str) -> list[str]:
    """Lower-cased runs of a-z and 0-9, as in rouge-score without stemming."""
    return _WORD.findall(text.lower())


def rouge_tokens(text: str) -> list[str]:
    """Lower-cased runs of a-z and 0-9, Porter-stemmed if longer than three characters.

    Everything else separates words, so an accented letter splits its word: the rouge-score package's rule,
    kept so that numbers agree with published ones.
    """
    stems = map(_stem, plain_words(text))
    return [stem for stem in stems if stem]


# Written without spaces between words: each letter is a word of its own.
_NO_SPACES = ("CJK", "HIRAGANA", "KATAKANA", "THAI", "LAO", "KHMER", "MYANMAR")
_SEPARATOR, _IN_RUN, _ALONE, _MARK, _UNKNOWN = range(5)


def unicode_tokens(text: str) -> list[str]:
    """Words of any script: case-folded runs of letters, marks and digits, accents kept.

    Characters of scripts without spaces (Chinese, Japanese, Thai, Lao, Khmer, Burmese) are words of their own.
    Compatibility forms, such as full-width digits, count as the plain ones (NFKC). Words of a-z and 0-9 are stemmed
    as by :func:`rouge_tokens`, so that both give the same tokens of an ASCII text.
    """
    words, _ = _unicode_words([text])
    return [stem for stem in map(_stem, words.to_pylist()) if stem]


class StemNumbers(dict[str, int]):
    """Cache from words to numbers of their stems, shared by all parts of a corpus."""

    def __init__(self) -> None:
        super().__init__()
        self._numbers = {"": _EMPTY}

    def __missing__(self, word: str) -> int:
        number = self[word] = self._numbers.setdefault(_stem(word), len(self._numbers))
        return number


def unicode_sequences(texts: Sequence[str], numbers: StemNumbers | None = None) -> list[Sequence[object]]:
    """:func:`stem_sequences` of the :func:`unicode_tokens` of each text."""
    return stem_sequences(texts, numbers, _unicode_words)


def stem_sequences(
    texts: Sequence[str], numbers: StemNumbers | None = None, split: SplitWords | None = None
) -> list[Sequence[object]]:
    """The :func:`rouge_tokens` of each text, with one character per token (or numbers, if characters run out).

    Args:
        split: another rule of what a word is; None: that of rouge-score.

    Returns:
        One sequence per text, one element per token. Two tokens are equal if their characters are; results of
        several calls are comparable only with the same ``numbers``.
    """
    numbers = StemNumbers() if numbers is None else numbers
    ids, offsets = _without_empty(*_stem_ids(*(split or _words)(texts), numbers))
    if len(ids) and ids.max() >= _CHARACTERS:
        line: Sequence[object] = ids.tolist()
    else:
        # Lone surrogates are characters like others here: nobody reads these strings.
        line = ids.astype("<u4").tobytes().decode("utf-32-le", "surrogatepass")
    bounds = offsets.tolist()
    return [line[start:end] for start, end in itertools.pairwise(bounds)]


def _stem_ids(words: pa.Array, offsets: Ids, numbers: StemNumbers) -> tuple[Ids, Ids]:
    """Stem numbers of all texts' words, and the offsets of the texts."""
    encoded = words.dictionary_encode()
    of_word = np.array([numbers[word] for word in encoded.dictionary.to_pylist()], dtype=np.int64)
    return of_word[encoded.indices.to_numpy()], offsets


def _words(texts: Sequence[str]) -> tuple[pa.Array, Ids]:
    """All texts' words concatenated, shape [words], and their offsets by text, shape [len(texts) + 1]."""
    texts = [text if text.isascii() else _ascii(text) for text in texts]
    line = "\n".join(("", *texts, "")).lower().encode("ascii")
    in_word = np.frombuffer(line.translate(_IN_WORD), dtype=np.bool_)
    edges = np.flatnonzero(in_word[1:] != in_word[:-1])
    starts, ends = edges[::2], edges[1::2]
    letters = np.compress(in_word, np.frombuffer(line, dtype=np.uint8))
    places = pa.py_buffer(_from_zero(ends - starts))
    words = pa.Array.from_buffers(pa.large_string(), len(starts), [None, places, pa.py_buffer(letters)])
    lengths = np.fromiter(map(len, texts), dtype=np.int64, count=len(texts))
    return words, np.searchsorted(starts, _from_zero(lengths + 1))


def _unicode_words(texts: Sequence[str]) -> tuple[pa.Array, Ids]:
    """Like :func:`_words`, of every script."""
    if all(map(str.isascii, texts)):
        return _words(texts)
    texts = [text.lower() if text.isascii() else _folded(text) for text in texts]
    line = "\n".join(("", *texts, ""))
    codes = np.frombuffer(line.encode("utf-32-le", "surrogatepass"), dtype="<u4")
    kinds = _kinds(codes)
    # A mark is part of the character that it stands on.
    own = np.where(kinds != _MARK, np.arange(len(codes)), 0)
    base = kinds[np.maximum.accumulate(own)]
    in_word, alone = base != _SEPARATOR, base == _ALONE
    begins = in_word & (kinds != _MARK)
    begins[1:] &= ~in_word[:-1] | alone[1:] | alone[:-1]
    starts = np.flatnonzero(begins)
    letters = codes[in_word]
    bytes_before = _from_zero(1 + (letters >= 0x80) + (letters >= 0x800) + (letters >= 0x10000))
    borders = bytes_before[np.append(np.cumsum(in_word)[starts] - 1, len(letters))]
    content = letters.tobytes().decode("utf-32-le").encode("utf-8")
    buffers = [None, pa.py_buffer(borders.astype(np.int64)), pa.py_buffer(content)]
    words = pa.Array.from_buffers(pa.large_string(), len(starts), buffers)
    lengths = np.fromiter(map(len, texts), dtype=np.int64, count=len(texts))
    return words, np.searchsorted(starts, _from_zero(lengths + 1))


def _folded(text: str) -> str:
    """Case-folded, in composed compatibility form; folding may decompose."""
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())


def _kinds(codes: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint8]:
    """Kind of each character; each distinct one is looked up once in a process."""
    table = _kind_table()
    kinds = table[codes]
    if (unknown := kinds == _UNKNOWN).any():
        for code in np.unique(codes[unknown]).tolist():
            table[code] = _kind(chr(code))
        kinds = table[codes]
    return kinds


@cache
def _kind_table() -> npt.NDArray[np.uint8]:
    return np.full(_CHARACTERS, _UNKNOWN, dtype=np.uint8)


def _kind(character: str) -> int:
    """Part of a run, a word of its own, a mark, or a separator."""
    category = unicodedata.category(character)
    if category[0] == "M":
        return _MARK
    if category[0] not in "LN":
        return _SEPARATOR
    return _ALONE if unicodedata.name(character, "").startswith(_NO_SPACES) else _IN_RUN


def _ascii(text: str) -> str:
    """Lower-case before encoding to ASCII, since lower-casing can produce a-z from other letters."""
    return text.lower().encode("ascii", "replace").decode("ascii")


def _without_empty(ids: Ids, offsets: Ids) -> tuple[Ids, Ids]:
    """Drop words whose stem is empty."""
    has_stem = ids != _EMPTY
    return (ids, offsets) if has_stem.all() else (ids[has_stem], _from_zero(has_stem)[offsets])


def _from_zero(lengths: npt.NDArray[np.integer | np.bool_]) -> Ids:
    return np.concatenate(([0], np.cumsum(lengths, dtype=np.int64)))


def _stem(word: str) -> str:
    return porter_stem(word) if len(word) >= _SHORTEST_STEMMED and word.isascii() else word


@lru_cache(maxsize=1 << 17)
def porter_stem(word: str) -> str:
    """Stem of a lower-cased word by nltk's Porter stemmer, on which published ROUGE scores rest; may be empty."""
    stem: str = _porter_stemmer().stem(word, to_lowercase=False)
    return stem


@cache
def _porter_stemmer() -> Any:
    from nltk.stem.porter import PorterStemmer  # importing nltk takes over a second

    return PorterStemmer()
