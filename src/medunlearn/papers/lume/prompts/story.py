"""LUME, Task 1: short stories about characters and places that exist nowhere else."""

from __future__ import annotations

from typing import Any, ClassVar

from medunlearn.judging.writing.task import Source, WritingTask
from medunlearn.judging.writing.words import holds, words
from medunlearn.synthetic.stories import LONGEST, SHORTEST


class LumeStory(WritingTask):
    """Writes a story of 150 to 200 words with the given genre, place and characters.

    A source has ``genre``, ``place`` and ``names`` (with commas between them); a result is ``{"story"}``. Code
    checks: its length, and that place and every name stand in it.

    Source: LUME, Section 2.1 (Task 1) and Appendix B.
    """

    name: ClassVar[str] = "lume_story"
    title: ClassVar[str] = "stories"

    def wrong(self, source: Source, value: Any) -> str:
        story, count = value["story"], words(value["story"])
        if not SHORTEST <= count <= LONGEST:
            return f"the story has {count} words and must have {SHORTEST} to {LONGEST}"
        if not holds(story, source.fields["place"]):
            return "the place is not named in the story"
        if not all(holds(story, name) for name in source.fields["names"].split(", ")):
            return "a character is not named in the story"
        return ""
