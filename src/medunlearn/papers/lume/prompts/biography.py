"""LUME, Task 2: biographies of invented people with identifiers that can belong to nobody."""

from __future__ import annotations

from typing import Any, ClassVar

from medunlearn.judging.writing.task import Source, WritingTask
from medunlearn.judging.writing.words import words

FACTS = ("name", "birth_date", "ssn", "phone", "email", "address")
SHORTEST, LONGEST = 60, 150  # words


class LumeBiography(WritingTask):
    """Writes a biography of an invented person around given identifiers.

    A source has ``name``, ``birth_date``, ``ssn``, ``phone``, ``email``, ``address``; its ``identifiers`` are
    ``()``, since they are nobody's. A result is ``{"biography"}``. Code checks: its length, and that every fact
    stands in it to the letter.

    Source: LUME, Section 2.1 (Task 2) and Appendix C; it gives no length.
    """

    name: ClassVar[str] = "lume_biography"
    title: ClassVar[str] = "biographies"

    def wrong(self, source: Source, value: Any) -> str:
        text, count = value["biography"], words(value["biography"])
        if not SHORTEST <= count <= LONGEST:
            return f"the biography has {count} words and must have {SHORTEST} to {LONGEST}"
        missing = [fact for fact in FACTS if source.fields[fact] not in text]
        return f"it lacks, letter by letter: {', '.join(missing)}" if missing else ""
