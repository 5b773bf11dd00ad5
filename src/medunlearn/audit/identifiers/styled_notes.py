"""Invented notes in four styles with every identifier labelled, in two halves.

``held_out`` was written before the rules of ``patterns`` were tuned (on ``development``), and never used to change
them.
"""

from __future__ import annotations

import re
from importlib.resources import files
from typing import Literal, NamedTuple

import yaml

from medunlearn.audit.identifiers.detectors import DetectedSpan

Half = Literal["held_out", "development"]
HALVES: tuple[Half, ...] = ("held_out", "development")
STYLES = ("dictated", "dialogue", "discharge", "radiology")
"""Dictated reports; notes and transcripts of conversations; discharge summaries and letters; radiology reports."""
_LABEL = re.compile(r"\[([^\[\]]+)\]\((\w+)\)")


class StyledNote(NamedTuple):
    """A note, its style, and every identifier in it in order of place."""

    style: str
    text: str
    spans: tuple[DetectedSpan, ...]


def styled_notes(half: Half = "held_out") -> list[StyledNote]:
    """The notes of one half, in the order of :data:`STYLES`."""
    notes = yaml.safe_load((files(__package__) / "notes_in_styles" / f"{half}.yaml").read_text(encoding="utf-8"))
    return [StyledNote(style, *read_marked(note)) for style in STYLES for note in notes[style]]


def read_marked(marked: str) -> tuple[str, tuple[DetectedSpan, ...]]:
    """Text and labels of ``... [Ada Vane](name) ...``."""
    text, spans, end = "", [], 0
    for match in _LABEL.finditer(marked):
        text += marked[end : match.start()]
        spans.append(DetectedSpan(len(text), len(text) + len(match[1]), match[2]))
        text += match[1]
        end = match.end()
    return text + marked[end:], tuple(spans)
