"""Escaping of untrusted text for terminals: escape sequences, reversed and invisible characters have no effect."""

from __future__ import annotations

import json
import re

_UNSAFE = re.compile(
    "["
    "\x00-\x08\x0b-\x1f\x7f-\x9f"  # C0 without tab and newline, DEL, C1: cursor, colours, titles, links
    "\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\uffa0"  # invisible ones
    "\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff0-\ufffb"  # zero width, line separators, bidi
    "\ud800-\udfff"  # halves of a pair, which no stream can encode
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"  # invisible ones again, and tags
    "]"
)


def printable(text: object) -> str:
    r"""Text in which each character that a terminal obeys or hides is written as JSON writes it: ``\u001b``.

    Tabs and newlines stay. JSON stays the same JSON.
    """
    return _UNSAFE.sub(lambda match: json.dumps(match[0])[1:-1], str(text).replace("\r\n", "\n"))


def printable_line(text: object) -> str:
    """:func:`printable` text on one line."""
    return printable(" ".join(str(text).split()))
