"""Sensitive content beyond identifiers, by lists of terms: content that is in a response and in its record.

A term in a response alone says nothing of a patient. It counts if the record has the same and the model was not
given it. Even then it may be a good guess: compare with a model that never saw the record.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

import yaml

from medunlearn.audit.identifiers.findings import Output, content_finding
from medunlearn.audit.identifiers.known import Hit, outermost
from medunlearn.audit.identifiers.text import Text, words_of


@dataclass(frozen=True, slots=True)
class ContentRow:
    """A row of Table 10.

    Attributes:
        name: in tables, lower_snake_case.
        title: as in the paper's table.
        category: the row's category there.
        terms: folded words, separated by spaces.
        forms: regular expressions.
        detects: kinds of identifiers that are counted here as well.

    Source: Memorization in Large Language Models in Medicine, Table 10 (categories); the lists are ours.
    """

    name: str
    title: str
    category: str
    terms: frozenset[str]
    forms: tuple[re.Pattern[str], ...]
    detects: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TermLists:
    """Every row by name, in the table's order; ``version`` changes with the file."""

    contents: Mapping[str, ContentRow]
    version: str


@cache
def term_lists() -> TermLists:
    """The lists of the package."""
    content = (files(__package__) / "sensitive.yaml").read_bytes()
    rows = yaml.safe_load(content)
    contents = {name: _content(name, row) for name, row in rows.items()}
    return TermLists(contents, hashlib.sha256(content).hexdigest()[:8])


def find_terms(output: Output, record: str) -> Iterator[dict[str, Any]]:
    """Findings of sensitive content in a response that its record has as well.

    ``key`` is the term's words, so a lab value counts only where record and response have the same number.

    Args:
        record: text of the response's record; empty finds nothing.
    """
    response = Text.of(output.response)
    hits = sorted(_hits(response), key=lambda one: (one[1].start, one[1].end, one[0]))
    if not hits:
        return
    in_record, in_prefix = _keys(record), _keys(output.prefix)
    for name, hit in hits:
        key = " ".join(words_of(response.raw[hit.start : hit.end]))
        if (name, key) in in_record:
            given = (name, key) in in_prefix
            yield content_finding(output, response, hit.start, hit.end, name, key, "exact", "terms", given)


def _content(name: str, row: Mapping[str, Any]) -> ContentRow:
    terms = frozenset(" ".join(words_of(term)) for term in row.get("terms", ()))
    forms = tuple(re.compile(form) for form in row.get("forms", ()))
    return ContentRow(name, row["title"], row["category"], terms, forms, tuple(row.get("detects", ())))


@cache
def _by_first_word() -> Mapping[str, tuple[tuple[int, str, str], ...]]:
    """First word -> number of words, term and row of every term that begins with it, longest first."""
    index: dict[str, list[tuple[int, str, str]]] = {}
    for name, content in term_lists().contents.items():
        for term in content.terms:
            words = term.split(" ")
            index.setdefault(words[0], []).append((len(words), term, name))
    return {word: tuple(sorted(terms, reverse=True)) for word, terms in index.items()}


def _hits(text: Text) -> Iterator[tuple[str, Hit]]:
    """Row and place of each piece of sensitive content; within a row the longest of overlapping ones."""
    hits: dict[str, list[Hit]] = {}
    terms = _by_first_word()
    for first, word in enumerate(text.words):
        for count, term, name in terms.get(word, ()):
            if " ".join(text.words[first : first + count]) == term and text.joined(first, count):
                hits.setdefault(name, []).append(Hit(text.starts[first], text.ends[first + count - 1], ()))
    for name, content in term_lists().contents.items():
        for form in content.forms:
            hits.setdefault(name, []).extend(Hit(*match.span(), ()) for match in form.finditer(text.raw))
    for name, own in hits.items():
        for hit in outermost(own):
            yield name, hit


def _keys(text: str) -> frozenset[tuple[str, str]]:
    read = Text.of(text)
    return frozenset((name, " ".join(words_of(read.raw[hit.start : hit.end]))) for name, hit in _hits(read))
