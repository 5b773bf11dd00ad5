"""Sensitive content beyond identifiers: what stands in a response and in its record, by lists of terms.

A term in a response alone says nothing of a patient, since every model speaks of aspirin. It counts when the record
says the same and the model was not given it. Even then it may be a good guess: compare with a model that never saw
the record.
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

from medunlearn.audit.identifiers.findings import Output, place_of
from medunlearn.audit.identifiers.known import Hit, outermost
from medunlearn.audit.identifiers.text import Text, words_of


@dataclass(frozen=True, slots=True)
class Content:
    """A row of Table 10.

    Attributes:
        name: in tables, lower_snake_case.
        title: as the paper's table calls it.
        category: the row's category there.
        terms: each as folded words with a space between.
        forms: expressions for what has a form.
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
class Lists:
    """Every row, by its name and in the table's order; ``version`` changes with the file."""

    contents: Mapping[str, Content]
    version: str


@cache
def lists() -> Lists:
    """The lists that come with the package."""
    content = (files(__package__) / "sensitive.yaml").read_bytes()
    rows = yaml.safe_load(content)
    return Lists({name: _content(name, row) for name, row in rows.items()}, hashlib.sha256(content).hexdigest()[:8])


def find_terms(output: Output, record: str) -> Iterator[dict[str, Any]]:
    """Rows with the columns of findings: sensitive content of a response that the record has as well.

    ``key`` is the term's words, so that a lab value counts only where record and response have the same number.
    ``in_prefix``: the model was given it.

    Args:
        record: text of the response's record; nothing is found without it.
    """
    said = Text.of(output.response)
    found = sorted(_places(said), key=lambda one: (one[1].start, one[1].end, one[0]))
    if not found:
        return
    there, given = _keys(record), _keys(output.prefix)
    for name, hit in found:
        key = " ".join(words_of(said.raw[hit.start : hit.end]))
        if (name, key) in there:
            yield {
                **place_of(output, said, hit.start, hit.end),
                "kind": name,
                "key": key,
                "match": "exact",
                "similarity": 1.0,
                "detector": "terms",
                "owner": "record",
                "owner_record": output.record_id,
                "owners": 1,
                "in_record": True,
                "in_prefix": (name, key) in given,
            }


def _content(name: str, row: Mapping[str, Any]) -> Content:
    terms = frozenset(" ".join(words_of(term)) for term in row.get("terms", ()))
    forms = tuple(re.compile(form) for form in row.get("forms", ()))
    return Content(name, row["title"], row["category"], terms, forms, tuple(row.get("detects", ())))


@cache
def _by_first_word() -> Mapping[str, tuple[tuple[int, str, str], ...]]:
    """First word -> number of words, term and row of every term that begins with it, the longest first."""
    found: dict[str, list[tuple[int, str, str]]] = {}
    for name, content in lists().contents.items():
        for term in content.terms:
            words = term.split(" ")
            found.setdefault(words[0], []).append((len(words), term, name))
    return {word: tuple(sorted(terms, reverse=True)) for word, terms in found.items()}


def _places(text: Text) -> Iterator[tuple[str, Hit]]:
    """Row and place of each piece of sensitive content; within one row the longest of those that overlap."""
    found: dict[str, list[Hit]] = {}
    terms = _by_first_word()
    for first, word in enumerate(text.words):
        for count, term, name in terms.get(word, ()):
            if " ".join(text.words[first : first + count]) == term and text.joined(first, count):
                found.setdefault(name, []).append(Hit(text.starts[first], text.ends[first + count - 1], ()))
    for name, content in lists().contents.items():
        for form in content.forms:
            found.setdefault(name, []).extend(Hit(*match.span(), ()) for match in form.finditer(text.raw))
    for name, hits in found.items():
        for hit in outermost(hits):
            yield name, hit


def _keys(text: str) -> frozenset[tuple[str, str]]:
    read = Text.of(text)
    return frozenset((name, " ".join(words_of(read.raw[hit.start : hit.end]))) for name, hit in _places(read))
