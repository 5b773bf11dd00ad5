"""Cloze gaps of a note: identifiers, dates, values with units, doses, findings and short sections.

Facts are those of :mod:`medunlearn.data.facts`; a number counts if a unit follows it, or if a word before it names
the quantity. The unit stays in the sentence, so that guessing it earns nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache

from medunlearn.data.facts import facts_of
from medunlearn.data.records import Identifier, Question
from medunlearn.metrics.leakage.extractors import Offline
from medunlearn.metrics.leakage.keyword_selection import CONTAINS, Seeds
from medunlearn.metrics.leakage.phrases import cleaned, terms

BLANK = "____"
MOST_WORDS = 60
"""Words of the sentence that a gap is shown in."""
LONGEST_SECTION = 25
"""Words of a section that is asked for as a whole."""

_DOSES = r"mg|mcg|µg|ug|g|mL|ml|units?|IU|puffs?|tablets?|drops?"
_TIMES = r"minutes?|min|hours?|hrs?|days?|weeks?|months?|years?"
_UNIT = re.compile(
    rf"\s?(?:(?P<dose>(?:{_DOSES})(?![\w/]))|(?P<duration>(?:{_TIMES})(?!\w))"
    r"|(?P<value>%|°\s?[CF]?|(?:[A-Za-zµ]{1,6}|[x×]?\s?10\^\d+)/(?:[A-Za-zµ]{1,6}|\d+\s?\w+)|mm\s?Hg|bpm|mmol|kg|cm|mm|pg|fL|U|L)"
    r"(?![\w/]))"
)
_NUMBERING = re.compile(r"[.)]\s")
_LABEL = re.compile(r"([A-Za-z][A-Za-z-]+)(?:\s+(?:of|is|was|were|at|to|level|count|[a-z]+ing))*[\s:=,(]*$")
_HEADING = re.compile(r"^[ \t]*(?P<head>[A-Z][A-Za-z][A-Za-z /&'-]{1,50}):[ \t]*\n?(?P<body>[^\n]+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class NoteGap:
    """A span of a note that can become a gap.

    Attributes:
        start, end: character offsets.
        group: ``identifier``, ``date``, ``value`` (doses too), ``number``, ``finding`` or ``section``.
        label: description of the gap: the identifier's type, the value's label (``dose:metformin``), the heading.
    """

    start: int
    end: int
    group: str
    label: str


def gaps_in(text: str, identifiers: Sequence[Identifier]) -> list[NoteGap]:
    """All gaps of a note, sorted by position; gaps of one group do not overlap."""
    gaps = [*_facts(text, identifiers), *_findings(text), *_sections(text)]
    return sorted(gaps, key=lambda gap: (gap.start, gap.end))


def sentence_with_gap(text: str, gap: NoteGap, starts: Sequence[int]) -> str:
    """The gap's sentence, or its section's line, with :data:`BLANK` for the gap, on one line.

    Args:
        starts: offsets of the text's sentences (:func:`medunlearn.data.sentences.sentence_starts`).
    """
    first = max((start for start in starts if start <= gap.start), default=0)
    last = min((start for start in starts if start >= gap.end), default=len(text))
    if gap.group == "section":
        first = text.rfind(":", 0, gap.start)
        first, last = max(text.rfind("\n", 0, first), 0), gap.end
    before, after = text[first : gap.start].split(), text[gap.end : last].split()
    joint_before = "" if text[gap.start - 1 : gap.start].strip() else " "
    joint_after = "" if text[gap.end : gap.end + 1].strip() else " "
    left, right = " ".join(before[-MOST_WORDS // 2 :]), " ".join(after[: MOST_WORDS // 2])
    return f"{left}{joint_before}{BLANK}{joint_after}{right}".strip()


def _facts(text: str, identifiers: Sequence[Identifier]) -> Iterator[NoteGap]:
    whole = Question("", "", "train", "completion", "", "", text)
    for fact in facts_of(whole, identifiers):
        if fact.kind == "number":
            if label := _quantity(text, fact.start, fact.end):
                yield NoteGap(fact.start, fact.end, "value" if label[:5] in ("dose:", "value") else "number", label)
        elif fact.kind != "statement":
            is_date = fact.kind == "date" or fact.type == "date"
            yield NoteGap(fact.start, fact.end, "date" if is_date else "identifier", fact.type or fact.kind)


def unit_after(text: str, end: int) -> tuple[str, str] | None:
    """Kind (``dose``, ``duration``, ``value``) and spelling of the unit that follows a number."""
    unit = _UNIT.match(text, end)
    return (str(unit.lastgroup), unit.group().strip()) if unit else None


def _quantity(text: str, start: int, end: int) -> str | None:
    """Quantity that a number measures, from its unit and the word before; None if unknown, or if it numbers a
    list.
    """
    if _NUMBERING.match(text, end) and (
        not (before := text[max(0, start - 3) : start].rstrip(" ")) or before[-1] in "\n:.;"
    ):
        return None
    unit, label = _UNIT.match(text, end), _LABEL.search(text, max(0, start - 60), start)
    kind = unit.lastgroup if unit else None
    if kind is None and label is None:
        return None
    return f"{kind or 'number'}:{label[1].lower() if label else 'unlabelled'}"


@cache
def _seeds() -> Seeds:
    """Disease names and signs: the terms of all categories (AMNESIA, Table 7)."""
    return Seeds([seed for category in terms().diseases for seed in terms().seeds(category)])


def _findings(text: str) -> Iterator[NoteGap]:
    end = 0
    lower = text.lower()
    if len(lower) != len(text):
        return
    for phrase in Offline().phrases([text])[0]:
        place = lower.find(phrase, end)
        if place < 0:
            continue
        end = place + len(phrase)
        words = cleaned(phrase)
        if words and _seeds().relevance(words) >= CONTAINS:
            yield NoteGap(place, end, "finding", "finding")


def _sections(text: str) -> Iterator[NoteGap]:
    for match in _HEADING.finditer(text):
        start, body = match.start("body"), match["body"].rstrip()
        if 1 < len(body.split()) <= LONGEST_SECTION:
            heading = re.sub(r"[^a-z0-9]+", "_", match["head"].lower()).strip("_")
            yield NoteGap(start, start + len(body), "section", f"section:{heading}")
