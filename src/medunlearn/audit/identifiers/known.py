"""Exact search for declared identifiers in any text, with the records that contain them.

Every identifier has a key: its folded words, its number without punctuation, its day, or its years. Each run of
words of a text is looked up, so time grows with the text and not with the number of identifiers.

Equal values:
- ``words``: the same words in the same order, ignoring case, accents and punctuation; at most three characters
  between two of them, and no blank line. A name of two or more words also with the family name first.
- ``number``: the same letters and digits, with at most two characters between parts.
- ``date``: the same day in any form (:func:`~.text.dates_in`). ``age``: the same years, written as an age.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from medunlearn.audit.identifiers.kinds import NAMES, Form, kind_of, kinds
from medunlearn.audit.identifiers.normalized_text import IndexedText, ages_in, dates_in, words_of
from medunlearn.data.records import Record

SHORTEST, SHORTEST_NUMBER = 3, 5
"""Fewest characters of the longest word, or of a number; shorter values are in any text by chance."""


class KnownIdentifier(NamedTuple):
    """One distinct identifier: its index, kind, normalized value, and the records that contain it."""

    number: int
    kind: str
    key: str
    owners: tuple[str, ...]


class Hit(NamedTuple):
    """A match of an identifier in a text.

    ``numbers`` are indices of the possible identifiers; several if kinds share a value or a date is ambiguous.
    ``similarity`` is 1 for an exact match.
    """

    start: int
    end: int
    numbers: tuple[int, ...]
    similarity: float = 1.0


class KnownIdentifiers:
    """Index of the identifiers that records declare.

    Args:
        subject: record id -> subject; a record without one is its own subject.

    Attributes:
        skipped: reason for not searching -> number of identifiers.
    """

    def __init__(self, records: Iterable[Record], subject: Mapping[str, str] | None = None) -> None:
        self.identifiers: list[KnownIdentifier] = []
        self.subject = dict(subject or {})
        self.skipped: Counter[str] = Counter()
        self._index: dict[Form, dict[str, list[int]]] = {"words": {}, "number": {}, "date": {}, "age": {}}
        owners: dict[tuple[str, str], dict[str, None]] = {}
        forms: dict[tuple[str, str], tuple[Form, tuple[str, ...]]] = {}
        for record in records:
            self.subject.setdefault(record.record_id, record.record_id)
            for declared in record.identifiers:
                kind = kind_of(declared.type)
                form, keys = keys_of(kind.name, declared.value)
                if keys:
                    owners.setdefault((kind.name, keys[0]), {})[record.record_id] = None
                    forms[kind.name, keys[0]] = form, keys
                else:
                    short = "too short to be told from chance, or without a letter or digit"
                    self.skipped[f"{kind.name}: {'no text holds one' if kind.form == 'none' else short}"] += 1
        for number, ((name, key), holders) in enumerate(owners.items()):
            self.identifiers.append(KnownIdentifier(number, name, key, tuple(holders)))
            form, keys = forms[name, key]
            for form_key in keys:
                self._index[form].setdefault(form_key, []).append(number)
        lengths: dict[str, set[int]] = {}
        for words in (key.split(" ") for key in self._index["words"]):
            lengths.setdefault(words[0], set()).add(len(words))
        self._lengths = {word: sorted(counts, reverse=True) for word, counts in lengths.items()}

    def find(self, text: IndexedText | str) -> list[Hit]:
        """Exact matches sorted by position, without those inside longer ones."""
        return outermost(self.every(IndexedText.of(text) if isinstance(text, str) else text))

    def every(self, text: IndexedText) -> Iterator[Hit]:
        """Exact matches, including those inside longer ones, unordered."""
        yield from self._by_words(text)
        codes, days, years = self._index["number"], self._index["date"], self._index["age"]
        for key, first, count in text.numbers if codes else ():
            if key in codes:
                yield Hit(text.starts[first], text.ends[first + count - 1], tuple(codes[key]))
        for start, end, dates in dates_in(text.raw) if days else ():
            numbers = dict.fromkeys(number for day in sorted(dates) for number in days.get(day.isoformat(), ()))
            if numbers:
                yield Hit(start, end, tuple(numbers))
        for start, end, age in ages_in(text.raw) if years else ():
            if str(age) in years:
                yield Hit(start, end, tuple(years[str(age)]))

    def _by_words(self, text: IndexedText) -> Iterator[Hit]:
        lengths, forms, words = self._lengths, self._index["words"], text.words
        for first, word in enumerate(words):
            for count in lengths.get(word, ()):
                numbers = forms.get(" ".join(words[first : first + count]))
                # The last words of a text are fewer than asked for, and may be another, shorter form.
                if numbers and first + count <= len(words) and text.joined(first, count):
                    yield Hit(text.starts[first], text.ends[first + count - 1], tuple(numbers))


def keys_of(kind: str, value: str) -> tuple[Form, tuple[str, ...]]:
    """A value's form and search keys; the first key is its identity, no key means it is not searched.

    A date without a day falls back to words; an age is the first number in the value.
    """
    form = kinds()[kind].form
    words = words_of(value)
    if form == "date":
        if days := dates_in(value):
            return "date", tuple(day.isoformat() for day in sorted(days[0][2]))
        return "words", (" ".join(words),) if len(words) > 1 else ()
    if form == "age":
        number = next((word for word in words if word[:1].isdecimal()), "")
        years = "".join(letter for letter in number if letter.isdecimal())
        return "age", (str(int(years)),) if years else ()
    if form == "number":
        key = "".join(words)
        # Letters alone (a license plate, say) are words.
        if not any(letter.isdigit() for letter in key):
            return "words", (" ".join(words),) if len(key) >= SHORTEST else ()
        return "number", (key,) if len(key) >= SHORTEST_NUMBER else ()
    if form == "none" or not words or max(map(len, words)) < SHORTEST:
        return form, ()
    keys = [" ".join(words)]
    if kind in NAMES and len(words) > 1:
        keys.append(" ".join((words[-1], *words[:-1])))
    return "words", tuple(dict.fromkeys(keys))


def outermost(hits: Iterable[Hit]) -> list[Hit]:
    """Hits sorted by position, without those inside another; hits with equal offsets are merged."""
    outer: list[Hit] = []
    for hit in sorted(hits, key=lambda hit: (hit.start, -hit.end)):
        last = outer[-1] if outer else None
        if last is not None and (last.start, last.end) == (hit.start, hit.end):
            outer[-1] = Hit(hit.start, hit.end, tuple(dict.fromkeys((*last.numbers, *hit.numbers))))
        elif last is None or hit.end > last.end:
            outer.append(hit)
    return outer
