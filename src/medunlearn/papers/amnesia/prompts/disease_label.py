"""AMNESIA: a disease category for a note, by its title."""

from __future__ import annotations

from typing import Any, ClassVar

from medunlearn.judging.writing.task import WritingTask
from medunlearn.judging.writing.word_overlap import content

OTHER = "Other"


class DiseaseLabel(WritingTask):
    """Sorts a note's title into one of AMNESIA's eleven disease categories, or Other, with a short reason.

    A source has ``title``; a result is ``{"category", "reason"}``. The paper has the model repeat id and
    title, too; here a result belongs to its request, so nothing has to be repeated.

    Source: AMNESIA, Section 3.1, Table 1 and Appendix B.1.
    """

    name: ClassVar[str] = "disease_label"
    title: ClassVar[str] = "disease labels"

    @property
    def categories(self) -> tuple[str, ...]:
        """The eleven, and Other at the end."""
        return tuple(self.prompt.schema["properties"]["category"]["enum"])

    def wrong(self, source: Any, value: Any) -> str:
        if value["category"] != OTHER and not content(value["reason"]) & content(source.fields["title"]):
            return "the reason uses no word of the title"
        return ""
