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
from functools import cache, lru_cache
from importlib.resources import files
from itertools import chain
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from medunlearn.audit.identifiers.findings import RULES, as_frame, finding, stored_table
from medunlearn.audit.identifiers.known import Hit, outermost
from medunlearn.audit.identifiers.normalized_text import IndexedText, matches_at, words_of
from medunlearn.audit.identifiers.outputs import RecordResponse, ResponseTokens
from medunlearn.data.records import Record
from medunlearn.data.storage import sha256_of_json
from medunlearn.metrics.workers import in_processes, shares
from medunlearn.progress import progress

SENSITIVE = "sensitive.parquet"
PER_PROCESS, BATCH = 20_000, 2000
"""Responses that are worth a process, and of one table."""
_FILE = files(__package__) / "sensitive.yaml"


_INITIAL = re.compile(r"\(\?i\)\\b\(\?:")
_ODD = re.compile("[\u0300-\u036f\u0130\u0131]")
"""Marks that separate letters for ``re`` and not for us, and the letters i that it takes for one."""


@dataclass(frozen=True, slots=True)
class ContentForm:
    """A regular expression, and what the first word of every match begins with.

    A form of many words is tried where a word begins so: a search would try each of them at each word of a text.
    """

    expression: re.Pattern[str]
    heads: tuple[str, ...]


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
    forms: tuple[ContentForm, ...]
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
    in_record, in_prefix = _keys_in(record), _keys_in(output.prefix)
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
    processes: int | None = None,
    quiet: bool = False,
) -> pd.DataFrame:
    """Sensitive content in responses and their records, by term lists; ``kind`` is a row of Table 10.

    Args:
        processes: that search; None: one a core where there are responses enough.
    """
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
        parts = [
            (part, {output.record_id: texts.get(output.record_id, "") for output in part})
            for part in shares(outputs, PER_PROCESS, processes)
        ]
        with progress("sensitive content", len(outputs), quiet=quiet) as advance:
            table = pd.concat([as_frame([]), *in_processes(_find_share, parts)], ignore_index=True)
            advance(len(outputs))
        return table if tokens is None else tokens.place(table, outputs)

    return stored_table(folder, SENSITIVE, key, find_all)


def _find_share(part: tuple[Sequence[RecordResponse], Mapping[str, str]]) -> pd.DataFrame:
    outputs, texts = part
    # Rows of many responses are bulky, as frames they are not.
    rows = [find_terms(output, texts[output.record_id]) for output in outputs]
    frames = [as_frame(chain.from_iterable(rows[start : start + BATCH])) for start in range(0, len(rows), BATCH)]
    return pd.concat(frames, ignore_index=True)


def _content(title: str, category: str, **lists: list[str]) -> ContentRow:
    terms = frozenset(" ".join(words_of(term)) for term in lists.get("terms", ()))
    forms = tuple(ContentForm(re.compile(form), _heads(form)) for form in lists.get("forms", ()))
    return ContentRow(title, category, terms, forms, tuple(lists.get("detects", ())))


def _heads(form: str) -> tuple[str, ...]:
    """Letters and digits that the matches of ``(?i)\\b(?:one|another|...)`` begin with; none for other forms."""
    if not (initial := _INITIAL.match(form)):
        return ()
    words, depth = [""], 0
    for letter in form[initial.end() :]:
        depth += (letter == "(") - (letter == ")")
        if depth < 0:
            break
        words = [*words, ""] if depth == 0 and letter == "|" else [*words[:-1], words[-1] + letter]
    heads = [re.sub(r"[^A-Za-z0-9].*|[A-Za-z0-9](?=[?*{]).*", "", word).lower() for word in words]
    # A single letter is found as a word of its own.
    known = all(len(head) > 1 or word[1:2] == "-" for head, word in zip(heads, words, strict=True))
    return tuple(heads) if known else ()


@cache
def _by_head() -> Mapping[str, list[tuple[ContentForm, tuple[str, ...]]]]:
    """First two letters -> forms, each with its heads that begin so."""
    index: dict[str, list[tuple[ContentForm, tuple[str, ...]]]] = defaultdict(list)
    for form in (form for content in term_lists().values() for form in content.forms):
        for initial in {head[:2] for head in form.heads}:
            index[initial].append((form, tuple(head for head in form.heads if head[:2] == initial)))
    return index


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
    starts: dict[ContentForm, list[int]] = defaultdict(list)
    terms, forms = _by_first_word(), _by_head()
    for first, word in enumerate(text.words):
        for count, term, name in terms.get(word, ()):
            if " ".join(text.words[first : first + count]) == term and text.joined(first, count):
                hits[name].append(Hit(text.starts[first], text.ends[first + count - 1], ()))
        for form, heads in forms.get(word[:2], ()):
            if word.startswith(heads):
                starts[form].append(text.starts[first])
    odd = not text.raw.isascii() and _ODD.search(text.raw)
    for name, content in term_lists().items():
        for form in content.forms:
            if odd or not form.heads:
                matches = form.expression.finditer(text.raw)
            else:
                matches = matches_at(form.expression, text.raw, starts[form])
            hits[name] += (Hit(*match.span(), ()) for match in matches)
    return [
        (name, " ".join(words_of(text.raw[hit.start : hit.end])), hit.start, hit.end)
        for name, row_hits in hits.items()
        for hit in outermost(row_hits)
    ]


@lru_cache(maxsize=256)
def _keys_in(text: str) -> frozenset[tuple[str, str]]:
    """Row and key of the sensitive content of a text that several responses share."""
    return frozenset((name, key) for name, key, *_ in _pieces(IndexedText.of(text)))
