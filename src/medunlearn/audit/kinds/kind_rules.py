"""Catalogue of kinds of memorized text, and rules that sort spans into them.

Rules, the first that applies; evidence comes before words:

1. ``patient_information``: an identifier of a subject was found in the span (declared by its record, or detected in
   a corpus that is declared clinical).
2. ``dataset_artifact``: its corpus is declared a data set of questions, or it has three or more lettered answer
   options.
3. ``editorial``: at least ``boilerplate`` records of the corpus hold the span. Text that many records share is a
   set phrase, in clinical notes too.
4. ``clinical_narrative``: its corpus is declared clinical.
5. the kind with the most weight of distinct terms, if it has ``least`` and more than any other.

A span that no rule matches has no kind but a reason: a guess would be counted as knowledge.

Source: Memorization in Large Language Models in Medicine, Table 3 (kinds) and Figure 8 (groups, harmful kinds).
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any, Literal

import yaml

from medunlearn.config.audit import KindSettings

Group = Literal["beneficial", "uninformative", "harmful"]
GROUPS: tuple[Group, ...] = ("beneficial", "uninformative", "harmful")
Label = tuple[str | None, str | None]
"""Kind of a span, or None and the reason."""

_OPTION = re.compile(r"(?<!\w)\(?([A-E])[.):]\s+\S")
_OPTIONS = 3
_WORD = re.compile(r"\w+")
_WORDS = 8


@dataclass(frozen=True, slots=True)
class TextKind:
    """One kind of memorized text.

    Attributes:
        title: as in the paper's table.
        about: definition.
        terms: pattern -> weight; empty for kinds that terms cannot detect.
    """

    title: str
    group: Group
    about: str
    terms: Mapping[re.Pattern[str], int] = field(repr=False)


@cache
def kinds() -> Mapping[str, TextKind]:
    """Every kind by name, in the order of Table 3 and then of Figure 8."""
    text = files(__package__).joinpath("kinds.yaml").read_text(encoding="utf-8")
    entries = yaml.safe_load(text)["kinds"].items()
    return {name: TextKind(**{**entry, "terms": dict(map(_term, entry["terms"]))}) for name, entry in entries}


def _term(entry: Any) -> tuple[re.Pattern[str], int]:
    """Words in a row between word boundaries, and their weight; ``*`` matches any beginning or ending of a word."""
    term, weight = (entry["term"], int(entry["weight"])) if isinstance(entry, dict) else (str(entry), 1)
    words = [re.escape(word).replace(r"\*", r"\w*") for word in term.split()]
    return re.compile(r"(?<!\w)" + r"\s+".join(words) + r"(?!\w)"), weight


def sort_span(
    settings: KindSettings, text: str, corpus: str, identified: bool = False, records: int | None = None
) -> Label:
    """The kind of a memorized span by rules.

    Args:
        identified: a subject's identifier was found in it.
        records: records of the corpus that hold it; None if not counted.
    """
    if identified:
        return "patient_information", None
    if corpus in settings.datasets or len(set(_OPTION.findall(text))) >= _OPTIONS:
        return "dataset_artifact", None
    if records is not None and records >= settings.boilerplate:
        return "editorial", None
    if corpus in settings.clinical:
        return "clinical_narrative", None
    weights = term_weights(text)
    ranked = sorted(weights, key=lambda name: -weights[name])
    most = weights[ranked[0]]
    if most < settings.least:
        return None, "too few terms of any kind"
    if weights[ranked[1]] == most:
        return None, f"as many terms of {' and '.join(name for name in weights if weights[name] == most)}"
    return ranked[0], None


def term_weights(text: str) -> Mapping[str, int]:
    """Weight of each kind's distinct terms in a text."""
    low = text.lower()
    with_terms = ((name, kind.terms.items()) for name, kind in kinds().items() if kind.terms)
    return {name: sum(weight for term, weight in terms if term.search(low)) for name, terms in with_terms}


def records_holding(spans: Sequence[str], records: Iterable[tuple[str, str]]) -> list[int]:
    """Number of distinct records that contain each span, ignoring case, spaces and punctuation.

    A span may begin or end inside a word: its first and last word match the end and the beginning of a record's. A
    span is searched only where its first whole words are, so time grows with the text.

    Args:
        records: record_id and text; one record may come in several pieces.

    Returns:
        One number per span; 0 for a span of fewer than three words.
    """
    words = [_WORD.findall(span.lower()) for span in spans]
    anchors: dict[int, dict[tuple[str, ...], list[int]]] = defaultdict(lambda: defaultdict(list))
    for number, span_words in enumerate(words):
        if len(span_words) >= 3:
            inner = tuple(span_words[1:-1][:_WORDS])
            anchors[len(inner)][inner].append(number)
    holders: list[set[str]] = [set() for _ in spans]
    for record, raw in records:
        text = _WORD.findall(raw.lower())
        for length, starts in anchors.items():
            for place in range(1, len(text) - length):
                for number in starts.get(tuple(text[place : place + length]), ()):
                    if _matches(text, place - 1, words[number]):
                        holders[number].add(record)
    return [len(holder) for holder in holders]


def _matches(text: Sequence[str], at: int, span: Sequence[str]) -> bool:
    end = at + len(span) - 1
    if end >= len(text) or not text[at].endswith(span[0]) or not text[end].startswith(span[-1]):
        return False
    return text[at + 1 : end] == span[1:-1]
