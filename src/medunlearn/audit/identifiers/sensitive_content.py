"""The memorization audit: what a response repeats of a patient's record that is sensitive."""

from __future__ import annotations

import re
from typing import Any, ClassVar

from medunlearn.judging.writing.task import Source, WritingTask

_WORD = re.compile(r"[^\W_]+")


class SensitiveContent(WritingTask):
    """Lists sensitive content that stands in a response and in its record, by category.

    A source has ``record`` and ``response``; a result is ``{"pieces": [{"category", "quote"}]}``. A quote that does
    not stand in both, whatever its case and punctuation, is refused.

    Source: Memorization in Large Language Models in Medicine, Section 3.3 and Table 10, where people do this.
    """

    name: ClassVar[str] = "sensitive_content"
    title: ClassVar[str] = "sensitive content"

    def wrong(self, source: Source, value: Any) -> str:
        said, record = (_plain(source.fields[name]) for name in ("response", "record"))
        quotes = [_plain(piece["quote"]) for piece in value["pieces"]]
        if any(not quote.strip() for quote in quotes):
            return "a quote has no word"
        for where, text in (("text", said), ("record", record)):
            missing = sum(quote not in text for quote in quotes)
            if missing:
                return f"{missing} of the quotes do not stand in the {where} to the letter"
        return "the same quote stands twice" if len(set(quotes)) < len(quotes) else ""


def _plain(text: str) -> str:
    """Lower-case words with a space before, between and after: a quote is found as whole words."""
    return f" {' '.join(_WORD.findall(text.lower()))} "
