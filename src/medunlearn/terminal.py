"""Text for terminals: values with their intervals; untrusted text, whose escape sequences have no effect."""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

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


def terminal_width() -> int | None:
    """Columns of the terminal that standard output goes to; None where it goes to a file or pipe."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def wrapped(text: str, width: int) -> list[str]:
    """Lines broken between words; a word that is longer stays whole."""
    lines, current = list[str](), ""
    for word in text.split(" "):
        longer = f"{current} {word}" if current else word
        if current and len(longer) > width:
            lines.append(current)
            longer = word
        current = longer
    return [*lines, current]


def relative_path(path: str | Path) -> str:
    """A path as the user would type it: relative to the working folder if inside it."""
    here = Path.cwd()
    return str(Path(path).relative_to(here) if Path(path).is_relative_to(here) else path)


def sentence(words: str) -> str:
    """Words that begin with a capital."""
    return f"{words[:1].upper()}{words[1:]}"


UNSCORED = "unscored"


def cell_text(cell: object) -> str:
    """A number with four digits; nothing for a missing value."""
    return "" if absent(cell) else f"{cell:.4g}" if isinstance(cell, float) else str(cell)


def absent(value: Any) -> bool:
    """True for None, NaN or NA, without importing pandas."""
    return value is None or str(value) in ("nan", "<NA>", "NaT")


def with_interval(
    row: Mapping[Any, Any], value: str = "value", low: str = "low", high: str = "high", digits: int = 3
) -> str:
    """``0.98 [0.97, 0.99]``; a missing mean is printed as unscored, never as 0."""
    if absent(row[value]):
        return UNSCORED
    interval = "" if absent(row.get(low)) else f" [{row[low]:.{digits}f}, {row[high]:.{digits}f}]"
    return f"{row[value]:.{digits}f}{interval}"


def size(count: float) -> str:
    """Bytes: ``1.5 GiB``, for fewer ``312 MiB`` or ``7 KiB``."""
    if count >= 2**30:
        return f"{count / 2**30:.1f} GiB"
    return f"{count / 2**20:.0f} MiB" if count >= 2**20 else f"{count / 2**10:.0f} KiB"


def short_number(number: float) -> str:
    """A number with three digits and a unit: 749k, 11.4T."""
    for unit in ("", "k", "M", "G", "T", "P"):
        if number < 999.5:
            return f"{number:.3g}{unit}"
        number /= 1000
    return f"{number:.3g}E"
