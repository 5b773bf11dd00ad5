"""Catalogue of kinds of memorized text, and rules that sort spans into them.

Rules, the first that applies; evidence comes before words:

1. ``patient_information``: an identifier was found in the span.
2. ``dataset_artifact``: its corpus is declared a data set of questions, or it has three or more lettered answer
   options.
3. ``editorial``: at least ``boilerplate`` records of the corpus hold the span. Text that many records share is a
   set phrase, in clinical notes too.
4. ``clinical_narrative``: its corpus is declared clinical.
5. the kind with the most weight of distinct terms, if it has ``least`` and more than any other.

A span without a rule stays without a kind, with the reason: a guess would be counted as knowledge.

Source: Memorization in Large Language Models in Medicine, Table 3 (kinds) and Figure 8 (groups, harmful kinds).
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from importlib.resources import files
from typing import Any, Literal

import yaml

Group = Literal["beneficial", "uninformative", "harmful"]
GROUPS: tuple[Group, ...] = ("beneficial", "uninformative", "harmful")

_OPTION = re.compile(r"(?<!\w)\(?([A-E])[.):]\s+\S")
_OPTIONS = 3
_WORD = re.compile(r"\w+")
_WORDS = 8


@dataclass(frozen=True, slots=True)
class TextKind:
    """One kind of text.

    Attributes:
        name: short: ``drug``.
        title: as in the paper's table.
        group: beneficial, uninformative or harmful.
        about: definition.
        terms: pattern -> weight; none for kinds that words do not show.
    """

    name: str
    title: str
    group: Group
    about: str
    terms: Mapping[re.Pattern[str], int] = field(repr=False)


@dataclass(frozen=True, slots=True)
class MemorizedSpan:
    """One memorized span with the evidence about it.

    Attributes:
        text: as in the response.
        corpus: of its record.
        identified: a person's identifier was found in it.
        records: records of the corpus that hold it; None if not counted.
    """

    text: str
    corpus: str
    identified: bool = False
    records: int | None = None


@dataclass(frozen=True, slots=True)
class KindLabel:
    """The kind of a span; None with a reason where there is none."""

    kind: str | None
    reason: str = ""


@cache
def kinds() -> Mapping[str, TextKind]:
    """Every kind by name, in the order of Table 3 and then of Figure 8."""
    text = files(__package__).joinpath("kinds.yaml").read_text(encoding="utf-8")
    return {name: _kind(name, entry) for name, entry in yaml.safe_load(text)["kinds"].items()}


def group_of(kind: str) -> Group:
    """The group of a kind."""
    return kinds()[kind].group


def _kind(name: str, entry: Mapping[str, Any]) -> TextKind:
    terms = {}
    for one in entry["terms"]:
        term, weight = (one["term"], int(one["weight"])) if isinstance(one, dict) else (str(one), 1)
        terms[_pattern(term)] = weight
    return TextKind(name, entry["title"], entry["group"], entry["about"], terms)


def _pattern(term: str) -> re.Pattern[str]:
    """Words in a row between word borders; ``*`` matches any beginning or ending of a word."""
    words = [re.escape(word).replace(r"\*", r"\w*") for word in term.split()]
    return re.compile(r"(?<!\w)" + r"\s+".join(words) + r"(?!\w)")


@dataclass(frozen=True)
class KindRules:
    """Rule-based sorting.

    Attributes:
        clinical: corpora of patients' records.
        datasets: corpora of questions with answers.
        boilerplate: records that must share a set phrase.
        least: least weight of distinct terms that makes a kind.
    """

    clinical: frozenset[str] = frozenset()
    datasets: frozenset[str] = frozenset()
    boilerplate: int = 5
    least: int = 2

    def sort(self, span: MemorizedSpan) -> KindLabel:
        """The kind of one span."""
        if span.identified:
            return KindLabel("patient_information")
        if span.corpus in self.datasets or len(set(_OPTION.findall(span.text))) >= _OPTIONS:
            return KindLabel("dataset_artifact")
        if span.records is not None and span.records >= self.boilerplate:
            return KindLabel("editorial")
        if span.corpus in self.clinical:
            return KindLabel("clinical_narrative")
        return self._by_terms(span.text)

    def weights(self, text: str) -> Mapping[str, int]:
        """Weight of each kind's distinct terms in a text."""
        low = text.lower()
        return {
            kind.name: sum(weight for term, weight in kind.terms.items() if term.search(low))
            for kind in self._with_terms
        }

    @cached_property
    def _with_terms(self) -> tuple[TextKind, ...]:
        return tuple(kind for kind in kinds().values() if kind.terms)

    def _by_terms(self, text: str) -> KindLabel:
        weights = self.weights(text)
        first, second, *_ = sorted(weights.values(), reverse=True)
        if first < self.least:
            return KindLabel(None, "too few terms of any kind")
        if first == second:
            tied = " and ".join(name for name, weight in weights.items() if weight == first)
            return KindLabel(None, f"as many terms of {tied}")
        return KindLabel(max(weights, key=lambda name: weights[name]))


def records_holding(spans: Sequence[str], records: Iterable[tuple[str, str]]) -> list[int]:
    """Number of distinct records that hold each span, ignoring case, spaces and punctuation.

    A span may begin or end inside a word: its first and last word match the end and the beginning of a record's. A
    span is searched only where its first whole words are, so time grows with the text.

    Args:
        spans: texts.
        records: record_id and text; one record may come in several pieces.

    Returns:
        One number per span; 0 for a span of fewer than three words.
    """
    words = [_WORD.findall(span.lower()) for span in spans]
    anchors: dict[int, dict[tuple[str, ...], list[int]]] = defaultdict(lambda: defaultdict(list))
    for number, own in enumerate(words):
        if len(own) >= 3:
            inner = tuple(own[1:-1][:_WORDS])
            anchors[len(inner)][inner].append(number)
    holders: list[set[str]] = [set() for _ in spans]
    for record, text in records:
        for number in _spans_in(_WORD.findall(text.lower()), anchors, words):
            holders[number].add(record)
    return [len(holder) for holder in holders]


def _spans_in(
    text: list[str], anchors: Mapping[int, Mapping[tuple[str, ...], list[int]]], words: Sequence[Sequence[str]]
) -> Iterable[int]:
    for length, starts in anchors.items():
        for place in range(1, len(text) - length):
            for number in starts.get(tuple(text[place : place + length]), ()):
                if _matches(text, place - 1, words[number]):
                    yield number


def _matches(text: Sequence[str], at: int, span: Sequence[str]) -> bool:
    end = at + len(span) - 1
    if end >= len(text) or not text[at].endswith(span[0]) or not text[end].startswith(span[-1]):
        return False
    return list(text[at + 1 : end]) == list(span[1:-1])
