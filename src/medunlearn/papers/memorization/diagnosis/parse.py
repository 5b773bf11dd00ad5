"""From a response to an ordered list of diagnoses."""

from __future__ import annotations

import re
from collections.abc import Iterator

LONGEST_NAME = 12
"""Words beyond which a line is no diagnosis but a sentence about one."""

_NUMBER = r"(?:\(?\d{1,2}[.):]|[-*\u2022\u2013])"
_ITEM = re.compile(rf"^\s*{_NUMBER}\s+")
_WITHIN = re.compile(r"(?:^|\s)\(?\d{1,2}[.)]\s+")
_LABEL = re.compile(r"^[^:;,\n]{0,60}\bdiagnos[ei]s\b[^:;,\n]{0,30}:\s*", re.IGNORECASE)
_EXPLAINED = re.compile(r"(?::\s|\s[-\u2013\u2014]\s|\s\().*$", re.DOTALL)
_LETTER = re.compile(r"[^\W\d_]")


def parse_diagnoses(response: str) -> tuple[str, ...]:
    """The diagnoses that a response names, in its order, each once; empty where none is found.

    Read are lists with one diagnosis a line, numbered or with bullets or plain; numbers within one line; names with
    ``;`` between them, or without any with commas. A heading (``Diagnoses:``) is left out, an explanation behind a
    colon, dash or bracket too, and so is a line of more than ``LONGEST_NAME`` words, which is a sentence. Where
    some lines are numbered, the others are talk.
    """
    lines = [line.strip() for line in response.splitlines() if line.strip()]
    lines = [rest for line in lines if (rest := _LABEL.sub("", line))]
    numbered = [line for line in lines if _ITEM.match(line)]
    named = (_name(one) for one in _pieces(numbered or lines))
    found: dict[str, str] = {}
    for name in named:
        if name:
            found.setdefault(name.casefold(), name)
    return tuple(found.values())


def _pieces(lines: list[str]) -> Iterator[str]:
    if len(lines) != 1:
        yield from lines
        return
    (line,) = lines
    if len(within := [part for part in _WITHIN.split(line) if part.strip()]) > 1:
        yield from within
    elif ";" in line:
        yield from line.split(";")
    elif _ITEM.match(line):
        yield line
    else:
        yield from line.split(",")


def _name(piece: str) -> str:
    name = _EXPLAINED.sub("", _ITEM.sub("", piece)).strip(" .;,*_\t")
    if not _LETTER.search(name) or len(name.split()) > LONGEST_NAME:
        return ""
    return name


def reference_diagnoses(reference: str) -> tuple[str, ...]:
    """The diagnoses of a reference answer: every line is one, as it stands but for its number."""
    lines = (_ITEM.sub("", line).strip() for line in reference.splitlines())
    return tuple(line for line in lines if line)


def bare(name: str) -> str:
    """A diagnosis without what explains it, as responses are read; the name itself where nothing would be left."""
    return _name(name) or name
