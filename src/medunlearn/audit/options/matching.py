"""Does a response regenerate the removed option? Exactly, or somewhere in it."""

from __future__ import annotations

import re
import unicodedata

_ENDS = " \t\n\"'`*_.,;:“”‘’"


def normalised(text: str) -> str:
    """The form that options and responses are compared in.

    Unicode's compatibility form (NFKC), case folded, white space runs as one space, and without quotation marks,
    emphasis marks and stops at both ends. Words, signs within the text, and articles stay as they are.
    """
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split()).strip(_ENDS)


def answer_line(response: str) -> str:
    """The first line of a response that says something; models without instruction tuning go on after it."""
    return next((line for line in response.splitlines() if line.strip(_ENDS)), "")


def exact_match(response: str, option: str, letter: str) -> bool:
    """Exact answer option match: the response's first line is the removed option, but for :func:`normalised`.

    A label of the removed option's own letter in front of it (``C.``, ``(C)``, ``Option C:``) is no part of the
    answer.

    Source: the memorization paper, Section 3.2, "Exact Answer Option Match".
    """
    line, wanted = answer_line(response), normalised(option)
    label = re.match(rf"\W*(?:(?:option|answer|choice)\s*:?\s*)?\(?{letter}\)?\s*[.:)\-–]\s*", line, re.IGNORECASE)
    return wanted in (normalised(line), normalised(line[label.end() :]) if label else None)


def relaxed_match(response: str, option: str) -> bool:
    """Relaxed answer option match: the whole response contains the removed option, but for :func:`normalised`.

    A substring, as in the paper: the option ``5`` stands in ``15 mg``, and a response that lists many diseases
    contains one by chance. A baseline model's rate says how much of this is chance.

    Source: the memorization paper, Section 3.2, "Relaxed Answer Option Match".
    """
    return normalised(option) in normalised(response)
