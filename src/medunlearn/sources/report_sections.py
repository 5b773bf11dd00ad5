"""Sections of a radiology report, by its headings.

Headings differ in case, spacing, number (``FINDINGS``, ``Finding``), with a colon or without, and two may be joined
(``FINDINGS AND IMPRESSION``). No word of a report is lost: text outside of sections is in ``rest``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

_ALIASES: Mapping[str, tuple[str, ...]] = {
    "examination": (
        *("type of examination", "type of exam", "examinations", "examination"),
        *("exams", "exam", "procedure", "study"),
    ),
    "indication": (
        *("reason for this examination", "reason for examination", "reason for the exam", "reason for exam"),
        *("reason for this exam", "reason for study", "clinical indications", "clinical indication"),
        *("indications", "indication"),
    ),
    "history": ("clinical history", "clinical information", "patient history", "medical history", "history"),
    "technique": ("techniques", "technique"),
    "comparison": ("comparison studies", "comparison study", "comparisons", "comparison"),
    "findings": ("findings", "finding"),
    "impression": ("impressions", "impression", "conclusions", "conclusion"),
    "notification": ("notifications", "notification"),
    "recommendation": ("recommendations", "recommendation"),
    "wet_read": ("wet read",),
    "addendum": ("final addendum", "addendum"),
    "final_report": ("final report",),
}
# What a second reader replaced, or what is not a section of a report.
_REST = ("wet_read", "addendum", "final_report")
# Reports written in sub-headings ("LUNGS:", "HEART:") have them in these.
_WITH_PARTS = ("findings", "impression", "findings_and_impression", "addendum", "wet_read")
_OTHER = "other"

_NAMES = {alias: name for name, aliases in _ALIASES.items() for alias in aliases}


def _headings(aliases: Iterable[str], joint: str) -> str:
    """Regular expression of one or several joined headings, e.g. ``findings and impression``; a version or ``(S)``
    may follow.
    """
    ordered = sorted(aliases, key=len, reverse=True)
    heading = "(?:" + "|".join(alias.replace(" ", r"[ \t]+") for alias in ordered) + ")"
    between = rf"(?:[ \t]*[/&+,][ \t]*|[ \t]*,?[ \t]+{joint}[ \t]+)"
    return rf"{heading}(?:{between}{heading})*(?:[ \t]*\([sS]\))?(?:[ \t]+[vV][eE][rR][sS][iI][oO][nN][ \t]*#?\d+)?"


_AT_START = re.compile(
    rf"^[ \t]*(?P<head>{_headings(_NAMES, 'and')})(?P<end>[ \t]*:|[ \t]*$|[ \t]+-+(?=\s)|[ \t]+)",
    re.IGNORECASE | re.MULTILINE,
)
_INSIDE = re.compile(rf"(?<=[.;\s])(?P<head>{_headings(map(str.upper, _NAMES), 'AND')})[ \t]*:")
_UNKNOWN = re.compile(r"^[ \t]*(?P<head>[A-Z][A-Z0-9 \t,/()&.'-]{2,60})[ \t]*:(?=\s)", re.MULTILINE)
_SPLIT = re.compile(r"[ \t]*[/&+,][ \t]*(?:and[ \t]+)?|[ \t]+and[ \t]+", re.IGNORECASE)


@dataclass(frozen=True)
class RadiologyReport:
    """Sections of a report, and the rest outside of them: ``preamble``, ``wet_read``, ``addendum``, ``other``.

    Name -> text on one line, in order of first headings; repeated sections are joined. A joint heading gives one
    section with both names (``findings_and_impression``).
    """

    sections: Mapping[str, str] = field(repr=False)
    rest: Mapping[str, str] = field(repr=False)


class _Mark(NamedTuple):
    start: int
    end: int
    name: str


def read_report(text: str) -> RadiologyReport:
    """A report's sections. Never raises, and loses no words except headings."""
    marks = [*_marks(text), _Mark(len(text), len(text), _OTHER)]
    parts_by_name: dict[str, list[str]] = {}
    _keep(parts_by_name, "preamble", text[: marks[0].start])
    for mark, after in pairwise(marks):
        # An unknown heading says what follows, so it stays in front of it.
        start = mark.start if mark.name == _OTHER else mark.end
        _keep(parts_by_name, "preamble" if mark.name == "final_report" else mark.name, text[start : after.start])
    joined = {name: " ".join(parts) for name, parts in parts_by_name.items()}
    rest = {"preamble", _OTHER, *_REST}
    return RadiologyReport(
        {name: part for name, part in joined.items() if name not in rest},
        {name: part for name, part in joined.items() if name in rest},
    )


def _keep(parts_by_name: dict[str, list[str]], name: str, text: str) -> None:
    line = " ".join(text.split())
    if line and line not in parts_by_name.get(name, []):
        parts_by_name.setdefault(name, []).append(line)


def _marks(text: str) -> list[_Mark]:
    """Headings in order, not nested; an unknown heading inside findings or impression is part of these."""
    at_start = (
        match
        for match in _AT_START.finditer(text)
        if _is_heading(match["head"], match["end"], text[match.end() : match.end() + 40])
    )
    usual = [
        _Mark(match.start("head"), match.end(), _name(match["head"]))
        for match in (*at_start, *_INSIDE.finditer(text))
    ]
    headings: list[_Mark] = []
    for mark in sorted(usual, key=lambda mark: (mark.start, -mark.end)):
        if not headings or mark.start >= headings[-1].end:
            headings.append(mark)
    starts = {mark.start for mark in headings}
    unknown = (
        _Mark(match.start("head"), match.end(), _OTHER)
        for match in _UNKNOWN.finditer(text)
        if match.start("head") not in starts and not any(mark.start < match.end() <= mark.end for mark in headings)
    )
    top_level: list[_Mark] = []
    for mark in sorted([*headings, *unknown], key=lambda mark: mark.start):
        if not (mark.name == _OTHER and top_level and top_level[-1].name in _WITH_PARTS):
            top_level.append(mark)
    return top_level


def _is_heading(head: str, end: str, after: str) -> bool:
    """True for a heading: with a colon, or else by its case and the text after it."""
    if ":" in end:
        return True
    if not after or after[0] == "\n":
        return head[0].isupper()
    if not head.isupper():
        return False
    if "-" in end or "\t" in end or len(end) > 1:
        return True
    word = re.split(r"\s", after, maxsplit=1)[0]
    return any(letter.islower() for letter in word) or not any(letter.isalpha() for letter in word)


def _name(head: str) -> str:
    plain = re.sub(r"\s*\(s\)|\s+version\s*#?\d+", "", head, flags=re.IGNORECASE)
    parts = [_NAMES[" ".join(part.lower().split())] for part in _SPLIT.split(plain)]
    names = list(dict.fromkeys(parts))
    if set(names) == {"indication", "history"}:
        return "indication"
    return "_and_".join(names)
