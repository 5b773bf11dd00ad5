"""Questions on a report section: cloze and multiple choice by rules, and checks of a language model's items."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise

import numpy as np

from medunlearn.data.answer_texts import BLANK, GRAMMAR, normalised, stands_in
from medunlearn.data.records import Kind
from medunlearn.data.sentences import sentence_starts
from medunlearn.data.studies_of_patients import MASK
from medunlearn.papers.paper_files import paper_yaml

LONGEST_OPTION = 160
LONGEST_CLOZE = 5
"""Words of a gap's answer at most."""
_ALIKE = 0.75
_LONG_POOL = 20_000
"""Sentences up to which all are shuffled for each draw."""
_WORD = re.compile(r"[^\W_]+(?:[-/'][^\W_]+)*(?:[.,:]\d+)*")
_MEASURE = re.compile(r"\d+(?:[.,:]\d+)*\s?(?:mm|cm|kV|mAs|days|weeks|%)(?!\w)")
_NUMBERING = re.compile(r"^\s*(?:\d+[.)]|[-*•])\s+")
_EMPTY_WORDS = """
a about after again all an and any are as at be been before both but by can compared could did do does due for
from had has have if in into is it its may more most no non not of on once or other over per seen show shows
since so some stable such than that the their then there these they this those through to too unchanged until
was were what when where which while who will with within without year old years
"""
_EMPTY = frozenset(_EMPTY_WORDS.split())
_TELLING_WORDS = """
left right bilateral upper middle lower basilar apical lobe base effusion effusions opacity opacities nodule nodules
pneumothorax cardiomegaly enlarged consolidation atelectasis edema granuloma scarring fracture pacemaker catheter
drain line port pneumonia pain cough dyspnea fever portable lateral frontal spine emphysema hernia tortuous mass
"""
_TELLING = frozenset(_TELLING_WORDS.split())


@dataclass(frozen=True)
class SectionItem:
    """One question item on a section, before phrasing.

    Attributes:
        kind: generation, cloze or classification.
        question: wording by a language model; None to use a template.
        reworded: its paraphrase; None to use a template.
        answer, options, answer_index: as in ``Question``.
        statement: statement of a cloze.
        writer, rewriter: origin of question and paraphrase: ``template`` (``template-spare`` with wrong options
            from no report), or the model's prompt.
    """

    kind: Kind
    answer: str
    question: str | None = None
    reworded: str | None = None
    options: tuple[str, ...] = ()
    answer_index: int | None = None
    statement: str = ""
    writer: str = "template"
    rewriter: str = "template"


@lru_cache(maxsize=8192)
def topics(sentence: str) -> frozenset[str]:
    """Anatomy and devices mentioned in a sentence of a chest report, by the words of ``wording.yaml``."""
    words = normalised(sentence).split()
    return frozenset(
        topic
        for topic, stems in paper_yaml("medforget", "wording")["topics"].items()
        if any(word.startswith(stem) for word in words for stem in stems)
    )


@lru_cache(maxsize=8192)
def sentences(text: str) -> tuple[str, ...]:
    """Sentences of a section without list numbers, each on one line."""
    parts = (text[start:end] for start, end in pairwise([*sentence_starts(text), len(text)]))
    lines = (" ".join(_NUMBERING.sub("", part).split()) for part in parts)
    return tuple(line for line in lines if normalised(line))


def gap(text: str, rng: np.random.Generator) -> SectionItem:
    """The most informative gap of a text: a measure, a side, a finding, else a content word.

    Raises:
        ValueError: no gap is possible (:func:`has_gap`; sections are selected so that one is).
    """
    gaps = list(_gaps(text))
    if not gaps:
        raise ValueError("no word of the section can be left out")
    highest = max(rank for rank, _, _ in gaps)
    best = [(statement, answer) for rank, statement, answer in gaps if rank == highest]
    statement, answer = best[int(rng.integers(len(best)))]
    return SectionItem("cloze", answer, statement=statement)


def has_gap(text: str) -> bool:
    """True if a word that occurs only once in its sentence can become a gap."""
    return next(_gaps(text), None) is not None


def _gaps(text: str) -> Iterator[tuple[int, str, str]]:
    """Information class of a gap, with its statement and answer.

    4 measures, 3 terms, 2 long words, 1 short ones, 0 grammar; -1 if the gap is the whole statement.
    """
    for sentence in sentences(text):
        words = [match for match in _WORD.finditer(sentence) if any(map(str.isalpha, match.group()))]
        measures = [(4, match) for match in _MEASURE.finditer(sentence)]
        for rank, match in (*measures, *((_rank(match.group()), match) for match in words)):
            statement, answer = sentence[: match.start()] + BLANK + sentence[match.end() :], match.group()
            if not wrong_cloze(statement, answer, text):
                # Where nothing but the gap is told, the answer is a guess: only if there is no other gap.
                yield rank if meaning(statement.replace(BLANK, " ")) else -1, statement, answer


def _rank(word: str) -> int:
    if word.casefold() in _TELLING:
        return 3
    return 0 if word.casefold() in _EMPTY else 1 + (len(word.casefold()) > 3)


