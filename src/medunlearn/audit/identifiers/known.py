"""Exact search for declared identifiers in any text, traced to the records that hold them.

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
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from medunlearn.audit.identifiers.kinds import Form, kind_of, kinds
from medunlearn.audit.identifiers.text import Text, ages_in, compact, dates_in, words_of
from medunlearn.data.records import Record

SHORTEST, SHORTEST_NUMBER = 3, 5
"""Fewest characters of the longest word, or of a number; shorter values are in any text by chance."""
_NAMES = ("name", "clinician")


@dataclass(frozen=True, slots=True)
class Identity:
    """One distinct identifier.

    Attributes:
        number: index among all.
        kind: name of its kind.
        key: normalized value.
        owners: records that hold it, in their order.
    """

    number: int
    kind: str
    key: str
    owners: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Hit:
    """A match of an identifier in a text.

    Attributes:
        start, end: offsets in characters.
        identities: numbers of possible identities; several where kinds share a value, or a date is ambiguous.
        similarity: 1 for an exact match.
    """

    start: int
    end: int
    identities: tuple[int, ...]
    similarity: float = 1.0


@dataclass
class KnownIdentifiers:
    """Index of the identifiers that records declare; made by :meth:`of`.

    Attributes:
        identities: by number.
        subject: record -> subject.
        skipped: reason for not searching -> number of identifiers.
    """

    identities: list[Identity]
    subject: Mapping[str, str]
    skipped: Counter[str]
    _words: dict[str, list[int]] = field(default_factory=dict, repr=False)
    _lengths: dict[str, tuple[int, ...]] = field(default_factory=dict, repr=False)
    _numbers: dict[str, list[int]] = field(default_factory=dict, repr=False)
    _days: dict[str, list[int]] = field(default_factory=dict, repr=False)
    _years: dict[str, list[int]] = field(default_factory=dict, repr=False)

    @staticmethod
    def of(records: Iterable[Record], subject: Mapping[str, str] | None = None) -> KnownIdentifiers:
        """Index records.

        Args:
            subject: record id -> subject; a record without one is its own subject.
        """
        owners: dict[tuple[str, str], dict[str, None]] = {}
        keys: dict[tuple[str, str], tuple[Form, tuple[str, ...]]] = {}
        skipped: Counter[str] = Counter()
        subjects = dict(subject or {})
        for record in records:
            subjects.setdefault(record.record_id, record.record_id)
            for declared in record.identifiers:
                kind = kind_of(declared.type)
                form, values = keys_of(kind.name, declared.value)
                if not values:
                    skipped[_skip_reason(kind.name)] += 1
                    continue
                owners.setdefault((kind.name, values[0]), {})[record.record_id] = None
                keys[kind.name, values[0]] = form, values
        known = KnownIdentifiers([], subjects, skipped)
        for (kind_name, key), held in owners.items():
            known._add(kind_name, key, tuple(held), *keys[kind_name, key])
        known._finish()
        return known

    def _add(self, kind: str, key: str, owners: tuple[str, ...], form: Form, keys: Sequence[str]) -> None:
        number = len(self.identities)
        self.identities.append(Identity(number, kind, key, owners))
        table = {"words": self._words, "number": self._numbers, "date": self._days, "age": self._years}[form]
        for form_key in keys:
            table.setdefault(form_key, []).append(number)

    def _finish(self) -> None:
        lengths: dict[str, set[int]] = {}
        for key in self._words:
            words = key.split(" ")
            lengths.setdefault(words[0], set()).add(len(words))
        self._lengths = {word: tuple(sorted(counts, reverse=True)) for word, counts in lengths.items()}

    def find(self, text: Text | str) -> list[Hit]:
        """Exact matches in order of place, without those within longer ones."""
        return outermost(self.every(Text.of(text) if isinstance(text, str) else text))

    def every(self, text: Text) -> Iterator[Hit]:
        """Exact matches, also those within longer ones, in no order."""
        yield from self._by_words(text)
        yield from self._by_number(text)
        yield from self._by_day(text)
        yield from self._by_age(text)

    def _by_words(self, text: Text) -> Iterator[Hit]:
        lengths, forms, words = self._lengths, self._words, text.words
        for first, word in enumerate(words):
            for count in lengths.get(word, ()):
                numbers = forms.get(" ".join(words[first : first + count]))
                # The last words of a text are fewer than asked for, and may be another, shorter form.
                if numbers and first + count <= len(words) and text.joined(first, count):
                    yield Hit(text.starts[first], text.ends[first + count - 1], tuple(numbers))

    def _by_number(self, text: Text) -> Iterator[Hit]:
        if self._numbers:
            for key, first, count in text.numbers:
                if numbers := self._numbers.get(key):
                    yield Hit(text.starts[first], text.ends[first + count - 1], tuple(numbers))

    def _by_day(self, text: Text) -> Iterator[Hit]:
        for dated in dates_in(text.raw) if self._days else ():
            numbers = [one for day in sorted(dated.days) for one in self._days.get(day.isoformat(), ())]
            if numbers:
                yield Hit(dated.start, dated.end, tuple(dict.fromkeys(numbers)))

    def _by_age(self, text: Text) -> Iterator[Hit]:
        for start, end, years in ages_in(text.raw) if self._years else ():
            if numbers := self._years.get(str(years)):
                yield Hit(start, end, tuple(numbers))


def keys_of(kind: str, value: str) -> tuple[Form, tuple[str, ...]]:
    """A value's form and search keys; the first key is its identity, no key means it is not searched.

    A date without a day falls back to words; an age is the first number in the value.
    """
    form = kinds()[kind].form
    words = words_of(value)
    if form == "date":
        days = dates_in(value)
        if days:
            return "date", tuple(day.isoformat() for day in sorted(days[0].days))
        return "words", (" ".join(words),) if len(words) > 1 else ()
    if form == "age":
        number = next((word for word in words if word[:1].isdecimal()), "")
        years = "".join(letter for letter in number if letter.isdecimal())
        return "age", (str(int(years)),) if years else ()
    if form == "number":
        key = compact(value)
        # Letters alone (a license plate, say) are words.
        if not any(letter.isdigit() for letter in key):
            return "words", (" ".join(words),) if len(key) >= SHORTEST else ()
        return "number", (key,) if len(key) >= SHORTEST_NUMBER else ()
    if form == "none" or not words or max(map(len, words)) < SHORTEST:
        return form, ()
    keys = [" ".join(words)]
    if kind in _NAMES and len(words) > 1:
        keys.append(" ".join((words[-1], *words[:-1])))
    return "words", tuple(dict.fromkeys(keys))


def _skip_reason(kind: str) -> str:
    if kinds()[kind].form == "none":
        return f"{kind}: no text holds one"
    return f"{kind}: too short to be told from chance, or without a letter or digit"


def outermost(hits: Iterable[Hit]) -> list[Hit]:
    """Hits in order of place, without those within another; hits of equal extent are merged."""
    outer: list[Hit] = []
    for hit in sorted(hits, key=lambda one: (one.start, -one.end)):
        last = outer[-1] if outer else None
        if last is not None and (last.start, last.end) == (hit.start, hit.end):
            outer[-1] = Hit(hit.start, hit.end, tuple(dict.fromkeys((*last.identities, *hit.identities))))
        elif last is None or hit.end > last.end:
            outer.append(hit)
    return outer
