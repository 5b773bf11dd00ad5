"""Sensitive content beyond identifiers, by term lists: content that is both in a response and in its record.

A term in a response alone says nothing about a patient. It counts if the record has it too and the prompt does not.
Even then it may be a good guess: compare with a model that never saw the record.
"""

from __future__ import annotations

import hashlib
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from medunlearn.audit.identifiers.findings import RULES, as_frame, finding, stored_table
from medunlearn.audit.identifiers.known import Hit, outermost
from medunlearn.audit.identifiers.normalized_text import IndexedText, words_of
from medunlearn.audit.identifiers.outputs import RecordResponse, ResponseTokens
from medunlearn.data.records import Record
from medunlearn.data.storage import sha256_of_json
from medunlearn.progress import progress

SENSITIVE = "sensitive.parquet"
_FILE = files(__package__) / "sensitive.yaml"


@dataclass(frozen=True, slots=True)
class ContentRow:
    """A row of Table 10.

    Attributes:
        title, category: as in the paper's table.
        terms: folded words, separated by spaces.
        forms: regular expressions.
        detects: kinds of identifiers that are counted here as well.

    Source: Memorization in Large Language Models in Medicine, Table 10 (categories); the lists are ours.
    """

    title: str
    category: str
    terms: frozenset[str]
    forms: tuple[re.Pattern[str], ...]
    detects: tuple[str, ...]


@cache
def term_lists() -> Mapping[str, ContentRow]:
    """The rows of Table 10 by name, in the table's order."""
    rows = yaml.safe_load(_FILE.read_bytes())
    return {name: _content(**row) for name, row in rows.items()}


def find_terms(output: RecordResponse, record: str) -> Iterator[dict[str, Any]]:
    """Findings of sensitive content in a response that its record contains too.

    ``key`` is the term's words, so a lab value counts only where record and response have the same number.

    Args:
        record: text of the response's record; empty finds nothing.
    """
    response = IndexedText.of(output.response)
    pieces = _pieces(response)
    if not pieces:
        return
    in_record, in_prefix = (
        {(name, key) for name, key, *_ in _pieces(IndexedText.of(text))} for text in (record, output.prefix)
    )
    for name, key, start, end in sorted(pieces, key=lambda piece: (*piece[2:], piece[0])):
        if (name, key) in in_record:
            was_prompted = (name, key) in in_prefix
            yield finding(output, response, (start, end), name, key, detector="terms", in_prefix=was_prompted)


def find_sensitive(
    outputs: Sequence[RecordResponse],
    records: Iterable[Record],
    *,
    tokens: ResponseTokens | None = None,
    folder: Path | None = None,
    quiet: bool = False,
) -> pd.DataFrame:
    """Sensitive content in responses and their records, by term lists; ``kind`` is a row of Table 10."""
    texts = {record.record_id: record.text for record in records}
    key = sha256_of_json(
        [
            RULES,
            hashlib.sha256(_FILE.read_bytes()).hexdigest()[:8],
            tokens and tokens.key,
            outputs,
            sorted(texts.items()),
        ]
    )

    def find_all() -> pd.DataFrame:
        rows: list[dict[str, Any]] = []
        with progress("sensitive content", len(outputs), quiet=quiet) as advance:
            for output in outputs:
                rows += find_terms(output, texts.get(output.record_id, ""))
                advance()
        return as_frame(rows) if tokens is None else tokens.place(as_frame(rows), outputs)

    return stored_table(folder, SENSITIVE, key, find_all)


def _content(title: str, category: str, **lists: list[str]) -> ContentRow:
    terms = frozenset(" ".join(words_of(term)) for term in lists.get("terms", ()))
    forms = tuple(map(re.compile, lists.get("forms", ())))
    return ContentRow(title, category, terms, forms, tuple(lists.get("detects", ())))


@cache
def _by_first_word() -> Mapping[str, list[tuple[int, str, str]]]:
    """First word -> number of words, term and row of every term beginning with it, longest first."""
    index: dict[str, list[tuple[int, str, str]]] = defaultdict(list)
    for name, content in term_lists().items():
        for words in (term.split(" ") for term in content.terms):
            index[words[0]].append((len(words), " ".join(words), name))
    return {word: sorted(terms, reverse=True) for word, terms in index.items()}


def _pieces(text: IndexedText) -> list[tuple[str, str, int, int]]:
    """Row, key, start and end of sensitive content; of overlapping pieces in a row the longest."""
    hits: dict[str, list[Hit]] = defaultdict(list)
    terms = _by_first_word()
    for first, word in enumerate(text.words):
        for count, term, name in terms.get(word, ()):
            if " ".join(text.words[first : first + count]) == term and text.joined(first, count):
                hits[name].append(Hit(text.starts[first], text.ends[first + count - 1], ()))
    for name, content in term_lists().items():
        hits[name] += (Hit(*match.span(), ()) for form in content.forms for match in form.finditer(text.raw))
    return [
        (name, " ".join(words_of(text.raw[hit.start : hit.end])), hit.start, hit.end)
        for name, row_hits in hits.items()
        for hit in outermost(row_hits)
    ]
