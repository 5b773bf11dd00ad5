"""The memorization audit: the kind of a memorized span."""

from __future__ import annotations

import re
from typing import Any, ClassVar

from medunlearn.judging.writing.task import WritingTask

UNCLEAR = "unclear"


class MemorizedKind(WritingTask):
    """Sorts a memorized span into one of the kinds of :mod:`medunlearn.audit.kinds`, with a short reason.

    A source has ``span``; a result is ``{"kind", "reason"}``. ``unclear`` is an answer, and no kind: it is
    declined.

    Source: Memorization in Large Language Models in Medicine, Table 3 and Figure 8.
    """

    name: ClassVar[str] = "memorized_kind"
    title: ClassVar[str] = "kinds of memorized text"

    def wrong(self, source: Any, value: Any) -> str:
        # A reason is kept in tables that hold no record's text; numbers are what gives a person away first.
        return "the reason has a number; give it in words" if re.search(r"\d", value["reason"]) else ""

    def declined(self, source: Any, value: Any) -> str:
        return "the model finds that no kind fits" if value["kind"] == UNCLEAR else ""
