"""MedForget: a generation, a cloze and a classification item on one section of a report."""

from __future__ import annotations

from typing import Any, ClassVar

from medunlearn.judging.writing import answer_rules as rules
from medunlearn.judging.writing.task import Source, WritingTask
from medunlearn.judging.writing.word_overlap import holds, words
from medunlearn.seeds import generator

BLANK = "[blank]"
LONGEST_CLOZE = 5  # words
SUPPORTED = 0.6  # of the words of a generation item's answer


class MedforgetSection(WritingTask):
    """Writes three items on a report's section: describe it, fill a gap, choose among options.

    A source has ``section`` (its name) and ``text``; a result is ``{"generation", "cloze", "classification"}``.
    Code checks: the section supports the generated answer; one gap, whose answer stands in the section and not in
    the statement; options differ and the section supports the right one best. Options come back in an order
    drawn from the source's id, since models like to put the right one first.

    Source: MedForget, Sections 3.2, 3.3 and Table 2.
    """

    name: ClassVar[str] = "medforget_section"
    title: ClassVar[str] = "section items"

    def wrong(self, source: Source, value: Any) -> str:
        text, known = source.fields["text"], source.identifiers or ()
        open_item, gap, choice = value["generation"], value["cloze"], value["classification"]
        shown = (open_item["question"], gap["statement"], choice["question"])
        told = (open_item["answer"], gap["answer"], *choice["options"])
        return rules.first(
            *(rules.asks_identity(asked) for asked in shown),
            rules.identifiers((*shown, *told), known),
            _named("generation", rules.answer(open_item["answer"], text, least=SUPPORTED, numbers=True)),
            _named("generation", rules.gives_away(open_item["question"], open_item["answer"])),
            _named("cloze", wrong_cloze(gap["statement"], gap["answer"], text)),
            _named("classification", rules.question(choice["question"])),
            _named("classification", rules.options(choice["options"], choice["answer_index"], text)),
        )

    def shaped(self, source: Source, value: Any) -> Any:
        choice = value["classification"]
        order = [int(place) for place in generator("options", source.id).permutation(len(choice["options"]))]
        mixed = {
            "question": choice["question"],
            "options": [choice["options"][place] for place in order],
            "answer_index": order.index(choice["answer_index"]),
        }
        return {**value, "classification": mixed}


def wrong_cloze(statement: str, answer: str, text: str) -> str:
    """Error of a gap and its answer."""
    if statement.count(BLANK) != 1:
        return f"the statement must have exactly one {BLANK}"
    if words(answer) > LONGEST_CLOZE:
        return f"the answer has more than {LONGEST_CLOZE} words"
    if not holds(text, answer):
        return "the answer is not in the section word for word"
    if holds(statement, answer):
        return "the statement gives its own answer away"
    return ""


def _named(item: str, problem: str) -> str:
    return f"{item}: {problem}" if problem else ""