class SentencePool:
    """The distinct sentences of several texts, sorted: wrong options are drawn from them.

    They are split and sorted once, however many sections draw from them.
    """

    def __init__(self, texts: Iterable[str]) -> None:
        self._texts = list(texts)
        self._like: dict[frozenset[str], list[str]] = {}

    @cached_property
    def lines(self) -> list[str]:
        """All sentences, as options are written."""
        return sorted({_shorten(sentence) for text in self._texts for sentence in sentences(text)})

    @cached_property
    def _topics(self) -> list[frozenset[str]]:
        return [topics(line) for line in self.lines]

    def like(self, anatomy: frozenset[str]) -> list[str]:
        """Sentences that mention some of the anatomy."""
        if anatomy not in self._like:
            pairs = zip(self.lines, self._topics, strict=True)
            self._like[anatomy] = [line for line, own in pairs if anatomy & own]
        return self._like[anatomy]


def choice(
    section: str, text: str, others: Iterable[SentencePool], count: int, rng: np.random.Generator
) -> SectionItem:
    """Multiple choice: a sentence of the section among sentences of the same section of other reports.

    Args:
        others: sentences to draw wrong options from, closest first: of the patient's other studies, the
            institution's, all. Sentences on the same anatomy take precedence.
        count: total number of options.
    """
    lines = [_shorten(sentence) for sentence in sentences(text)]
    whole = [sentence for sentence in lines if MASK not in sentence] or lines
    longest = max(min(len(meaning(sentence)), 4) for sentence in whole)
    best = [sentence for sentence in whole if min(len(meaning(sentence)), 4) == longest]
    options = [best[int(rng.integers(len(best)))]]
    for like in (True, False):
        for pool in others:
            if len(options) < count:
                lines = pool.like(topics(options[0])) if like else pool.lines
                _fill(options, lines, text, count, rng)
    real = len(options)
    spare = paper_yaml("medforget", "wording")["spare"]
    for lines in (spare.get(section, spare["other"]), spare["other"]):
        _fill(options, _spare_pool(tuple(lines)).lines, text, count, rng)
    order = rng.permutation(len(options)).tolist()
    return SectionItem(
        "classification",
        options[0],
        options=tuple(options[place] for place in order),
        answer_index=order.index(0),
        writer="template" if len(options) == real else "template-spare",
    )


@lru_cache(maxsize=64)
def _spare_pool(lines: tuple[str, ...]) -> SentencePool:
    return SentencePool(f"{line}." for line in lines)


def _fill(options: list[str], lines: Sequence[str], text: str, count: int, rng: np.random.Generator) -> None:
    """Add sentences that are not true of the section and differ from all others, until there are ``count`` options.

    Args:
        lines: sentences to choose from, in a fixed order; on the right option's anatomy, distractors are plausible.
    """
    if len(options) >= count:
        return
    for place in _drawn_places(len(lines), rng):
        if len(options) >= count:
            return
        line = lines[place]
        if MASK in line or not meaning(line) or says(text, line) or stands_in(options[0], line):
            continue
        if all(_overlap(line, option) < _ALIKE for option in options):
            options.append(line)


def _drawn_places(count: int, rng: np.random.Generator) -> Iterator[int]:
    """The places of a list in random order; of a long one only as many are drawn as are looked at."""
    if count <= _LONG_POOL:
        yield from map(int, rng.permutation(count)) if count else ()
        return
    moved: dict[int, int] = {}  # Fisher and Yates, without the places that were not moved
    for first in range(count):
        other = int(rng.integers(first, count))
        place = moved.get(other, other)
        moved[other] = moved.pop(first, first)
        yield place


def _overlap(line: str, other: str) -> float:
    both, either = meaning(line) & meaning(other), meaning(line) | meaning(other)
    return len(both) / len(either) if either else 1.0


def _shorten(sentence: str) -> str:
    """A sentence truncated to whole words within an option's length."""
    if len(sentence) <= LONGEST_OPTION:
        return sentence
    cut = sentence[: LONGEST_OPTION + 1]
    return (cut.rpartition(" ")[0] or cut[:LONGEST_OPTION]).rstrip(" ,;:")


@lru_cache(maxsize=16384)
def meaning(text: str) -> frozenset[str]:
    """Words and numbers of a text that carry meaning."""
    return frozenset(normalised(text).split()) - GRAMMAR


def wrong_cloze(statement: str, answer: str, text: str) -> str:
    """Error of a cloze, without words of the record; empty if valid.

    It must have one gap, whose answer of one to five words occurs in the section and not in the statement.
    """
    if statement.count(BLANK) != 1:
        return f"the statement must have exactly one {BLANK}"
    if not 1 <= len(normalised(answer).split()) <= LONGEST_CLOZE:
        return f"the answer must have 1 to {LONGEST_CLOZE} words"
    if not stands_in(answer, text):
        return "the answer is not in the section word for word"
    if stands_in(answer, statement.replace(BLANK, " / ")):
        return "the statement gives its own answer away"
    return ""


def says(text: str, option: str) -> bool:
    """True if a text contains all content of an option, in any order."""
    return stands_in(option, text) or (bool(meaning(option)) and meaning(option) <= meaning(text))
