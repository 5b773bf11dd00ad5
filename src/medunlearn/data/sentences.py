"""Sentence boundaries, for cutting a text without breaking a sentence."""

from __future__ import annotations

import re

_END = re.compile(r"[.!?]+[\"'”’)\]]*\s+|\n\s*")
_STARTS = re.compile(r"[\"'“‘(\[]*[A-Z0-9]")
# A full stop after these, or after a single capital letter, ends no sentence.
_ABBREVIATION = re.compile(
    r"(?:^|[\s(\"'“])(?:Dr|Mr|Mrs|Ms|Prof|St|Sr|Jr|Lt|Col|Gen|Rev|Hon|vs|No|Nos|Vol|pp|ca|cf|approx|e\.g|i\.e|etc"
    r"|Inc|Ltd|Co|Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sep|Sept|Oct|Nov|Dec|[A-Z](?:\.[A-Z])*)\.$"
)

_LONGEST = 12
"""No abbreviation is longer, with what stands before it."""


def sentence_starts(text: str) -> list[int]:
    """Offsets of the first letter of each sentence; a line break always ends a sentence."""
    start = len(text) - len(text.lstrip())
    places = [start] if start < len(text) else []
    for end in _END.finditer(text):
        after = end.end()
        if after >= len(text) or after <= start:
            continue
        by_line = "\n" in end.group()
        if by_line or (
            _STARTS.match(text, after)
            and not _ABBREVIATION.search(text, max(0, end.start() - _LONGEST), end.start() + 1)
        ):
            places.append(after)
    return places


def cut_to(text: str, least: int, most: int) -> str | None:
    """The first sentences of a text, at most ``most`` words in total; None if they have fewer than ``least``
    words.
    """
    if len(text.split()) <= most:
        shortened = text.strip()
    else:
        ends = [place for place in sentence_starts(text)[1:] if len(text[:place].split()) <= most]
        shortened = text[: ends[-1]].strip() if ends else ""
    return shortened if len(shortened.split()) >= least else None
