"""Traces of a subject in a file: ids, identifiers, and runs of words that occur only in the subject's texts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Literal

from medunlearn.audit.identifiers import normalized_text
from medunlearn.audit.identifiers.value_forms import written_phrases
from medunlearn.data.benchmark import Benchmark
from medunlearn.data.records import Question
from medunlearn.data.storage import sha256_of
from medunlearn.errors import InputError
from medunlearn.input_files import read_text

Trace = Literal["id", "identifier", "part of an identifier", "text"]
Phrase = tuple[str, ...]
RUN = 8
"""Words in a row that count as text of the subject's, where no other subject's texts have them."""
_LEAST = 4


def words_of(text: str) -> list[str]:
    """Words as the audit's search of known identifiers sees them: folded, whatever separates them."""
    return list(normalized_text.words_of(text))


@dataclass(frozen=True)
class Phrases:
    """Phrases to search for in a sequence of words; each is located by its rarest word.

    Args:
        phrases: phrase -> kind of trace.
        frequency: word counts; an unknown word is rare.
    """

    phrases: Mapping[Phrase, Trace]
    frequency: Mapping[str, int] = field(default_factory=dict)

    @cached_property
    def _by_word(self) -> dict[str, list[tuple[int, Phrase, Trace]]]:
        by_word: dict[str, list[tuple[int, Phrase, Trace]]] = {}
        for phrase, trace in self.phrases.items():
            place = min(range(len(phrase)), key=lambda at: self.frequency.get(phrase[at], 0))
            by_word.setdefault(phrase[place], []).append((place, phrase, trace))
        return by_word

    @cached_property
    def longest(self) -> int:
        return max(map(len, self.phrases), default=1)

    def count(self, words: Sequence[str], fresh: int = 0) -> Counter[Trace]:
        """Occurrences by trace, except those that end before the word ``fresh``."""
        return Counter(trace for trace, _ in self.matches(words, fresh))

    def matches(self, words: Sequence[str], fresh: int = 0) -> Iterator[tuple[Trace, Phrase]]:
        by_word = self._by_word
        for at, word in enumerate(words):
            for place, phrase, trace in by_word.get(word, ()):
                start = at - place
                end = start + len(phrase)
                if start >= 0 and fresh < end <= len(words) and tuple(words[start:end]) == phrase:
                    yield trace, phrase


@dataclass(frozen=True)
class SubjectTraces:
    """The traces to search for, of one subject or of several together.

    Attributes:
        subjects: nodes of the benchmark's subject level; empty if only identifiers were given.
        records: ids of the records in the benchmark.
        phrases: ids that are distinctive on their own, identifiers and runs of text.
        exact: ids too short or common to recognize in running text: searched only in id columns of tables and id
            keys of JSON.
        images: SHA-256 of each of their images.
        left_out: identifiers that are not searched, since others share them or they are too short.
    """

    subjects: frozenset[str]
    records: frozenset[str]
    phrases: Phrases
    exact: frozenset[str] = frozenset()
    images: frozenset[str] = frozenset()
    left_out: int = 0


def subject_traces(
    benchmark: Benchmark | None, subject: str | Collection[str] | None = None, identifiers: Iterable[str] = ()
) -> SubjectTraces:
    """Traces of a subject.

    Args:
        subject: ``level=node,node`` of the benchmark, or ids of subjects; without a benchmark an id.
        identifiers: further names and numbers of the subject; always searched.

    Raises:
        InputError: nothing to look for.
        UnknownNameError: no such level or node.
    """
    further = [phrase for value in identifiers for phrase in written_phrases(value)]
    phrases: dict[Phrase, Trace] = dict.fromkeys(further, "identifier")
    if benchmark is None:
        if isinstance(subject, str):
            if "=" in subject:
                raise InputError(
                    f"{subject.partition('=')[0]}=... names a node of a benchmark: name its folder too."
                )
            phrases[tuple(words_of(subject))] = "id"
        if not any(phrases):
            raise InputError("There is no subject to search for: name a subject of a benchmark, or identifiers.")
        return SubjectTraces(frozenset(), frozenset(), Phrases(phrases))
    record_ids = _records(benchmark, subject)
    records = [benchmark.record[name] for name in record_ids]
    questions = [question for question in benchmark.questions if question.record_id in record_ids]
    others = _Others(benchmark, record_ids)
    nodes = {node for record in records for node in record.groups.values()} - others.nodes
    ids = {*nodes, *record_ids, *(question.question_id for question in questions)}
    distinctive = {name: tuple(words_of(name)) for name in ids if _is_distinctive(name)}
    parts_of_others = others.having(distinctive.values(), in_ids=True)
    unambiguous = {name: phrase for name, phrase in distinctive.items() if phrase not in parts_of_others}
    phrases |= dict.fromkeys(unambiguous.values(), "id")
    values = {identifier.value for record in records for identifier in record.identifiers}
    forms = {value: written_phrases(value) for value in values if sum(map(len, words_of(value))) >= _LEAST}
    shared = others.having(phrase for written in forms.values() for phrase in written)
    forms = {value: written for value, written in forms.items() if written[0] not in shared}
    names = [phrase for written in forms.values() for phrase in written if phrase not in shared]
    for phrase in (written[0] for written in forms.values()):
        parts = (word for word in phrase if len(word) >= _LEAST and word.isalpha())
        phrases |= {(word,): "part of an identifier" for word in parts if word not in others.words}
    texts = [*(record.text for record in records), *_question_texts(questions)]
    runs = {run for text in texts for run in _runs(words_of(text))}
    phrases |= dict.fromkeys(runs - others.having(runs), "text")
    phrases |= dict.fromkeys((*names, *further), "identifier")
    return SubjectTraces(
        frozenset(nodes & {record.groups[benchmark.subject_level] for record in records}),
        record_ids,
        Phrases(phrases, others.words),
        frozenset(ids - unambiguous.keys()),
        frozenset(_images(benchmark, record_ids)),
        len(values) - len(forms),
    )


