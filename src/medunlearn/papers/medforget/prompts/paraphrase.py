"""MedForget: the same question in other words, for the rephrased forget set."""

from __future__ import annotations

import re
from typing import Any, ClassVar

from medunlearn.judging.writing import answer_rules as rules
from medunlearn.judging.writing.task import Source, WritingTask
from medunlearn.judging.writing.word_overlap import holds, squeezed, words
from medunlearn.papers.medforget.prompts.section import BLANK

SHORTEST, LONGEST = 0.4, 2.5  # of the original's number of words


class MedforgetParaphrase(WritingTask):
    """Rewords a question; its answer stays the right one.

    A source has ``question`` and ``answer``; a result is ``{"question"}``. Code checks: another wording, of like
    length; a gap stays one gap and a question a question; an answer that the original did not contain is not given
    away; no identifier that the original did not name.

    Source: MedForget, Section 3.3 (Forget Rephrase Set).
    """

    name: ClassVar[str] = "medforget_paraphrase"
    title: ClassVar[str] = "paraphrases"

    def wrong(self, source: Source, value: Any) -> str:
        before, answer, after = source.fields["question"], source.fields["answer"], value["question"]
        new_names = [name for name in source.identifiers or () if squeezed(name) not in squeezed(before)]
        if _sorted_words(before) == _sorted_words(after):
            return "it is the same question in the same words"
        if not SHORTEST <= words(after) / words(before) <= LONGEST:
            return "it is much shorter or longer than the question"
        if before.count(BLANK) != after.count(BLANK):
            return f"it must have {before.count(BLANK)} {BLANK}"
        if before.rstrip().endswith("?") and (problem := rules.question(after)):
            return problem
        if holds(after, answer) and not holds(before, answer):
            return "it gives the answer away"
        if rules.asks_identity(after) and not rules.asks_identity(before):
            return "it asks for an identifying fact that the question does not ask for"
        return rules.identifiers([after], new_names)


def _sorted_words(text: str) -> list[str]:
    return sorted(re.findall(r"\w+", squeezed(text)))
