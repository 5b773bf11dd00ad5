"""MedForget's writing tasks: three items on a report section, and paraphrases of questions."""

from __future__ import annotations

import re
from typing import Any, ClassVar

from medunlearn.data.answer_texts import BLANK, normalised
from medunlearn.judging.writing import answer_rules as rules
from medunlearn.judging.writing.task import Source, WritingTask
from medunlearn.judging.writing.word_overlap import holds, squeezed, words
from medunlearn.papers.medforget.items import wrong_cloze
from medunlearn.seeds import generator

SUPPORTED = 0.6  # of the words of a generation item's answer
SHORTEST, LONGEST = 0.4, 2.5  # of the original's number of words


class MedforgetSection(WritingTask):
    """Writing task: three items on a report section: a description, a cloze, and a multiple choice.

    A source has ``section`` (its name) and ``text``; a result is ``{"generation", "cloze", "classification"}``.
    Code checks: the section supports the generated answer; one gap, whose answer occurs in the section and not in
    the statement; options differ and the section supports the right one best. Options are shuffled by the source's
    id, since models tend to put the right one first.

    Source: MedForget, Sections 3.2, 3.3 and Table 2.
    """

    name: ClassVar[str] = "medforget_section"
    title: ClassVar[str] = "section items"

    def wrong(self, source: Source, value: Any) -> str:
        text, options = source.fields["text"], value["classification"]["options"]
        open_item, gap, choice = value["generation"], value["cloze"], value["classification"]
        questions = (open_item["question"], gap["statement"], choice["question"])
        answers = (open_item["answer"], gap["answer"], *options)
        alike = len(set(map(normalised, options))) < len(options)
        return rules.first(
            *map(rules.asks_identity, questions),
            rules.identifiers((*questions, *answers), source.identifiers or ()),
            _prefix_problem("generation", rules.answer(open_item["answer"], text, least=SUPPORTED, numbers=True)),
            _prefix_problem("generation", rules.gives_away(open_item["question"], open_item["answer"])),
            _prefix_problem("cloze", wrong_cloze(gap["statement"], gap["answer"], text)),
            _prefix_problem("classification", rules.question(choice["question"])),
            _prefix_problem("classification", "two options are the same" if alike else ""),
            _prefix_problem("classification", rules.options(options, choice["answer_index"], text)),
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


def _prefix_problem(item: str, problem: str) -> str:
    return f"{item}: {problem}" if problem else ""


class MedforgetParaphrase(WritingTask):
    """Writing task: paraphrase a question, keeping its answer.

    A source has ``question`` and ``answer``; a result is ``{"question"}``. Code checks: another wording of similar
    length; the gap, or the question form, is kept; the answer is not revealed unless the original contained it; no
    new identifiers.

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