def _question_texts(questions: Iterable[Question]) -> Iterator[str]:
    for question in questions:
        yield from (question.question, question.answer, *question.options)


def _records(benchmark: Benchmark, subject: str | Collection[str] | None) -> frozenset[str]:
    if subject is None:
        return frozenset()
    if not isinstance(subject, str):
        return benchmark.hierarchy.closure(benchmark.subject_level, subject)
    level, is_request, nodes = subject.partition("=")
    if not is_request:
        level, nodes = benchmark.subject_level, subject
    return benchmark.hierarchy.closure(level.strip(), [node.strip() for node in nodes.split(",") if node.strip()])


def _images(benchmark: Benchmark, records: Collection[str]) -> Iterator[str]:
    for name in records:
        for image in benchmark.record[name].images:
            if benchmark.folder is not None and (path := benchmark.folder / image).is_file():
                yield sha256_of(path)


def _runs(words: Sequence[str]) -> Iterator[Phrase]:
    """Every :data:`RUN` consecutive words; a shorter text of at least half that length as a whole."""
    if RUN // 2 <= len(words) < RUN:
        yield tuple(words)
    yield from (tuple(words[start : start + RUN]) for start in range(len(words) - RUN + 1))


def _is_distinctive(name: str) -> bool:
    """True if an id is recognizable in running text: ``patient-0007`` is, ``7`` and ``note`` are not."""
    letters = "".join(words_of(name))
    if letters.isdigit():
        return len(letters) >= 6
    return len(letters) >= _LEAST and (any(map(str.isdigit, letters)) or len(letters) >= 2 * _LEAST)


class _Others:
    """Texts and ids of all other subjects."""

    def __init__(self, benchmark: Benchmark, records: Collection[str]) -> None:
        others = [record for record in benchmark.records if record.record_id not in records]
        questions = [question for question in benchmark.questions if question.record_id not in records]
        self._texts = [
            words_of(text)
            for text in (
                *(record.text for record in others),
                *(identifier.value for record in others for identifier in record.identifiers),
                *_question_texts(questions),
            )
        ]
        self.words = Counter(word for text in self._texts for word in text)
        self.nodes = {node for record in others for node in record.groups.values()}
        names = {*self.nodes, *(r.record_id for r in others), *(q.question_id for q in questions)}
        self._names = [words_of(name) for name in names]

    def having(self, phrases: Iterable[Phrase], *, in_ids: bool = False) -> set[Phrase]:
        """The phrases that occur in another subject's text, or in an id."""
        search = Phrases(dict.fromkeys(phrases, "text"), self.words)
        return {phrase for text in (self._names if in_ids else self._texts) for _, phrase in search.matches(text)}


def read_identifiers(path: Path) -> list[str]:
    """Identifiers of a subject from a file, one per line; empty lines are skipped.

    Raises:
        InputError: it cannot be read, or has none.
    """
    identifiers = [line.strip() for line in read_text(path).splitlines() if line.strip()]
    if not identifiers:
        raise InputError(f"{path} has no identifier. Write one per line.")
    return identifiers
