"""LUME, Tasks 1 and 3: a question on a story or a public biography that has exactly one short answer."""

from __future__ import annotations

from typing import Any, ClassVar

from medunlearn.judging.writing import rules
from medunlearn.judging.writing.task import Source, WritingTask
from medunlearn.judging.writing.words import holds, words

LONGEST_ANSWER = 5  # words
DECLINED = {
    "no_proper_nouns": "the text has no proper noun to ask about",
    "no_unambiguous_question": "the model found no question that has exactly one answer",
}


class LumeQuestion(WritingTask):
    """Writes a question with exactly one short answer, or says that the text allows none.

    A source has ``document``; a result is ``{"proper_nouns", "reasoning", "outcome", "question", "answer"}``. Code
    checks: proper nouns and the answer stand in the text, the answer has at most five words and is not in the
    question, the question names one of the proper nouns. A text without proper nouns, or without such a question,
    is a reject with that reason. :mod:`lume_verify` has other models try the question.

    Source: LUME, Section 2.3 and Appendix D.
    """

    name: ClassVar[str] = "lume_question"
    title: ClassVar[str] = "questions"

    def wrong(self, source: Source, value: Any) -> str:
        text, nouns = source.fields["document"], value["proper_nouns"]
        if not all(holds(text, noun) for noun in nouns):
            return "a proper noun is not in the text word for word"
        if (value["outcome"] == "no_proper_nouns") != (not nouns):
            return "the outcome does not fit the list of proper nouns"
        if value["outcome"] != "question":
            return ""
        asked, answer = value["question"], value["answer"]
        if not 1 <= words(answer) <= LONGEST_ANSWER:
            return f"the answer must have 1 to {LONGEST_ANSWER} words"
        if not holds(text, answer):
            return "the answer is not in the text word for word"
        if holds(asked, answer):
            return "the question gives its own answer away"
        if not any(holds(asked, noun) for noun in nouns):
            return "the question names none of the proper nouns, so it cannot be understood without the text"
        return rules.question(asked)

    def declined(self, source: Source, value: Any) -> str:
        return DECLINED.get(value["outcome"], "")
